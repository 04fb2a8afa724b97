// SPDX-License-Identifier: Apache-2.0

// What a mobile core and base stations would say of the messages: Wireshark's dissectors read them.

package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/wmnsk/go-pfcp/ie"
	"github.com/wmnsk/go-pfcp/message"

	"github.com/polycube/polycube/gtpu"
	"github.com/polycube/polycube/test/mobile"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/smf"
)

// dump is a tcpdump that writes to a file.
type dump struct {
	t    *testing.T
	cmd  *exec.Cmd
	said io.Reader
	file string
}

// startDump begins to capture at a device; packets that are sent from then on are in the file.
func startDump(t *testing.T, in *netns.Namespace, dev string, filter ...string) *dump {
	t.Helper()
	c := &dump{t: t, file: filepath.Join(t.TempDir(), dev+".pcap")}
	c.cmd = in.Command("tcpdump", append([]string{"-i", dev, "-U", "--immediate-mode", "-Z", "root", "-w", c.file}, filter...)...)
	said, err := c.cmd.StderrPipe()
	if err == nil {
		err = c.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.cmd.Process.Kill() // it may have ended
		_ = c.cmd.Wait()
	})
	c.said = said
	line := make([]byte, 1)
	for text := ""; !strings.Contains(text, "listening on"); text += string(line) {
		if _, err := io.ReadFull(said, line); err != nil {
			t.Fatalf("tcpdump: %s: %v", text, err)
		}
	}
	return c
}

// read returns the fields of the packets that match a filter of tshark, a line each. While tcpdump runs, the last packets may be missing.
func (c *dump) read(filter string, fields ...string) ([]string, error) {
	args := []string{"-r", c.file, "-Y", filter, "-T", "fields"}
	for _, f := range fields {
		args = append(args, "-e", f)
	}
	cmd := exec.CommandContext(c.t.Context(), "tshark", args...)
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("tshark: %w: %s", err, complaints.String())
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n"), nil
}

// has waits until packets with these lines of fields are in the file.
func (c *dump) has(filter string, fields []string, lines ...string) {
	c.t.Helper()
	netns.Eventually(c.t, patience, func() error {
		got, err := c.read(filter, fields...)
		for _, line := range lines {
			if err == nil && !slices.Contains(got, line) {
				err = fmt.Errorf("no packet of %s with %v = %q, only %q", filter, fields, line, slices.Compact(slices.Sorted(slices.Values(got))))
			}
		}
		return err
	})
}

// wrong ends the capture and returns the packets that the dissectors complain about.
func (c *dump) wrong() string {
	c.t.Helper()
	_ = c.cmd.Process.Signal(syscall.SIGINT)
	_, _ = io.Copy(io.Discard, c.said) // until it has written everything
	lines, err := c.read("_ws.malformed || _ws.expert.severity >= 0x800000", "frame.number", "_ws.expert.message")
	if err != nil {
		c.t.Error(err)
	}
	return strings.Join(lines, "\n")
}

