// SPDX-License-Identifier: Apache-2.0

package nat

// External endpoints under contention: none is given twice, none is lost.

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
)

// hosts4 are datagrams of different hosts from one port to one remote.
func hosts4(n int) (frames [][]byte) {
	for i := range n {
		from := fmt.Sprintf("10.0.%d.%d", i>>8, i&0xff)
		frames = append(frames, outFrame(plain4(from, other, nextUDP, udp(from, other, 4000, 53, nil))))
	}
	return frames
}

// claimed checks the tables: each external endpoint of a table refers to an entry that refers back, except for those
// that a sweep is about to remove. It returns the number of entries.
func (b *bench) claimed() (sessions, mappings int) {
	b.t.Helper()
	netns.Eventually(b.t, bpftest.Patience, func() (err error) {
		sessions, mappings, err = b.claims()
		return err
	})
	return sessions, mappings
}

func (b *bench) claims() (sessions, mappings int, err error) {
	var wrong []error
	tables, count, mapped := tablesOf(b.t, b.Lab), [2]int{}, 0
	for _, s := range append(tables.all(0), tables.all(zoneOutside)...) {
		twin, back := s.twin(), s.Key
		count[s.Key.Zone&zoneOutside]++
		switch {
		case s.Key.Zone&zoneOutside != 0:
		case s.is(flagMapping):
			mappings++
		default:
			sessions++
			if s.is(flagMapped) {
				mapped++
				twin, back = twin.bare(), back.bare() // found by its mapping
			}
		}
		if other, ok := tables.find(twin); !ok {
			wrong = append(wrong, fmt.Errorf("%v leads to %v, from where nothing leads back", s.Key, twin))
		} else if other.twin() != back {
			wrong = append(wrong, fmt.Errorf("%v leads to %v, which leads to %v", s.Key, twin, other.twin()))
		}
	}
	if count[0] != count[1]+mapped {
		wrong = append(wrong, fmt.Errorf("entries: %v, and %d sessions of mappings", count, mapped))
	}
	return sessions, mappings, errors.Join(wrong...)
}

func TestNoEndpointIsGivenTwice(t *testing.T) {
	t.Parallel()
	const ports, hosts, threads = 200, 300, 4
	for _, mapping := range []string{"endpoint-independent", "address-and-port-dependent"} {
		t.Run(mapping, func(t *testing.T) {
			atBothHooks(t, func(t *testing.T, l *bpftest.Lab) {
				b := newBench(t, l, fmt.Sprintf(`{"max-sessions":4096,"behaviour":{"mapping":%q},"rule":{"snat":{"entry":[
					{"id":1,"internal-net":"10.0.0.0/8","external-ip":"203.0.113.1","port-first":20000,"port-last":%d}]}}}`, mapping, 20000+ports-1))
				// Each host sends three times, from different threads at about the same time.
				frames := hosts4(hosts)
				frames = append(append(frames, hosts4(hosts)...), hosts4(hosts)...)
				given := map[int]uint16{} // host -> port
				holder := map[uint16]int{}
				l.Together("veth1", threads, frames, func(n int, got []byte) {
					if got == nil {
						return
					}
					if err := checked(got); err != nil {
						t.Errorf("host %d: %v", n%hosts, err)
					}
					p := binary.BigEndian.Uint16(got[34:])
					if had, ok := given[n%hosts]; ok && had != p {
						t.Errorf("host %d has the ports %d and %d", n%hosts, had, p)
					}
					if h, ok := holder[p]; ok && h != n%hosts {
						t.Errorf("port %d is given to the hosts %d and %d", p, h, n%hosts)
					}
					if p < 20000 || p >= 20000+ports {
						t.Errorf("port %d is none of the rule's", p)
					}
					given[n%hosts], holder[p] = p, n%hosts
				})
				// 64 probes do not certainly find the last free ports; nearly all are found.
				if len(given) > ports || len(given) < ports*9/10 {
					t.Errorf("%d hosts have one of %d ports", len(given), ports)
				}
				sessions, mappings := b.claimed()
				if sessions != len(given) || mapping == "endpoint-independent" && mappings != len(given) {
					t.Errorf("%d sessions and %d mappings for %d hosts", sessions, mappings, len(given))
				}
			})
		})
	}
}

// The same new sessions on all CPUs at once: they are opened once.
func TestOneSessionForPacketsAtTheSameTime(t *testing.T) {
	atBothHooks(t, func(t *testing.T, l *bpftest.Lab) {
		b := newBench(t, l, snat)
		var frames [][]byte
		for i := range 200 {
			frame := outFrame(plain4(host, other, nextUDP, udp(host, other, uint16(2000+i), 53, nil)))
			for range 4 {
				frames = append(frames, frame)
			}
		}
		l.Together("veth1", 4, frames, func(n int, got []byte) {
			if got == nil {
				t.Errorf("frame %d was dropped", n)
			} else if p := binary.BigEndian.Uint16(got[34:]); p != uint16(2000+n/4) {
				t.Errorf("frame %d left from port %d", n, p)
			}
		})
		if sessions, mappings := b.claimed(); sessions != 200 || mappings != 200 {
			t.Errorf("%d sessions, %d mappings, want 200", sessions, mappings)
		}
	})
}

