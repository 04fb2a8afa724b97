// SPDX-License-Identifier: Apache-2.0

// A SYN flood against a web service with its fast paths: efw and elb on one netdev, in front of iptables and HAProxy.

package e2e

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/output"
	"github.com/polycube/polycube/test/pkt"
)

// webAddress is the service of the host. Half of the flood is from webBlocked.
const (
	webAddress = "10.0.0.1:80"
	webBlocked = "198.18.0.0/16"
)

// webRules are the host's firewall.
const webRules = `*filter
:INPUT DROP
:FORWARD DROP
:OUTPUT ACCEPT
-A INPUT -i lo -j ACCEPT
-A INPUT -s ` + webBlocked + ` -j DROP
-A INPUT -d 10.0.0.1 -p tcp --dport 80 -j ACCEPT
-A INPUT -s 10.0.0.0/24 -p tcp --sport 8080 -j ACCEPT
COMMIT
`

// webAsked counts the SYNs of real clients, with those that are sent again.
const webAsked = `table ip asked { chain out { type filter hook output priority filter; tcp dport 80 tcp flags & (fin | syn | rst | ack) == syn counter; }; }`

// webProxy is HAProxy's configuration.
const webProxy = `defaults
  mode tcp
  timeout connect 20s
  timeout client 1h
  timeout server 1h
frontend web
  bind ` + webAddress + `
  default_backend servers
backend servers
  balance roundrobin
  server s1 10.0.0.11:8080
  server s2 10.0.0.12:8080
`

// webHost is a host with the service. Clients and servers are addresses of one network behind its netdev.
type webHost struct {
	*daemon
	t       *testing.T
	network *netns.Node
	content string
	dials   int
	// flooded is the number of SYNs that were sent, of which some are from webBlocked; next is that of the next one.
	flooded, blocked, next atomic.Uint64
}

// needsWeb skips a test without the programs of a web host.
func needsWeb(t *testing.T) {
	t.Helper()
	for _, name := range []string{"haproxy", "nft", "iptables-nft-restore", "iptables-legacy-save"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("needs %s", name)
		}
	}
}

func newWebHost(t *testing.T, typ string) *webHost {
	t.Helper()
	h := &webHost{t: t, daemon: start(t), content: strings.Repeat("0123456789abcdef", 1<<13)}
	h.network = h.lab.Host("web0", "10.0.0.2/24", netns.WithoutTxChecksum(), netns.WithGRO())
	h.lab.Run("ip", "addr", "add", "10.0.0.1/24", "dev", "web0")
	h.lab.Run("ip", "route", "add", "198.18.0.0/15", "via", "10.0.0.2")
	h.network.Run("nft", webAsked)
	for _, a := range []string{"10.0.0.11", "10.0.0.12"} {
		h.network.Run("ip", "addr", "add", a+"/24", "dev", netns.Inner)
		h.network.AnswerLines(a+":8080", func(from net.Addr, _ string) string { return from.String() + " " + h.content })
	}
	rules := h.lab.Command("iptables-nft-restore")
	rules.Stdin = strings.NewReader(webRules)
	if out, err := rules.CombinedOutput(); err != nil {
		t.Fatalf("iptables-nft-restore: %v: %s", err, out)
	}
	for _, line := range []string{
		"efw add efw1 type=" + typ, "attach efw1 web0",
		"elb add elb1 type=" + typ + " max-sessions=1024 source-ports=20000-20199", "elb1 timeout set tcp-transitory=1 tcp-time-wait=1",
		"attach elb1 web0 position=last",
	} {
		h.Do(line)
	}
	return h
}

// proxy runs HAProxy until it listens, and returns its configuration.
func (h *webHost) proxy() string {
	h.t.Helper()
	file := filepath.Join(h.dir, "haproxy.cfg")
	if err := os.WriteFile(file, []byte(webProxy), 0o600); err != nil {
		h.t.Fatal(err)
	}
	said := &output.Buffer{}
	cmd := h.lab.Command("haproxy", "-db", "-f", file)
	cmd.Stdout, cmd.Stderr = said, said
	if err := cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
	})
	netns.Eventually(h.t, patience, func() error {
		var c net.Conn
		err := h.lab.Do(func() (err error) { c, err = net.Dial("tcp", webAddress); return err })
		if err != nil {
			return fmt.Errorf("HAProxy: %w: %s", err, said)
		}
		return c.Close()
	})
	return file
}

