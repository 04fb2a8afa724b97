// SPDX-License-Identifier: Apache-2.0

package hairpin

// Hosts in one LAN behind a gateway: ours, and Linux with the same rules in nftables. Hosts must see the same
// behaviour.

import (
	"bufio"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pace"
)

// network is a gateway with two hosts in its LAN and one outside.
type network struct {
	t                       *testing.T
	client, server, outside *netns.Node
	// linux distinguishes the machine to compare with from ours.
	linux bool
	// within is a command on the gateway, nil where nothing can run there.
	within func(name string, args ...string) *exec.Cmd
}

const (
	gateway4, gateway6 = "10.0.1.1", "fd00:1::1"
	// opened is a port forwarded to the server, closed one forwarded to a port without a listener, and other one
	// that is not forwarded.
	opened, closed, other, gateways = "8080", "8081", "9999", "22"
)

func (n *network) address() {
	for host, addresses := range map[*netns.Node][]string{
		n.client: {client + "/24", client6 + "/64"}, n.server: {server + "/24", server6 + "/64"}, n.outside: {isp + "/24", isp6 + "/64"},
	} {
		for _, a := range addresses {
			host.Run("ip", "addr", "add", a, "dev", netns.Inner, "nodad")
		}
	}
	for _, host := range []*netns.Node{n.client, n.server} {
		host.Run("ip", "route", "add", "default", "via", gateway4)
		host.Run("ip", "-6", "route", "add", "default", "via", gateway6)
	}
}

// ourNetwork has a bridge in the LAN, a router, and a nat at the router's port to the outside.
func ourNetwork(t *testing.T, typ cube.Type, shadow bool) *network {
	options := []netns.Option{netns.WithIPv6()}
	if typ != cube.TypeTC {
		options = append(options, netns.WithoutTxChecksum(), netns.WithGRO())
	}
	l := bpftest.New(t, bpftest.Options{Type: typ, Host: options, Shadow: shadow})
	l.CreateAll(fmt.Sprintf(`[
		{"service-name":"simplebridge","name":"lan","ports":[{"name":"client","peer":"veth1"},{"name":"server","peer":"veth3"},{"name":"gw","peer":"gw:lan"}]},
		{"service-name":"router","name":"gw","shadow":%t,"arp":{"duplicate-detection":false},"ports":[
			{"name":"lan","peer":"lan:gw","ip":"%s/24","secondaryip":[{"ip":"%s/64"}]},
			{"name":"wan","peer":"veth2","tcubes":["masq"],"ip":"%s/24","secondaryip":[{"ip":"%s/64"}]}]},
		{"service-name":"nat","name":"masq","rule":{"masquerade":{"enabled":true},"port-forwarding":{"entry":[
			{"id":1,"external-ip":"%[4]s","external-port":%[6]s,"internal-ip":"%[8]s","internal-port":80},
			{"id":2,"external-ip":"%[4]s","external-port":%[7]s,"internal-ip":"%[8]s","internal-port":81},
			{"id":3,"external-ip":"%[5]s","external-port":%[6]s,"internal-ip":"%[9]s","internal-port":80},
			{"id":4,"external-ip":"%[5]s","external-port":%[7]s,"internal-ip":"%[9]s","internal-port":81}]}}}]`,
		shadow, gateway4, gateway6, wan, wan6, opened, closed, server, server6))
	n := &network{t: t, client: l.Hosts[0], outside: l.Hosts[1], server: l.Hosts[2]}
	if shadow {
		n.within = func(name string, args ...string) *exec.Cmd { return l.Within("gw", name, args...) }
	}
	n.address()
	g := &gateway{l, t}
	netns.Eventually(t, bpftest.Patience, func() error { return g.masquerades(wan, wan6) })
	return n
}

