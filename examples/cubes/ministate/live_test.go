// SPDX-License-Identifier: Apache-2.0

package ministate_test

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pace"
	"github.com/polycube/polycube/test/pkt"
)

// echo answers a line with the same.
func echo(_ net.Addr, line string) string { return line }

// dial opens a connection from a host.
func dial(t *testing.T, host *netns.Node, network, address string, within time.Duration) (net.Conn, error) {
	t.Helper()
	var c net.Conn
	err := host.Do(func() (err error) {
		c, err = net.DialTimeout(network, address, within)
		return err
	})
	if err == nil {
		t.Cleanup(func() { _ = c.Close() })
	}
	return c, err
}

// ask sends a line and returns the answer.
func ask(c net.Conn, line string, within time.Duration) (string, error) {
	if err := c.SetDeadline(time.Now().Add(within)); err != nil {
		return "", err
	}
	if _, err := fmt.Fprintln(c, line); err != nil {
		return "", err
	}
	return bufio.NewReader(c).ReadString('\n')
}

// TestHostsBehindTheFirewall: TCP of the hosts' own, at each hook.
func TestHostsBehindTheFirewall(t *testing.T) {
	for _, typ := range []cube.Type{cube.TypeTC, cube.TypeXDPSKB, cube.TypeXDPDRV} {
		t.Run(strings.ToLower(string(typ)), func(t *testing.T) {
			t.Parallel()
			o := bpftest.Options{Type: typ, Hosts: 2}
			if typ != cube.TypeTC {
				o.Host = []netns.Option{netns.WithoutTxChecksum(), netns.WithGRO()}
			}
			l := bpftest.New(t, o)
			firewalled(t, l)
			wires, far, near := l.Wires(), l.Hosts[0], l.Hosts[1]
			far.Run("ip", "addr", "add", "10.0.0.1/24", "dev", netns.Inner)
			near.Run("ip", "addr", "add", "10.0.0.2/24", "dev", netns.Inner)
			far.AnswerLines("10.0.0.1:7000", echo)
			near.AnswerLines("10.0.0.2:7000", echo)
			patience, soon := pace.Stretch(10*time.Second), time.Second

			c, err := dial(t, near, "tcp4", "10.0.0.1:7000", patience)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := ask(c, "hello", patience); got != "hello\n" || err != nil {
				t.Errorf("the answer from outside is %q, %v", got, err)
			}
			unsolicited := tcp("10.0.0.1", "10.0.0.2", 7001, 7002, syn|ack, 1000, 1000)
			wires[0].Puts(unsolicited)
			netns.Eventually(t, bpftest.Patience, func() error {
				if fates := l.Fates("m"); fates["invalid"] != 1 {
					return fmt.Errorf("a SYN-ACK without a connection: %v, want one that is invalid", fates)
				}
				return nil
			})
			if wires[1].Got(unsolicited) {
				t.Error("a SYN-ACK without a connection comes in")
			}
			if _, err := dial(t, far, "tcp4", "10.0.0.2:7000", soon); err == nil {
				t.Error("a connection comes in without a rule")
			}
			l.Set("POST", "m rules 1", `{"l4_proto":"TCP","dst_port":7000}`)
			c, err = dial(t, far, "tcp4", "10.0.0.2:7000", patience)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := ask(c, "hello", patience); got != "hello\n" || err != nil {
				t.Errorf("the answer from inside is %q, %v", got, err)
			}
			l.Set("DELETE", "m rules 1", "")
			if got, err := ask(c, "again", soon); err == nil {
				t.Errorf("without the rule, the answer from inside is %q", got)
			}
			// Echo requests and replies of three fragments each.
			near.Run("ping", "-c", "1", "-W", "10", "-s", "4000", "10.0.0.1")
			if out, err := far.Command("ping", "-c", "1", "-W", "1", "-s", "4000", "10.0.0.2").CombinedOutput(); err == nil {
				t.Errorf("fragments come in without a rule: %s", out)
			}
			c, err = dial(t, near, "udp4", "10.0.0.1:7000", patience)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := ask(c, "hello", patience); !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("where no one listens: %v, want the ICMP error to arrive", err)
			}
		})
	}
}

// TestHeadersThatCannotBeReadDirectly: of these segments, only the Ethernet header is in the linear part of the skb.
func TestHeadersThatCannotBeReadDirectly(t *testing.T) {
	mtu := bpftest.LongestMTU(t, cube.TypeTC)
	l := bpftest.New(t, bpftest.Options{Type: cube.TypeTC, Hosts: 2, Host: []netns.Option{netns.WithMTU(mtu)}})
	firewalled(t, l)
	wires := l.Wires()
	const far, near = 0, 1
	const data = 4200 // more than a page, in which the kernel would not split it
	pass := func(from int, flags byte, seq, acked uint32) {
		t.Helper()
		frame := tcp(outside, inside, 80, 1000, flags, seq, acked)
		if from == near {
			frame = tcp(inside, outside, 1000, 80, flags, seq, acked)
		}
		frame = append(frame, make([]byte, data)...)
		binary.BigEndian.PutUint16(frame[16:], uint16(len(frame)-14))
		pkt.SumIPv4(frame[14:])
		if err := bpftest.SendSplit(l.Hosts[from], frame, 14); err != nil {
			t.Fatal(err)
		}
		wires[1-from].Gets(frame)
	}
	pass(near, syn, 1000, 0)
	pass(far, syn|ack, 5000, 1001+data)
	pass(near, ack, 1001+data, 5001+data)
	if got, want := l.Run("veth1", tcp(outside, inside, 80, 1000, ack, 1_000_000, 1001)), (bpftest.Outcome{Verdict: "drop", Fate: "m invalid"}); got != want {
		t.Errorf("a segment beyond the window: %+v, want %+v", got, want)
	}
}