// takenOver waits until elb has the service, and efw the rules.
func (h *webHost) takenOver(file string) {
	h.t.Helper()
	h.Do("elb1 haproxy file add " + file)
	netns.Eventually(h.t, patience, func() error {
		var is struct {
			Server []struct{ State string }
		}
		h.Get("/elb/elb1", &is)
		if len(is.Server) != 2 || is.Server[0].State != "UP" || is.Server[1].State != "UP" {
			return fmt.Errorf("elb has not taken over: %+v", is)
		}
		return nil
	})
	h.reports(webBlocked)
}

// reports waits until efw has the rules of the host, and one of them says this.
func (h *webHost) reports(rule string) {
	h.t.Helper()
	netns.Eventually(h.t, patience, func() error {
		gate := h.Do("efw1 status show gate")
		if report := h.Must(http.StatusOK, http.MethodGet, "/efw/efw1/report", ""); strings.TrimSpace(gate) != "OPEN" || !strings.Contains(report, rule) {
			return fmt.Errorf("efw has not taken over: the gate is %s, the report %s", gate, report)
		}
		return nil
	})
}

// webClient is a connection of a client.
type webClient struct {
	net.Conn
	h *webHost
	r *bufio.Reader
	// port is that which the server sees.
	port uint16
}

// connect opens one, which downloads something.
func (h *webHost) connect() *webClient {
	h.t.Helper()
	h.dials++
	c := &webClient{h: h}
	h.network.Must(func() (err error) { c.Conn, err = net.DialTimeout("tcp", webAddress, patience); return err })
	h.t.Cleanup(func() { _ = c.Close() }) // it may be closed
	c.r = bufio.NewReader(c)
	if err := c.download(); err != nil {
		h.t.Fatalf("a new connection: %v", err)
	}
	return c
}

// fast reports whether it passes elb and not HAProxy.
func (c *webClient) fast() bool { return c.port >= 10240 && c.port <= 32767 }

// download asks the server for its content, and compares it.
func (c *webClient) download() error {
	_ = c.SetDeadline(time.Now().Add(patience))
	if _, err := fmt.Fprintln(c, "content"); err != nil {
		return err
	}
	line, err := c.r.ReadString('\n')
	if err != nil {
		return err
	}
	from, content, _ := strings.Cut(strings.TrimSpace(line), " ")
	seen, err := netip.ParseAddrPort(from)
	if err == nil && (content != c.h.content || c.port != 0 && c.port != seen.Port()) {
		err = fmt.Errorf("from %s, was from port %d, %d bytes: %w", from, c.port, len(content), errWrongContent)
	}
	c.port = seen.Port()
	return err
}

var errWrongContent = errors.New("this is not what the server sends")

// sends sends SYNs, each of an address and port of its own, until it is done or has sent that many.
func (h *webHost) sends(raw *netns.Raw, most int, done <-chan struct{}) error {
	for range most {
		select {
		case <-done:
			return nil
		default:
		}
		n := uint32(h.next.Add(1) - 1)
		source := n * 40503 & 0x1ffff // odd: each once in so many
		frame := pkt.Eth(h.network.MAC.String(), h.network.OuterMAC.String()).
			IPv4(netip.AddrFrom4([4]byte{198, 18 + byte(source>>16), byte(source >> 8), byte(source)}).String(), "10.0.0.1").
			TCP(uint16(1024+n>>17+source&0x3fff), 80, pkt.TCPFlags{SYN: true}).Bytes()
		for err := raw.Send(frame); err != nil; err = raw.Send(frame) {
			if !errors.Is(err, unix.ENOBUFS) && !errors.Is(err, unix.EAGAIN) {
				return err
			}
		}
		h.flooded.Add(1)
		if source>>16 == 0 {
			h.blocked.Add(1)
		}
	}
	return nil
}

