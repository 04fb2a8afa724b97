// SPDX-License-Identifier: Apache-2.0

// A mobile core: an SMF, polycube-upf and a daemon as processes, a base station with a phone, and a server of the network.

package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/wmnsk/go-pfcp/ie"
	"github.com/wmnsk/go-pfcp/message"

	"github.com/polycube/polycube/test/mobile"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/output"
	"github.com/polycube/polycube/test/smf"
)

const (
	upfAddress, smfAddress = "127.0.0.1", "127.0.0.2"
	n3Address              = "192.0.2.1"
	gNB1, gNB2             = "192.0.2.10", "192.0.2.20"
	ueAddress              = "10.1.0.1"
	webServer              = "198.51.100.2"
)

// core is all of it.
type core struct {
	*daemon
	t        *testing.T
	ran, dn  *netns.Node
	one, two *mobile.Station
	phone    *mobile.Phone
	smf      *smf.SMF
	upf      *exec.Cmd
	said     *output.Buffer
	session  *smf.Session
	// reported is what usage reports have said, in order.
	reported []smf.Usage
	// folder has the polycube-upf that is started; "": the one that is tested.
	folder string
	// packets: the session's URR measures packets, too, from its beginning.
	packets bool
}

// newCore starts the daemon with its cubes, and polycube-upf; the SMF has set up its association.
func newCore(t *testing.T, typ string) *core {
	t.Helper()
	return newCoreOf(t, typ, "max-sessions=1000 max-rules=4000")
}

// newCoreOf has tables of some sizes.
func newCoreOf(t *testing.T, typ, sizes string) *core {
	t.Helper()
	return newCoreWith(t, typ, sizes, "")
}

// newCoreWith runs the programs of a folder; "": those that are tested.
func newCoreWith(t *testing.T, typ, sizes, folder string) *core {
	t.Helper()
	c := newUserPlane(t, typ, sizes, folder)
	c.lab.Must(func() (err error) {
		c.smf, err = smf.New(netip.MustParseAddrPort(smfAddress+":8805"), netip.MustParseAddrPort(upfAddress+":8805"), smfAddress)
		return err
	})
	t.Cleanup(func() {
		if err := c.smf.Close(); err != nil {
			t.Error(err)
		}
	})
	if _, err := c.smf.Associate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c
}

// newUserPlane is a core without an SMF.
func newUserPlane(t *testing.T, typ, sizes, folder string) *core {
	t.Helper()
	program(t, "polycube-upf")
	m := newMachine(t)
	if folder != "" {
		m.bin = filepath.Join(folder, "polycubed")
	}
	c := &core{t: t, daemon: m.Start(), folder: folder}
	options := []netns.Option{netns.WithoutTxChecksum(), netns.WithGRO()}
	c.ran, c.dn = c.lab.Host("veth1", "", options...), c.lab.Host("veth2", "", options...)
	c.lab.Run("ethtool", "-K", "veth1", "tx", "off")
	for _, a := range []string{gNB1, gNB2} {
		c.ran.Run("ip", "addr", "add", a+"/24", "dev", "eth0")
	}
	c.dn.Run("ip", "addr", "add", webServer+"/24", "dev", "eth0")
	c.dn.Run("ip", "route", "add", "default", "via", "198.51.100.1")
	for _, line := range []string{
		"router add r1 type=" + typ,
		"r1 ports add p1 ip=" + n3Address + "/24 peer=veth1",
		"r1 ports add p2 ip=198.51.100.1/24 peer=veth2",
		"r1 route add 10.1.0.0/16 " + gNB1,
		"upf add u type=" + typ + " " + sizes,
		"attach u r1:p1",
		"u local-address add " + n3Address,
	} {
		c.Do(line)
	}
	c.startUPF()
	c.one, c.two = mobile.NewStation(t, c.ran.Namespace, gNB1, n3Address), mobile.NewStation(t, c.ran.Namespace, gNB2, n3Address)
	return c
}

// startUPF runs polycube-upf until it serves.
func (c *core) startUPF() {
	c.t.Helper()
	control := filepath.Join(c.dir, "upf.sock")
	c.said = &output.Buffer{}
	path := program(c.t, "polycube-upf")
	if c.folder != "" {
		path = filepath.Join(c.folder, "polycube-upf")
	}
	c.upf = c.lab.Command(path, "--cube", "u", "--address", upfAddress, "--pool", "10.1.0.0/16", "--socket", c.socket(),
		"--bpffs", c.pins, "--state-dir", filepath.Join(c.dir, "upf"), "--control", control, "--heartbeat", "1s", "--t1", "1s")
	c.upf.Stdout, c.upf.Stderr = c.said, c.said
	if err := c.upf.Start(); err != nil {
		c.t.Fatal(err)
	}
	cmd, said := c.upf, c.said
	c.t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
		if c.t.Failed() {
			c.t.Logf("polycube-upf said:\n%s", tail(said.String(), 40))
		}
	})
	c.eventually(func() error {
		if r := run(c.t, exec.CommandContext(c.t.Context(), program(c.t, "polycube-upf"), "status", "--control", control), ""); r.code != 0 {
			return fmt.Errorf("polycube-upf does not serve: %s\n%s", r.stderr, said)
		}
		return nil
	})
}

