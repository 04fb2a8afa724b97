// SPDX-License-Identifier: Apache-2.0

package n4

// An SMF whose messages are scapy's.

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/polycube/polycube/pdusession"
	"github.com/polycube/polycube/test/repeat"
	"github.com/polycube/polycube/test/scapy"
)

// wanted is a session as the SMF wants it.
type wanted struct {
	CP, SEID   uint64
	IPv4, IPv6 string // IPv6 is the prefix
	// TEID is that of packets from the device. Packets of UDP from the Port of Remote have a PDR of their own, unless Port is 0.
	TEID   uint32
	Port   uint16
	Remote string
	QFI    uint8
	// Wait: packets to the device wait. Otherwise they enter a tunnel to Peer, with a DSCP of their own unless it is -1.
	Wait                 bool
	Peer                 string
	PeerTEID             uint32
	DSCP                 int
	MBRUp, MBRDown       uint64
	ClosedUp, ClosedDown bool
	Threshold            uint64
}

// differs says what of a session of the data plane is not as it should be.
func (w *wanted) differs(s *pdusession.Session) error {
	rules := s.Rules
	if w.Port != 0 {
		flow := fmt.Sprintf(" proto 17 from %d", w.Port)
		if w.Remote != "any" {
			flow = " remote " + w.Remote + flow
		}
		if len(rules) != 3 || rules[0].ID != 3 || rules[0].TEID != w.TEID || len(rules[0].Flows) != 1 || showFlow(rules[0].Flows[0]) != flow {
			return fmt.Errorf("rule 3: %+v, want flow %q", rules, flow)
		}
		rules = rules[1:]
	}
	if len(rules) != 2 || rules[0].ID != 1 || rules[1].ID != 2 {
		return fmt.Errorf("rules %+v", rules)
	}
	if up := rules[0]; up.TEID != w.TEID || up.FromNetwork || up.Forward.Action != pdusession.Pass || up.Forward.Peer.IsValid() {
		return fmt.Errorf("rule 1: %+v", up)
	}
	want := pdusession.Forward{Action: pdusession.Wait, Notify: true}
	got := rules[1].Forward
	if w.Wait {
		got = pdusession.Forward{Action: got.Action, Notify: got.Notify}
	} else {
		want = pdusession.Forward{Action: pdusession.Pass, Peer: netip.MustParseAddr(w.Peer), TEID: w.PeerTEID, QFI: w.QFI}
		if w.DSCP >= 0 {
			want.Mark, want.DSCP = true, uint8(w.DSCP)
		}
	}
	if got != want || rules[1].TEID != 0 {
		return fmt.Errorf("rule 2: %+v, want %+v", got, want)
	}
	meter := pdusession.Meter{ID: 1, Up: pdusession.Rate{Closed: w.ClosedUp, Limited: true, BitsPerSecond: 1000 * w.MBRUp},
		Down: pdusession.Rate{Closed: w.ClosedDown, Limited: true, BitsPerSecond: 1000 * w.MBRDown}}
	if len(s.Meters) != 1 || s.Meters[0] != meter {
		return fmt.Errorf("meters %+v, want %+v", s.Meters, meter)
	}
	if len(s.Usages) != 1 || s.Usages[0].ID != 1 || s.Usages[0].Threshold.Total < w.Threshold { // it comes on top of what was counted
		return fmt.Errorf("usages %+v, want a threshold of %d bytes", s.Usages, w.Threshold)
	}
	return nil
}

// causeReports has packets pass, wait and be refused, until the test ends.
func (b *bench) causeReports() {
	stop, ended := make(chan struct{}), make(chan struct{})
	b.t.Cleanup(func() {
		close(stop)
		<-ended
	})
	tick := time.NewTicker(50 * time.Millisecond)
	go func() {
		defer close(ended)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
			}
			var rows []uint32
			notices := []pdusession.Notice{}
			b.data.set(func(f *fake) {
				for row := range f.usages {
					rows = append(rows, row)
				}
				for block, s := range f.sessions {
					for i, rule := range s.Rules {
						if len(notices) > 5 {
							continue
						}
						if rule.Forward.Action == pdusession.Wait {
							notices = append(notices, pdusession.Notice{Kind: pdusession.Waiting, Block: block, Rule: uint32(i), DSCP: 46})
						} else if p := rule.Forward.Peer; p.IsValid() {
							notices = append(notices, pdusession.Notice{Kind: pdusession.ErrorIndication, Peer: p, TEID: rule.Forward.TEID},
								pdusession.Notice{Kind: pdusession.PathDown, Peer: p})
						}
					}
				}
			})
			for _, n := range notices {
				b.Notice(n)
			}
			for _, row := range rows {
				b.data.count(row, 600, 500)
			}
		}
	}()
}

// TestAnSMFOfScapyIsServed: the data plane gets what it wants, and it understands all responses and reports.
func TestAnSMFOfScapyIsServed(t *testing.T) {
	const sessions = 200
	b := start(t, func(c *Config) { c.T1, c.N1, c.Heartbeat = 10*time.Second, 3, time.Second })
	b.causeReports()
	all := scapy.Run[wanted](t, "testdata/smf.py", nil, loopback().String(), b.config.Address.Addr().String(), fmt.Sprint(repeat.Seed(t)), fmt.Sprint(sessions))
	if len(all) != sessions/2 {
		t.Fatalf("%d sessions", len(all))
	}
	b.data.mu.Lock()
	defer b.data.mu.Unlock()
	is := map[string]*pdusession.Session{}
	for _, s := range b.data.sessions {
		if s.IPv4.IsValid() {
			is[s.IPv4.String()] = s
		}
		if s.IPv6.IsValid() {
			is[s.IPv6.Addr().String()] = s
		}
	}
	if len(b.data.sessions) != len(all) {
		t.Errorf("the data plane has %d sessions", len(b.data.sessions))
	}
	for _, w := range all {
		for _, address := range []string{w.IPv4, w.IPv6} {
			if address == "" {
				continue
			}
			s := is[address]
			if s == nil {
				t.Errorf("no session with %s", address)
			} else if err := w.differs(s); err != nil {
				t.Errorf("session %d with %s: %v", w.CP, address, err)
			}
		}
	}
}