// flood floods the service from two threads, as long as something happens.
func (h *webHost) flood(happens func()) {
	h.t.Helper()
	done := make(chan struct{})
	var all sync.WaitGroup
	defer all.Wait()
	defer close(done)
	for range 2 {
		raw := netns.OpenRaw(h.t, h.network, netns.Inner)
		all.Go(func() {
			if err := h.sends(raw, 1_000_000, done); err != nil {
				h.t.Error(err)
			}
		})
	}
	happens()
}

// during has connections download as long as something happens, and once more.
func (h *webHost) during(all []*webClient, happens func()) {
	h.t.Helper()
	var downloads atomic.Uint64
	var busy sync.WaitGroup
	done := make(chan struct{})
	for _, c := range all {
		busy.Go(func() {
			for over := false; ; downloads.Add(1) {
				if err := c.download(); err != nil {
					h.t.Errorf("an open connection, fast %t: %v", c.fast(), err)
					return
				}
				if over {
					return
				}
				select {
				case <-done:
					over = true
				default:
				}
			}
		})
	}
	func() {
		defer busy.Wait()
		defer close(done)
		happens()
	}()
	h.t.Logf("%d downloads of %d connections", downloads.Load(), len(all))
}

// webSessions is the container of elb's model.
type webSessions struct {
	Active, Opened, Connected, Full, Undecided uint64

	NoServer uint64 `json:"no-server"`
	NoPort   uint64 `json:"no-port"`
	NoOutput uint64 `json:"no-output"`
	MTU      uint64 `json:"mtu"`
}

func (h *webHost) sessions() (s webSessions) {
	h.t.Helper()
	h.Get("/elb/elb1/sessions", &s)
	return s
}

// webFates is what has become of SYNs.
type webFates struct {
	elb uint64 // opened sessions, or were left to the stack
	// undecided are for iptables, since efw was reading its rules; they may be dropped by the rule as well.
	undecided uint64
	efw       uint64 // dropped by the rule, by fast path or stack
	// flooded and blocked are those of the flood, and of these from webBlocked. Clients have sent at least dials, with those that they
	// sent again asked. Lost are packets that the network lost on its way to the host.
	flooded, blocked, dials, asked, lost uint64
}

func (h *webHost) fates() (f webFates) {
	h.t.Helper()
	s := h.sessions()
	f.elb = s.Opened + s.Connected + s.Full + s.NoServer + s.NoPort + s.NoOutput + s.MTU
	f.undecided = s.Undecided
	var chain []struct {
		Text    string
		Packets uint64
	}
	h.Get("/efw/efw1/chain", &chain)
	for _, rule := range chain {
		if strings.Contains(rule.Text, webBlocked) {
			f.efw += rule.Packets
		}
	}
	f.flooded, f.blocked, f.dials = h.flooded.Load(), h.blocked.Load(), uint64(h.dials)
	_, counted, _ := strings.Cut(h.network.Run("nft", "list", "table", "ip", "asked"), "counter packets ")
	if _, err := fmt.Sscan(counted, &f.asked); err != nil {
		h.t.Fatalf("%s: %v", counted, err)
	}
	h.network.Must(func() error {
		link, err := netlink.LinkByName(netns.Inner)
		if err == nil {
			f.lost = link.Attrs().Statistics.TxDropped
		}
		return err
	})
	return f
}