// killUPF ends it as a crash does.
func (c *core) killUPF() {
	c.t.Helper()
	if err := c.upf.Process.Signal(syscall.SIGKILL); err != nil {
		c.t.Fatal(err)
	}
	_ = c.upf.Wait() // it was killed
}

func (c *core) eventually(what func() error) {
	c.t.Helper()
	netns.Eventually(c.t, patience, what)
}

// attach establishes the session of the phone, and gives it its tunnel.
func (c *core) attach(more ...*ie.IE) {
	c.t.Helper()
	ctx, stop := context.WithTimeout(c.t.Context(), patience)
	defer stop()
	rules := append(smf.Device(netip.MustParseAddr(ueAddress), netip.MustParseAddr(gNB1), 1025), more...)
	var err error
	if c.session, err = c.smf.Establish(ctx, 7, rules...); err != nil {
		c.t.Fatal(err)
	}
	c.attachPhone(c.session.TEIDs[1], ueAddress)
}

// attachPhone gives the phone its tunnels and its address.
func (c *core) attachPhone(uplink uint32, address string) {
	c.t.Helper()
	c.phone = &mobile.Phone{Uplink: uplink, Downlink: 1025, QFI: 9}
	c.one.Attach(c.ran.Namespace, "phone", c.phone, address+"/32")
	c.ran.Run("ip", "route", "add", "198.51.100.0/24", "dev", "phone", "src", address)
}

// modify modifies the session.
func (c *core) modify(rules ...*ie.IE) {
	c.t.Helper()
	ctx, stop := context.WithTimeout(c.t.Context(), patience)
	defer stop()
	m, err := c.smf.Modify(ctx, c.session, rules...)
	if err != nil {
		c.t.Fatal(err)
	}
	c.note(m)
}

// note reads the usage reports of a message.
func (c *core) note(m message.Message) {
	c.t.Helper()
	reports, err := smf.UsageReports(m)
	if err != nil {
		c.t.Error(err)
	}
	c.reported = append(c.reported, reports...)
}

// asked waits for a Session Report Request.
func (c *core) asked(is func(m *message.SessionReportRequest) bool) {
	c.t.Helper()
	deadline := time.After(patience)
	for {
		select {
		case m := <-c.smf.Requests():
			c.note(m)
			if r, ok := m.(*message.SessionReportRequest); ok && is(r) {
				return
			}
		case <-deadline:
			c.t.Fatal("no report has come")
		}
	}
}

// serve gives each client of the server what it downloads.
func (c *core) serve(content []byte) {
	c.dn.Must(func() error {
		l, err := net.Listen("tcp", ":80")
		if err != nil {
			return err
		}
		c.t.Cleanup(func() { _ = l.Close() })
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				go func() {
					_, _ = conn.Write(content) // the client compares
					_ = conn.Close()
				}()
			}
		}()
		return nil
	})
}

// download gets it on the phone.
func (c *core) download(want []byte) {
	c.t.Helper()
	var conn net.Conn
	c.ran.Must(func() (err error) {
		conn, err = net.DialTimeout("tcp", webServer+":80", patience)
		return err
	})
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(patience))
	if got, err := io.ReadAll(conn); err != nil || !bytes.Equal(got, want) {
		c.t.Errorf("the phone gets %d bytes of %d: %v", len(got), len(want), err)
	}
}

// interfaceCounts are the bytes and packets that the phone has sent and got.
func (c *core) interfaceCounts() (is smf.Usage) {
	c.t.Helper()
	c.ran.Must(func() error {
		link, err := netlink.LinkByName("phone")
		if err == nil {
			n := link.Attrs().Statistics
			is = smf.Usage{Total: n.TxBytes + n.RxBytes, Up: n.TxBytes, Down: n.RxBytes, UpPackets: n.TxPackets, DownPackets: n.RxPackets}
		}
		return err
	})
	return is
}

// settledCounts are the interfaceCounts when no packet is on its way any more.
func (c *core) settledCounts() (is smf.Usage) {
	c.t.Helper()
	c.eventually(func() error {
		if now := c.interfaceCounts(); now != is {
			is = now
			return errors.New("packets still come")
		}
		return nil
	})
	return is
}