// Another CPU has claimed the internal port for the session that a packet belongs to, and has not inserted the rest yet:
// the packet leaves from that port. A claim that was left behind is not used.
func TestAPortThatIsBeingClaimedForTheSameSession(t *testing.T) {
	t.Parallel()
	const justNow, leftBehind = 4000, 4001
	for _, mapping := range []string{"endpoint-independent", "address-and-port-dependent"} {
		t.Run(mapping, func(t *testing.T) {
			atBothHooks(t, func(t *testing.T, l *bpftest.Lab) {
				b := newBench(t, l, fmt.Sprintf(`{"behaviour":{"mapping":%q},"rule":{"snat":{"entry":[
					{"id":1,"internal-net":"10.0.0.0/24","external-ip":"203.0.113.1"}]}}}`, mapping))
				claim := func(port uint16, age time.Duration) {
					now, err := cube.TimeCoarse()
					if err != nil {
						t.Fatal(err)
					}
					v := session{Key: keyOf(endpoint{netip.MustParseAddr(ours), port}, endpoint{netip.MustParseAddr(other), 53}, unix.IPPROTO_UDP),
						Rule: 1, Created: now - uint64(age), Seen: now - uint64(age)}.as(host, port)
					v.Key.Zone = zoneOutside
					if mapping == "endpoint-independent" {
						v.Key, v.Flags = v.Key.bare(), flagMapping
					}
					if err := tablesOf(t, l).add(v); err != nil {
						t.Fatal(err)
					}
				}
				leaves := func(port uint16) (from uint16) {
					frame := outFrame(plain4(host, other, nextUDP, udp(host, other, port, 53, nil)))
					l.Together("veth1", 1, [][]byte{frame}, func(_ int, got []byte) {
						if got == nil {
							t.Fatal("the packet was dropped")
						}
						from = binary.BigEndian.Uint16(got[34:])
					})
					return from
				}
				claim(justNow, -time.Minute) // however long the test takes until the packet
				if from := leaves(justNow); from != justNow {
					t.Errorf("it left from port %d, not from %d, which is being claimed for it", from, justNow)
				}
				if sessions, _ := b.claimed(); sessions != 1 {
					t.Errorf("%d sessions, want 1", sessions)
				}
				claim(leftBehind, strayAge/2)
				if from := leaves(leftBehind); from == leftBehind {
					t.Errorf("it left from port %d, which a sweep may free", from)
				}
			})
		})
	}
}

func TestAFullTableRefusesNewSessionsOnly(t *testing.T) {
	atBothHooks(t, func(t *testing.T, l *bpftest.Lab) {
		b := newBench(t, l, `{"max-sessions":1024,"behaviour":{"mapping":"address-and-port-dependent"},"rule":{
			"snat":{"entry":[{"id":1,"internal-net":"10.0.0.0/8","external-ip":"203.0.113.1"}]}}}`)
		const room = 1024
		frames, full := hosts4(room+100), 0
		l.Together("veth1", 4, frames, func(n int, got []byte) {
			if got == nil {
				full++
			}
		})
		if full != 100 {
			t.Errorf("%d of %d sessions were refused by a table for %d", full, len(frames), room)
		}
		if fates := l.Fates("n"); fates["session-table-full"] != 100 {
			t.Errorf("fates: %v", fates)
		}
		if sessions, _ := b.claimed(); sessions != room {
			t.Errorf("%d sessions in a table for %d", sessions, room)
		}
		// Existing sessions continue, in both directions; refused ones leave nothing behind.
		through := 0
		l.Together("veth1", 1, frames, func(_ int, got []byte) {
			if got != nil {
				through++
			}
		})
		if through != room {
			t.Errorf("%d of %d sessions go on", through, room)
		}
	})
}

// TestRefusedSessionsTakeNoMemory: where sessions share ports, those that find none leave room for others.
func TestRefusedSessionsTakeNoMemory(t *testing.T) {
	atBothHooks(t, func(t *testing.T, l *bpftest.Lab) {
		b := newBench(t, l, `{"max-sessions":1024,`+snatWith(`"overload":true`, `,"port-first":20000,"port-last":20003`)[1:])
		for n := range 2000 {
			from := fmt.Sprintf("10.0.%d.%d", n>>8, n&0xff)
			_, err := b.pass(false, outFrame(plain4(from, other, nextUDP, udp(from, other, 4000, 53, nil))))
			if want := n < 4; want != (err == nil) || !want && err.Error() != "n ports-exhausted" {
				t.Fatalf("session %d for 4 ports: %v", n, err)
			}
		}
	})
}
