// SPDX-License-Identifier: Apache-2.0

package lbdsr

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
	"github.com/polycube/polycube/wire"
)

// flow returns a packet of a flow by its number.
func flow(n uint32, flags pkt.TCPFlags) []byte {
	f := client().IPv4("10.9.0.1", "10.0.0.100").TCP(1000, 80, flags).Bytes()
	binary.BigEndian.PutUint32(f[26:], 0x0b000000+n)
	return f
}

// TestAFloodUnpinsNoFlow: as many flows as max-flows says are pinned, and a flood of ten times the table unpins none of them.
func TestAFloodUnpinsNoFlow(t *testing.T) {
	const flows = 2048 * 7 / 10 // of so many, 99.99 % are pinned
	for name, flags := range map[string]pkt.TCPFlags{"SYN": syn, "ACK": ack} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := bpftest.New(t, bpftest.Options{Hosts: 2})
			l.Create("lbdsr", "lb", fmt.Sprintf(`%s,"max-flows":%d}`, strings.TrimSuffix(several, "}"), flows))
			if capacity := l.Read("lb flows capacity"); capacity != "2048" {
				t.Fatalf("there is room for %s flows, want 2048, a tenth of the flood", capacity)
			}
			where := func() (all []string) {
				var frames [][]byte
				for n := range uint32(flows) { // the second packet confirms
					frames = append(frames, flow(n, ack), flow(n, ack))
				}
				for i, f := range l.RunAll("veth1", frames) {
					if i%2 == 0 {
						all = append(all, fmt.Sprintf("%x", f[:6]))
					}
				}
				return all
			}
			first, established := where(), 0
			netns.Eventually(t, bpftest.Patience, func() (err error) {
				if established, err = strconv.Atoi(l.Read("lb flows established")); err == nil && established < flows {
					err = fmt.Errorf("%d of %d flows are pinned", established, flows)
				}
				return err
			})
			var flood [][]byte
			for n := range uint32(20480) {
				flood = append(flood, flow(1<<16+n, flags))
			}
			l.RunAll("veth1", flood)
			l.Set("POST", "lb service 10.0.0.100 80 ALL server 02:00:00:00:02:14", `{"weight":20}`)
			moved := 0
			for n, is := range where() {
				if is != first[n] {
					moved++
				}
			}
			t.Logf("%d of %d flows are pinned, %d went to another server", established, flows, moved)
			if moved > flows-established {
				t.Errorf("%d of %d flows were pinned, but after the flood %d went to another server", established, flows, moved)
			}
		})
	}
}

// answersAll answers the requests for all addresses but one, until the test ends.
func answersAll(t *testing.T, w *bpftest.Wire, but string) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for t.Context().Err() == nil {
			var a wire.ARP
			_, err := w.Recv(func(f []byte) (ok bool) {
				var err error
				a, err = wire.ParseARP(f)
				return err == nil && a.Op == wire.ARPRequest && a.Target.String() != but
			}, 100*time.Millisecond)
			if err == nil {
				last := a.Target.As4()[3]
				w.Puts(pkt.Eth(server1, backMAC).ARPReply(fmt.Sprintf("02:00:00:00:04:%02x", last), a.Target.String(), backMAC, "10.0.2.1").Bytes())
			}
		}
	}()
	t.Cleanup(func() { <-done })
}