// linuxNetwork has a machine that does the same.
func linuxNetwork(t *testing.T) *network {
	l := netns.NewLab(t, netns.WithIPv6())
	n := &network{t: t, linux: true, within: l.Command}
	for i, h := range []**netns.Node{&n.client, &n.outside, &n.server} {
		*h = l.Host(fmt.Sprintf("veth%d", i+1), "", netns.WithIPv6())
	}
	l.Run("sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1")
	l.Run("ip", "link", "add", "br0", "type", "bridge")
	for _, dev := range []string{"veth1", "veth3"} {
		l.Run("ip", "link", "set", dev, "master", "br0")
	}
	l.Run("ip", "link", "set", "br0", "up")
	for _, a := range [][2]string{{gateway4 + "/24", "br0"}, {gateway6 + "/64", "br0"}, {wan + "/24", "veth2"}, {wan6 + "/64", "veth2"}} {
		l.Run("ip", "addr", "add", a[0], "dev", a[1], "nodad")
	}
	cmd := l.Command("nft", "-f", "-")
	cmd.Stdin = strings.NewReader(fmt.Sprintf(`table inet nat {
		chain in {
			type nat hook prerouting priority dstnat;
			ip daddr %[1]s meta l4proto { tcp, udp } th dport %[3]s dnat ip to %[5]s:80
			ip daddr %[1]s meta l4proto { tcp, udp } th dport %[4]s dnat ip to %[5]s:81
			ip6 daddr %[2]s meta l4proto { tcp, udp } th dport %[3]s dnat ip6 to [%[6]s]:80
			ip6 daddr %[2]s meta l4proto { tcp, udp } th dport %[4]s dnat ip6 to [%[6]s]:81
		}
		chain out {
			type nat hook postrouting priority srcnat;
			oifname "veth2" masquerade
			oifname "br0" ct status dnat ct original ip saddr 10.0.1.0/24 snat ip to %[1]s
			oifname "br0" ct status dnat ct original ip6 saddr fd00:1::/64 snat ip6 to %[2]s
		}
	}`, wan, wan6, opened, closed, server, server6))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Skipf("nftables cannot translate on this machine: %v: %s", err, out)
	}
	n.address()
	return n
}

func TestHostsInsideFindTheSameAsBehindLinux(t *testing.T) {
	t.Parallel()
	for name, network := range map[string]func(t *testing.T) *network{
		"nftables":                 linuxNetwork,
		"ours, tcx":                func(t *testing.T) *network { return ourNetwork(t, cube.TypeTC, false) },
		"ours, tcx, a shadow cube": func(t *testing.T) *network { return ourNetwork(t, cube.TypeTC, true) },
		"ours, XDP":                func(t *testing.T) *network { return ourNetwork(t, cube.TypeXDPDRV, false) },
		"ours, generic XDP":        func(t *testing.T) *network { return ourNetwork(t, cube.TypeXDPSKB, false) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := network(t)
			n.serve(":80")
			for _, v := range []struct{ wan, isp string }{{wan, isp}, {wan6, isp6}} {
				at := func(port string) string { return net.JoinHostPort(v.wan, port) }
				for _, proto := range []string{"tcp", "udp"} {
					n.wantSeenAs(n.client, proto, at(opened), v.wan)
					if !n.linux { // whose rules do not lead a host to itself
						n.wantSeenAs(n.server, proto, at(opened), v.wan)
					}
					n.wantSeenAs(n.outside, proto, at(opened), v.isp)
					n.wantRefused(n.client, proto, at(closed)) // by the server
					n.wantRefused(n.client, proto, at(other))  // by the gateway
				}
				if err := n.client.Ping(v.wan); err != nil {
					t.Errorf("ping %s: %v", v.wan, err)
				}
				n.upload(at(opened))
				n.wantGateways(v.wan)
			}
		})
	}
}

// serve answers each line on the server with the peer's address, over TCP and UDP, until the test ends.
func (n *network) serve(address string) {
	n.t.Helper()
	var stream net.Listener
	var datagrams net.PacketConn
	n.server.Must(func() (err error) {
		if stream, err = net.Listen("tcp", address); err != nil {
			return err
		}
		datagrams, err = net.ListenPacket("udp", address)
		return err
	})
	var working sync.WaitGroup
	var mu sync.Mutex
	var all []net.Conn
	n.t.Cleanup(func() {
		_, _ = stream.Close(), datagrams.Close()
		mu.Lock()
		for _, c := range all {
			_ = c.Close()
		}
		mu.Unlock()
		working.Wait()
	})
	working.Go(func() {
		for {
			c, err := stream.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			all = append(all, c)
			mu.Unlock()
			working.Go(func() { answer(c) })
		}
	})
	working.Go(func() {
		b := make([]byte, 2048)
		for {
			_, from, err := datagrams.ReadFrom(b)
			if err != nil {
				return
			}
			_, _ = datagrams.WriteTo([]byte(from.String()+"\n"), from)
		}
	})
}

