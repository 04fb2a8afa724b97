// SPDX-License-Identifier: Apache-2.0

package policer_test

// TCP through a queue of Linux that a contract chooses (the paper's Fig. 3).

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/need"
	"github.com/polycube/polycube/test/pace"
)

// megabits is the rate of the tests, and burst a tenth of what it carries in a second, in bytes.
const (
	megabits = 20
	burst    = megabits * 1_000_000 / 8 / 10
)

// queued is a forwarder between two hosts with a policer at the first one's port, and a class 1:a of htb where packets leave to
// that host.
func queued(t *testing.T, contract string) *bpftest.Lab {
	t.Helper()
	l := bpftest.New(t, bpftest.Options{Hosts: 2})
	l.Hosts[0].Run("ip", "addr", "add", "10.0.0.1/24", "dev", "eth0")
	l.Hosts[1].Run("ip", "addr", "add", "10.0.0.2/24", "dev", "eth0")
	l.Create("simpleforwarder", "f", `{"ports":[{"name":"p1","peer":"veth1"},{"name":"p2","peer":"veth2"}],
		"actions":[{"inport":"p1","action":"FORWARD","outport":"p2"},{"inport":"p2","action":"FORWARD","outport":"p1"}]}`)
	l.Create("policer", "p", `{"contract":[{"traffic-class":0,`+contract+`}]}`)
	l.Attach("p", "f:p1")
	l.Lab.Run("tc", "qdisc", "add", "dev", "veth1", "root", "handle", "1:", "htb")
	l.Lab.Run("tc", "class", "add", "dev", "veth1", "parent", "1:", "classid", "1:a", "htb", "rate", fmt.Sprintf("%dmbit", megabits), "burst", fmt.Sprint(burst))
	l.Lab.Run("tc", "qdisc", "add", "dev", "veth1", "parent", "1:a", "pfifo", "limit", "100")
	return l
}

// goodput is what one connection of TCP from host 2 to host 1 gets, as a share of the rate, in frames. It is measured for some
// seconds at the rate, after others.
func goodput(t *testing.T, l *bpftest.Lab, after, seconds float64) float64 {
	t.Helper()
	var listener net.Listener
	l.Hosts[1].Must(func() (err error) {
		listener, err = net.Listen("tcp", "10.0.0.2:80")
		return err
	})
	defer func() { _ = listener.Close() }()
	go func() {
		c, err := listener.Accept()
		if err != nil {
			return
		}
		defer func() { _ = c.Close() }()
		for b := make([]byte, 1<<16); err == nil; {
			_, err = c.Write(b)
		}
	}()
	var c net.Conn
	l.Hosts[0].Must(func() (err error) {
		c, err = net.DialTimeout("tcp", "10.0.0.2:80", bpftest.Patience)
		return err
	})
	defer func() { _ = c.Close() }()
	const frame, payload, rate = 1514, 1448, megabits * 1_000_000 / 8
	_ = c.SetReadDeadline(time.Now().Add(2*bpftest.Patience + 4*time.Duration((after+seconds)*1e9)))
	if _, err := io.CopyN(io.Discard, c, int64(after*rate)); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	if _, err := io.CopyN(io.Discard, c, int64(seconds*rate)); err != nil {
		t.Fatal(err)
	}
	return seconds * frame / payload / time.Since(begin).Seconds()
}

// TestTimedTCPGetsTheRateOfItsQueue, where a limit without a queue leaves it much less.
func TestTimedTCPGetsTheRateOfItsQueue(t *testing.T) {
	limit := goodput(t, queued(t, fmt.Sprintf(`"action":"LIMIT","rate-limit":%d,"burst-limit":%d`, megabits*1000, burst*8/1000)), 0.2, 3)
	l := queued(t, `"action":"SHAPE","queue":"1:a"`)
	shape := goodput(t, l, 0.2, 3)
	t.Logf("of the rate, TCP gets %.3f with SHAPE, and %.3f with LIMIT", shape, limit)
	if shape < 0.95 || shape > 1.02 {
		t.Errorf("TCP gets %.3f of the rate of its queue, want 0.95 to 1.02", shape)
	}
	if class := l.Lab.Run("tc", "-s", "class", "show", "dev", "veth1"); !strings.Contains(class, "class htb 1:a") || strings.Contains(class, "Sent 0 bytes") {
		t.Errorf("no packet has waited in the class:\n%s", class)
	}
}

// TestMarksKeepTCPAtTheRate: one connection whose ends understand ECN and are 40 ms apart gets its rate by marks.
func TestMarksKeepTCPAtTheRate(t *testing.T) {
	need.Features(t, need.Netem)
	if !pace.OwnClock() {
		t.Skip("needs a clock that stands still while others use the processor: go run ./test/kernels/cmd/kernels -own-clock")
	}
	share := func(delay int, contract string) float64 {
		l := queued(t, fmt.Sprintf(`"rate-limit":%d,"burst-limit":%d,%s`, megabits*1000, burst*8/1000, contract))
		for _, h := range l.Hosts {
			h.Run("sysctl", "-qw", "net.ipv4.tcp_ecn=1", "net.ipv4.tcp_congestion_control=cubic")
		}
		l.Hosts[0].Run("tc", "qdisc", "add", "dev", "eth0", "root", "netem", "delay", fmt.Sprintf("%dms", delay), "limit", "100000")
		of := goodput(t, l, 5, 20)
		t.Logf("at %d ms TCP gets %.3f of the rate: %s", delay, of, l.Read("p contract 0"))
		return of
	}
	if of := share(40, `"action":"MARK"`); of < 0.95 || of > 1.02 {
		t.Errorf("TCP gets %.3f of the rate, want 0.95 to 1.02", of)
	}
}