// rareMessages has the UPF send what no phone causes: on N4 responses to requests that are rare or refused, and the report of a
// path that failed; on N3 messages to a base station that answers nothing.
func (c *core) rareMessages() {
	c.t.Helper()
	const silent = "192.0.2.40"
	c.ran.Run("ip", "addr", "add", silent+"/24", "dev", "eth0")
	var station, old net.Conn
	for _, socket := range []struct {
		conn     *net.Conn
		in       *netns.Namespace
		from, to string
	}{{&station, c.ran.Namespace, silent + ":2152", n3Address + ":2152"}, {&old, c.lab.Namespace, "127.0.0.5:8805", upfAddress + ":8805"}} {
		socket.in.Must(func() (err error) {
			*socket.conn, err = net.DialUDP("udp", net.UDPAddrFromAddrPort(netip.MustParseAddrPort(socket.from)), net.UDPAddrFromAddrPort(netip.MustParseAddrPort(socket.to)))
			return err
		})
		defer func() { _ = (*socket.conn).Close() }()
	}
	for what, m := range map[string]message.Message{
		"PFD management":     message.NewPFDManagementRequest(0),
		"association update": message.NewAssociationUpdateRequest(0, c.smf.NodeID()),
		"set deletion":       message.NewSessionSetDeletionRequest(0, c.smf.NodeID(), ie.NewFQCSID("192.0.2.50", 1)),
	} {
		var refused *smf.RefusedError
		if _, err := c.smf.Exchange(c.t.Context(), m); err != nil && !errors.As(err, &refused) {
			c.t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := c.smf.Heartbeat(c.t.Context()); err != nil {
		c.t.Error(err)
	}
	_, _ = old.Write([]byte{0x40, 1, 0, 4, 0, 0, 1, 0}) // of version 2
	c.modify(smf.FAR{ID: 2, Action: smf.Forward, Destination: ie.DstInterfaceAccess, Peer: netip.MustParseAddr(silent), TEID: 7}.Update())
	c.Do("u set echo-interval=1 echo-timeout=1 echo-requests=2")
	for _, m := range []gtpu.Message{
		gtpu.Echo(false, 5),
		{Type: gtpu.PDU, TEID: 4711, Payload: mobile.Datagram(ueAddress, webServer, 1, 2, nil, 0)},
		{Type: gtpu.PDU, TEID: 4711, Extensions: []gtpu.Extension{{Type: 0xc0, Content: []byte{1, 2}}}},
	} {
		b, err := m.Append(nil)
		if err != nil {
			c.t.Fatal(err)
		}
		_, _ = station.Write(b) // the capture shows what it caused
	}
	deadline := time.After(patience)
	for {
		select {
		case m := <-c.smf.Requests():
			if c.note(m); m.MessageType() == message.MsgTypeNodeReportRequest {
				return
			}
		case <-deadline:
			c.t.Fatal("the failure of the path was not reported")
		}
	}
}

func TestDissectorsOfOthersReadAllMessages(t *testing.T) {
	if _, err := exec.LookPath("tshark"); err != nil {
		t.Skipf("no tshark: run scripts/deps.sh build (%v)", err)
	}
	c := newCore(t, "XDP_DRV")
	n4, n3 := startDump(t, c.lab.Namespace, "lo", "udp port 8805"), startDump(t, c.ran.Namespace, "eth0", "udp port 2152")
	if _, err := c.smf.Associate(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.serve(bytes.Repeat([]byte("x"), 100_000))
	c.attach()
	c.ran.Reaches(t, patience, webServer)
	c.modify(smf.URR{ID: 1, Triggers: [2]byte{2}, Threshold: 20_000}.Update(), ie.NewQueryURR(ie.NewURRID(1)))
	c.download(bytes.Repeat([]byte("x"), 100_000))
	c.asked(func(m *message.SessionReportRequest) bool { return len(m.UsageReport) > 0 })
	c.two.Expect(c.phone, 2049)
	c.modify(smf.FAR{ID: 2, Action: smf.Forward, Destination: ie.DstInterfaceAccess, Peer: netip.MustParseAddr(gNB2), TEID: 2049, EndMarkers: true}.Update())
	c.modify(smf.FAR{ID: 2, Action: smf.Buffer | smf.Notify}.Update())
	c.numbers().send(0, 3)
	c.asked(func(m *message.SessionReportRequest) bool { return m.DownlinkDataReport != nil })
	c.one.AllowErrors()
	c.eventually(func() error {
		if len(c.one.Ends()) == 0 {
			return fmt.Errorf("no End Marker")
		}
		return nil
	})
	c.modify(smf.FAR{ID: 2, Action: smf.Drop}.Update())
	if _, err := c.smf.Modify(t.Context(), &smf.Session{Seid: 1}); err == nil {
		t.Error("a session that is not there was modified")
	}
	c.rareMessages()
	c.remove()
	if err := c.smf.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	n4.has("pfcp && ip.src=="+upfAddress, []string{"pfcp.msg_type"}, "1", "2", "4", "6", "8", "10", "11", "12", "15", "51", "53", "55", "56")
	n4.has("pfcp && ip.src=="+smfAddress, []string{"pfcp.msg_type"}, "5", "9", "50", "52", "54", "57")
	n3.has("gtp && ip.src=="+n3Address, []string{"gtp.message", "gtp.ext_hdr.pdu_ses_con.qos_flow_id", "gtp.teid"}, "0xff\t9\t0x00000401")
	n3.has("gtp && ip.src=="+n3Address, []string{"gtp.message"}, "0x01", "0x02", "0x1a", "0x1f", "0xfe")
	for what, is := range map[string]*dump{"PFCP": n4, "GTP-U": n3} {
		if wrong := is.wrong(); wrong != "" {
			t.Errorf("%s: tshark complains about these frames:\n%s", what, wrong)
		}
	}
}