// answer reports the sender or, after the line "upload", the sum of the following bytes.
func answer(c net.Conn) {
	r := bufio.NewReader(c)
	line, err := r.ReadString('\n')
	if err != nil {
		return
	}
	if line != "upload\n" {
		_, _ = fmt.Fprintln(c, c.RemoteAddr())
		return
	}
	h := sha256.New()
	_, _ = io.Copy(h, r)
	_, _ = fmt.Fprintf(c, "%x\n", h.Sum(nil))
	_ = c.Close()
}

// dial opens a connection, which must be ended within a time.
func (n *network) dial(host *netns.Node, proto, address string) (net.Conn, error) {
	var c net.Conn
	err := host.Do(func() (err error) {
		c, err = net.DialTimeout(proto, address, pace.Stretch(10*time.Second))
		return err
	})
	if err == nil {
		n.t.Cleanup(func() { _ = c.Close() })
		err = c.SetDeadline(time.Now().Add(pace.Stretch(20 * time.Second)))
	}
	return c, err
}

// ask sends a line and returns the answer.
func (n *network) ask(host *netns.Node, proto, address string) (string, error) {
	c, err := n.dial(host, proto, address)
	if err != nil {
		return "", err
	}
	if _, err := io.WriteString(c, "who\n"); err != nil {
		return "", err
	}
	line, err := bufio.NewReader(c).ReadString('\n')
	return strings.TrimSpace(line), err
}

func (n *network) wantSeenAs(host *netns.Node, proto, address, want string) {
	n.t.Helper()
	got, err := n.ask(host, proto, address)
	if from, _, _ := net.SplitHostPort(got); from != want || err != nil {
		n.t.Errorf("%s to %s: the server sees %q, want %s, %v", proto, address, got, want, err)
	}
}

func (n *network) wantRefused(host *netns.Node, proto, address string) {
	n.t.Helper()
	if got, err := n.ask(host, proto, address); !errors.Is(err, unix.ECONNREFUSED) {
		n.t.Errorf("%s to %s: %q, %v, want it refused", proto, address, got, err)
	}
}

// upload sends many bytes, in superframes where those pass.
func (n *network) upload(address string) {
	n.t.Helper()
	data := make([]byte, 4<<20)
	for i := range data {
		data[i] = byte(i * 7)
	}
	c, err := n.dial(n.client, "tcp", address)
	if err != nil {
		n.t.Errorf("upload to %s: %v", address, err)
		return
	}
	if _, err = c.Write(append([]byte("upload\n"), data...)); err == nil {
		err = c.(*net.TCPConn).CloseWrite()
	}
	line, rerr := bufio.NewReader(c).ReadString('\n')
	if want := fmt.Sprintf("%x\n", sha256.Sum256(data)); line != want || err != nil || rerr != nil {
		n.t.Errorf("upload to %s: the server has %q of it, want %q: %v, %v", address, line, want, err, rerr)
	}
}

// wantGateways has a program on the gateway serve a connection from a host inside.
func (n *network) wantGateways(address string) {
	n.t.Helper()
	if n.within == nil {
		return
	}
	listen := "TCP4-LISTEN:"
	if strings.Contains(address, ":") {
		listen = "TCP6-LISTEN:"
	}
	cmd := n.within("socat", listen+gateways+",reuseaddr,fork", "SYSTEM:echo the gateway; read line")
	if err := cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
	defer func() { _, _ = cmd.Process.Kill(), cmd.Wait() }()
	netns.Eventually(n.t, bpftest.Patience, func() error { // until it listens
		got, err := n.ask(n.client, "tcp", net.JoinHostPort(address, gateways))
		if err == nil && got != "the gateway" {
			err = fmt.Errorf("%q answers", got)
		}
		return err
	})
}