// TestTimedOneServerOfManyServices: equal pools share a table, so a server that leaves a thousand of them is gone at once.
func TestTimedOneServerOfManyServices(t *testing.T) {
	l := bpftest.New(t, bpftest.Options{Hosts: 2})
	var servers, services []string
	for i := range 100 {
		servers = append(servers, fmt.Sprintf(`{"address":"10.0.2.%d"}`, 10+i))
	}
	for i := range 1000 {
		services = append(services, fmt.Sprintf(`{"vip":"10.1.%d.%d","vport":80,"proto":"TCP","server":[%s]}`, i>>8, i&255, strings.Join(servers, ",")))
	}
	start := time.Now()
	l.Create("lbdsr", "lb", `{`+ports+`,"service":[`+strings.Join(services, ",")+`]}`)
	t.Logf("1,000 services of 100 servers each were made in %v", time.Since(start))
	answersAll(t, l.Wires()[1], "10.0.2.109") // all but the last one
	netns.Eventually(t, bpftest.Patience, func() error {
		if live := l.Read("lb service 10.1.3.200 80 TCP live-servers"); live != "99" {
			return fmt.Errorf("%s servers are up, want 99: the last one does not answer", live)
		}
		return nil
	})
	frame := client().IPv4("10.9.0.1", "10.1.3.200").TCP(1000, 80, syn).Bytes()
	netns.Eventually(t, bpftest.Patience, func() error {
		if got := to(l, frame); len(got) != 12 {
			return fmt.Errorf("a packet for the last service: %s", got)
		}
		return nil
	})
}

// ages makes all pins older by a number of units of 8.6 s.
func ages(t *testing.T, l *bpftest.Lab, units uint64) {
	t.Helper()
	m := l.Map("lb", "pins")
	for i := range m.MaxEntries() {
		var b [8]uint64 // four pins: a hash and a word each
		if err := m.Lookup(i, &b); err != nil {
			t.Fatal(err)
		}
		changed := false
		for w := 1; w < len(b); w += 2 {
			if b[w] != 0 {
				seen := uint8(b[w]>>40) - uint8(units)
				b[w] = b[w]&^(0xff<<40) | uint64(seen)<<40
				changed = true
			}
		}
		if changed {
			if err := m.Put(i, &b); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestFlowsAreKeptForTheTimeoutOfTheirService(t *testing.T) {
	for timeout, stay := range map[string]bool{"900": true, "170": true, "60": false, "9": false} { // the pins get 10 x 8.6 s old
		t.Run(timeout, func(t *testing.T) {
			t.Parallel()
			l := bpftest.New(t, bpftest.Options{Hosts: 2})
			l.Create("lbdsr", "lb", strings.TrimSuffix(several, "}")+`,"max-flows":1000}`)
			l.Set("PATCH", "lb service 10.0.0.100 80 ALL timeout", timeout)
			serversOf(l, 60, ack)
			first := serversOf(l, 60, ack)
			ages(t, l, 10)
			l.Set("POST", "lb service 10.0.0.100 80 ALL server 02:00:00:00:02:14", `{"weight":20}`)
			moved := count(serversOf(l, 60, ack), "02:00:00:00:02:14")
			if (moved == 0) != stay || count(first, "02:00:00:00:02:14") != 0 {
				t.Errorf("with a timeout of %s s, %d of 60 flows went to the new server", timeout, moved)
			}
		})
	}
}

func TestThereAreAsManyServersAsAllowed(t *testing.T) {
	l := bpftest.New(t, bpftest.Options{Hosts: 2})
	list := func(from, to int) string {
		var servers []string
		for i := from; i < to; i++ {
			servers = append(servers, fmt.Sprintf(`{"address":"02:00:00:00:05:%02x"}`, i))
		}
		return strings.Join(servers, ",")
	}
	body := func(most, servers int) string {
		return fmt.Sprintf(`{%s,"max-servers":%d,"service":[{"vip":"10.0.0.100","vport":80,"proto":"TCP","server":[%s]}]}`, ports, most, list(0, servers))
	}
	if err := l.TryCreate("lbdsr", "lb", body(64, 65)); err == nil || !strings.Contains(err.Error(), "limit of 64 servers is reached") {
		t.Errorf("65 servers of 64: %v", err)
	}
	l.Create("lbdsr", "lb", body(65, 65))
	if err := l.Try("POST", "lb service 10.0.0.100 80 TCP server 02:00:00:00:05:ff", "{}"); err == nil || !strings.Contains(err.Error(), "limit of 65 servers is reached") {
		t.Errorf("66 servers of 65: %v", err)
	}
	if live := l.Read("lb service 10.0.0.100 80 TCP live-servers"); live != "65" {
		t.Errorf("%s servers are live", live)
	}
}