// eachHasAFate compares what was sent since with what was counted.
func (h *webHost) eachHasAFate(was webFates) {
	h.t.Helper()
	netns.Eventually(h.t, patience, func() error {
		is := h.fates()
		flooded, blocked, lost := is.flooded-was.flooded, is.blocked-was.blocked, is.lost-was.lost
		elb, undecided, efw := is.elb-was.elb, is.undecided-was.undecided, is.efw-was.efw
		if efw > blocked || efw+lost < blocked {
			return fmt.Errorf("the rule has dropped %d SYNs of %d, and the network lost %d packets", efw, blocked, lost)
		}
		if elb > flooded-blocked+is.asked-was.asked || elb+undecided+lost < flooded-blocked+is.dials-was.dials {
			return fmt.Errorf("elb has counted %d SYNs of %d of the flood: %+v, before %+v", elb, flooded-blocked, is, was)
		}
		h.t.Logf("a flood of %d: %d dropped by the rule, elb counted %d, of these up to %d of clients; %d packets lost", flooded, efw, elb, is.asked-was.asked, lost)
		return nil
	})
}

// opens opens connections until enough have come by elb or by HAProxy, or both, and a counter has increased.
func (h *webHost) opens(what string, counter func(webSessions) uint64) {
	h.t.Helper()
	before, fast, slow := counter(h.sessions()), 0, 0
	for deadline := time.Now().Add(patience); fast+slow < 10 || counter(h.sessions()) == before; {
		c := h.connect()
		if c.fast() {
			fast++
		} else {
			slow++
		}
		if err := errors.Join(setLinger(c.Conn, 0), c.Close()); err != nil { // its session ends
			h.t.Fatal(err)
		}
		if time.Now().After(deadline) {
			h.t.Fatalf("no SYN counts as `%s`: %+v", what, h.sessions())
		}
	}
	h.t.Logf("`%s`: %d connections by elb, %d by HAProxy; %+v", what, fast, slow, h.sessions())
}

// TestAFloodBreaksNoConnectionOfAWebService: while SYNs take the source ports, and then the sessions, open connections go on, new ones
// are opened by elb or by HAProxy, and each SYN is counted. Afterwards, elb has room again.
func TestAFloodBreaksNoConnectionOfAWebService(t *testing.T) {
	t.Parallel()
	needsWeb(t)
	for _, typ := range []string{"TC", "XDP_DRV"} {
		t.Run(typ, func(t *testing.T) {
			t.Parallel()
			floodWebHost(t, newWebHost(t, typ))
		})
	}
}

func floodWebHost(t *testing.T, h *webHost) {
	file := h.proxy()
	held := []*webClient{h.connect()}
	if held[0].fast() {
		t.Fatal("elb has a connection before its takeover")
	}
	h.takenOver(file)
	for range 4 {
		c := h.connect()
		if !c.fast() {
			t.Fatal("HAProxy has a connection after the takeover")
		}
		held = append(held, c)
	}
	begun := h.fates()
	h.during(held, func() {
		h.flood(func() {
			h.opens("no-port", func(s webSessions) uint64 { return s.NoPort })
			if n := h.sessions().Full; n != 0 {
				t.Errorf("without source ports, %d SYNs have found no room in the table", n)
			}
			h.Do("elb1 set source-ports=10240-32767")
			h.opens("full", func(s webSessions) uint64 { return s.Full })
		})
	})
	h.eachHasAFate(begun)
	if h.Stats("efw1").Fate(t, "rule") == 0 {
		t.Error("efw has dropped nothing in front of the stack")
	}

	ended := time.Now()
	live := uint64(len(held) - 1)
	netns.Eventually(t, patience, func() error {
		if s := h.sessions(); s.Active != live {
			return fmt.Errorf("%d sessions are active, want the %d of open connections", s.Active, live)
		}
		return nil
	})
	t.Logf("the sessions of the flood have ended after %v", time.Since(ended))
	h.Do("elb1 set source-ports=20000-20199")
	was, before := h.fates(), h.sessions()
	// Half of these reach elb, which has 400 source ports.
	if err := h.sends(netns.OpenRaw(t, h.network, netns.Inner), 400, nil); err != nil {
		t.Fatal(err)
	}
	if !h.connect().fast() {
		t.Error("HAProxy has a connection after the flood")
	}
	h.eachHasAFate(was)
	if s := h.sessions(); s.NoPort != before.NoPort || s.Full != before.Full {
		t.Errorf("after the flood, there is no room for 200 sessions: %+v, before %+v", s, before)
	}
	h.during(held, func() {})
}
