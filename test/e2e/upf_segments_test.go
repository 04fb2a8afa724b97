// SPDX-License-Identifier: Apache-2.0

// Superframes on their way through a mobile core.

package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/wmnsk/go-pfcp/ie"
	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/gtpu"
	"github.com/polycube/polycube/test/mobile"
	"github.com/polycube/polycube/test/smf"
)

// takeAll takes all that clients send to a port of the server; the result has the number of bytes of each.
func (c *core) takeAll(port string) <-chan int64 {
	taken := make(chan int64, 1)
	c.dn.Must(func() error {
		l, err := net.Listen("tcp", port)
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
				n, _ := io.Copy(io.Discard, conn) // the client compares
				_ = conn.Close()
				taken <- n
			}
		}()
		return nil
	})
	return taken
}

// upload has the phone send content to a port of the server.
func (c *core) upload(port string, content []byte) {
	c.t.Helper()
	c.ran.Must(func() error {
		conn, err := net.DialTimeout("tcp", webServer+port, patience)
		if err != nil {
			return err
		}
		_ = conn.SetDeadline(time.Now().Add(patience))
		_, err = conn.Write(content)
		return errors.Join(err, conn.Close())
	})
}

// bundle sends messages from a base station as one superframe, as GSO of UDP makes them.
func (c *core) bundle(m gtpu.Message, messages int) {
	c.t.Helper()
	b, err := m.Append(nil)
	if err != nil {
		c.t.Fatal(err)
	}
	c.ran.Must(func() error {
		conn, err := net.DialUDP("udp", net.UDPAddrFromAddrPort(netip.MustParseAddrPort(gNB1+":0")), net.UDPAddrFromAddrPort(netip.MustParseAddrPort(n3Address+":2152")))
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }()
		raw, err := conn.SyscallConn()
		if err != nil {
			return err
		}
		var failed error
		err = raw.Control(func(fd uintptr) { failed = unix.SetsockoptInt(int(fd), unix.SOL_UDP, unix.UDP_SEGMENT, len(b)) })
		if err = errors.Join(err, failed); err == nil {
			_, err = conn.Write(bytes.Repeat(b, messages))
		}
		return err
	})
}

// TestSegmentsOfSuperframesAreCounted as on the wire, bytes and packets in both directions: the TCP of the server sends superframes. A
// superframe of several messages from a base station is dropped, and not counted.
func TestSegmentsOfSuperframesAreCounted(t *testing.T) {
	t.Parallel()
	c := newCore(t, "TC")
	c.dn.Run("ethtool", "-K", "eth0", "tx", "on", "tso", "on", "gso", "on")
	content := bytes.Repeat([]byte("0123456789abcdef"), 1<<17) // 2 MiB
	c.serve(content)
	taken := c.takeAll(":81")
	c.attach()
	c.packets = true
	c.modify(ie.NewUpdateQER(ie.NewQERID(1), ie.NewMBR(10_000_000, 10_000_000)), smf.URR{ID: 1, Triggers: [2]byte{2}, Threshold: 1 << 30, Packets: true}.Update())
	c.ran.Reaches(t, patience, webServer)
	c.download(content)
	c.upload(":81", content)
	select {
	case n := <-taken:
		if n != int64(len(content)) {
			t.Errorf("the server has got %d bytes of %d", n, len(content))
		}
	case <-time.After(patience):
		t.Error("the server has not got all that the phone sends")
	}
	if cut := strings.TrimSpace(c.Do("u show messages segmented")); cut == "0" {
		t.Error("no superframe has come: the server has sent none")
	}
	c.ran.Run("ethtool", "-K", "eth0", "tx", "on", "gso", "on", "tx-udp-segmentation", "on")
	packet := mobile.Datagram(ueAddress, webServer, 1000, 9, make([]byte, 100), 0)
	c.bundle(gtpu.Message{Type: gtpu.PDU, TEID: c.phone.Uplink, Payload: packet}, 10)
	c.eventually(func() error {
		if n := c.Stats("u").Fate(t, "superframe"); n != 1 {
			return fmt.Errorf("%d superframes of messages were dropped, want 1", n)
		}
		return nil
	})
	c.remove()
	if last := c.reported[len(c.reported)-1]; last.DownPackets < uint64(len(content)/1400) || last.UpPackets < uint64(len(content)/1400) {
		t.Errorf("%+v are no counts of segments", last)
	}
}