// remove deletes the session, and compares all reports with what the phone has sent and got.
func (c *core) remove() {
	c.t.Helper()
	want := c.settledCounts()
	ctx, stop := context.WithTimeout(c.t.Context(), patience)
	defer stop()
	c.one.AllowErrors() // what a phone sends late, such as a segment of TCP again, has no session any more
	m, err := c.smf.Delete(ctx, c.session)
	if err != nil {
		c.t.Fatal(err)
	}
	for {
		select {
		case m := <-c.smf.Requests():
			c.note(m)
			continue
		default:
		}
		break
	}
	c.note(m)
	if !c.packets {
		want.UpPackets, want.DownPackets = 0, 0
	}
	if sum := sumOf(c.reported); sum != want {
		c.t.Errorf("reported were %+v, and through the phone's interface went %+v: %+v", sum, want, c.reported)
	}
}

// sumOf adds up usage reports, each of which may have been sent again.
func sumOf(reports []smf.Usage) (sum smf.Usage) {
	numbers := map[uint32]bool{}
	for _, r := range reports {
		if numbers[r.Sequence] {
			continue
		}
		numbers[r.Sequence] = true
		sum.Up, sum.Down, sum.Total = sum.Up+r.Up, sum.Down+r.Down, sum.Total+r.Total
		sum.UpPackets, sum.DownPackets = sum.UpPackets+r.UpPackets, sum.DownPackets+r.DownPackets
	}
	return sum
}

// onEachUserPlane runs a test at both hooks.
func onEachUserPlane(t *testing.T, test func(t *testing.T, c *core)) {
	for _, typ := range []string{"TC", "XDP_DRV"} {
		t.Run(typ, func(t *testing.T) {
			t.Parallel()
			test(t, newCore(t, typ))
		})
	}
}

// TestAMobileCoreCountsEachByteOnce: reports at thresholds, on request and at the end add up to what the phone has sent and got.
func TestAMobileCoreCountsEachByteOnce(t *testing.T) {
	onEachUserPlane(t, func(t *testing.T, c *core) {
		content := bytes.Repeat([]byte("0123456789abcdef"), 1<<16) // 1 MiB
		c.serve(content)
		c.attach()
		c.ran.Reaches(t, patience, webServer)
		c.modify(smf.URR{ID: 1, Triggers: [2]byte{2}, Threshold: 200_000}.Update())
		c.download(content)
		c.asked(func(m *message.SessionReportRequest) bool { return len(m.UsageReport) > 0 })
		c.modify(ie.NewQueryURR(ie.NewURRID(1)))
		c.download(content)
		c.remove()
		if len(c.reported) < 4 {
			t.Errorf("%d reports: %+v", len(c.reported), c.reported)
		}
	})
}

// TestACoreSurvivesEachOfItsParts: the session and its counts survive the crash of polycube-upf, of the daemon, and of both.
func TestACoreSurvivesEachOfItsParts(t *testing.T) {
	onEachUserPlane(t, func(t *testing.T, c *core) {
		content := bytes.Repeat([]byte("0123456789abcdef"), 1<<15)
		c.serve(content)
		c.attach()
		c.ran.Reaches(t, patience, webServer)
		c.download(content)
		c.killUPF()
		c.download(content)
		c.modifyAfter(c.startUPF)
		c.Kill9()
		c.download(content)
		c.daemon = c.Start()
		c.download(content)
		c.modifyAfter(func() {})
		c.killUPF()
		c.Kill9()
		c.download(content)
		c.daemon = c.Start()
		c.modifyAfter(c.startUPF)
		c.download(content)
		c.remove()
	})
}

// modifyAfter does something and then queries the usage.
func (c *core) modifyAfter(do func()) {
	c.t.Helper()
	do()
	c.modify(ie.NewQueryURR(ie.NewURRID(1)))
}

// TestACubeThatIsMadeAgainGetsItsSessions.
func TestACubeThatIsMadeAgainGetsItsSessions(t *testing.T) {
	c := newCore(t, "TC")
	c.attach()
	c.ran.Reaches(t, patience, webServer)
	c.one.AllowErrors() // while the cube has no session
	c.Do("detach u r1:p1")
	c.Do("upf del u")
	c.eventually(func() error {
		if !strings.Contains(c.said.String(), "the cube was removed") {
			return errors.New("polycube-upf has not seen that the cube is gone")
		}
		return nil
	})
	c.Do("upf add u")
	c.Do("u local-address add " + n3Address)
	c.Do("attach u r1:p1")
	c.ran.Reaches(t, patience, webServer)
	c.modify(ie.NewQueryURR(ie.NewURRID(1)))
}
