// SPDX-License-Identifier: Apache-2.0

package upf_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/polycube/polycube/pdusession"
	"github.com/polycube/polycube/sdf"
	"github.com/polycube/polycube/test/mobile"
	"github.com/polycube/polycube/test/repeat"
)

// churn is what other sessions go through: each is created, changed, handed over and removed at random.
type churn struct {
	*rand.Rand
	tables *pdusession.Tables
	rows   map[int]*pdusession.Rows
	steps  int
}

// other is a session with a number, of random rules.
func (c *churn) other(i int) *pdusession.Session {
	udp := uint8(17)
	s := &pdusession.Session{
		IPv4:   netip.AddrFrom4([4]byte{10, 2, byte(i >> 8), byte(i)}),
		Meters: []pdusession.Meter{{ID: 1, Up: pdusession.Rate{Limited: true, BitsPerSecond: uint64(1+c.IntN(100)) * 1e6}}},
		Usages: []pdusession.Usage{{ID: 1, Threshold: pdusession.Volume{Total: uint64(c.IntN(5))}}},
	}
	down := pdusession.Forward{Action: pdusession.Action(c.IntN(3)), Peer: netip.AddrFrom4([4]byte{192, 0, 2, byte(40 + c.IntN(100))}), TEID: c.Uint32() | 1}
	s.Rules = []pdusession.Rule{
		{ID: 1, TEID: uint32(10_000 + i), Forward: pdusession.Forward{Action: pdusession.Pass}, Meters: []uint32{1}, Usages: []uint32{1}},
		{ID: 2, Forward: down, Usages: []uint32{1}},
	}
	if c.IntN(3) == 0 {
		s.Rules = append([]pdusession.Rule{{ID: 3, TEID: uint32(10_000 + i), Flows: []sdf.Flow{{L4Proto: &udp}}, Forward: pdusession.Forward{Action: pdusession.Drop}}}, s.Rules...)
	}
	return s
}

// step changes some sessions in one batch.
func (c *churn) step() error {
	b := c.tables.Begin()
	changed := map[int]*pdusession.Rows{}
	for range 1 + c.IntN(10) {
		i := c.IntN(40)
		if _, twice := changed[i]; twice {
			continue
		}
		was := c.rows[i]
		if was != nil && c.IntN(3) == 0 {
			if err := b.Remove(was); err != nil {
				return err
			}
			changed[i] = nil
			continue
		}
		is, err := b.Put(was, c.other(i))
		if err != nil {
			return err
		}
		changed[i] = is
	}
	if _, err := b.Commit(); err != nil {
		return err
	}
	for i, is := range changed {
		if c.rows[i] = is; is == nil {
			delete(c.rows, i)
		}
	}
	c.steps++
	return nil
}

// TestOtherSessionsChangeUnderTraffic: a session loses no packet and no count while others come, change and go.
func TestOtherSessionsChangeUnderTraffic(t *testing.T) {
	each(t, "", func(t *testing.T, c *core) {
		s := session()
		s.Usages = []pdusession.Usage{{ID: 1}}
		s.Rules[0].Usages, s.Rules[1].Usages = []uint32{1}, []uint32{1}
		rows := c.put(nil, s)
		others := &churn{Rand: rand.New(rand.NewPCG(repeat.Seed(t), 1)), tables: c.tables, rows: map[int]*pdusession.Rows{}}
		frames := map[string][]byte{"veth1": uplink(257, 9, fromPhone(53)), "veth2": network(toPhone(53))}
		var runs atomic.Uint64
		failed := make(chan error, len(frames))
		end := time.Now().Add(2 * time.Second)
		for dev, frame := range frames {
			go func() {
				failed <- func() error {
					for time.Now().Before(end) {
						for _, got := range c.RunAll(dev, [][]byte{frame, frame, frame, frame}) {
							runs.Add(1)
							if dev == "veth2" {
								if is, err := mobile.ReadTunnel(got); err != nil || is.To != addr(station) || is.Message.TEID != 1025 {
									return fmt.Errorf("%+v, %w", is, err)
								}
							} else if len(got) != 14+len(fromPhone(53)) {
								return fmt.Errorf("%d bytes have come out of the tunnel", len(got))
							}
						}
					}
					return nil
				}()
			}()
		}
		var err error
		for time.Now().Before(end) && err == nil {
			err = others.step()
		}
		for range frames {
			err = errors.Join(err, <-failed)
		}
		if err != nil {
			t.Fatal(err)
		}
		n, err := c.tables.Counts(rows.Usages[1])
		if err != nil || n.UpPackets+n.DownPackets != runs.Load() || n.Up != n.UpPackets*uint64(len(fromPhone(53))) || n.Down != n.DownPackets*uint64(len(toPhone(53))) {
			t.Errorf("%d packets were sent, and %+v counted; %v", runs.Load(), n, err)
		}
		if others.steps < 10 || runs.Load() < 100 {
			t.Errorf("only %d changes under %d packets", others.steps, runs.Load())
		}
		b := c.tables.Begin()
		for _, is := range others.rows {
			if err := b.Remove(is); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := b.Commit(); err != nil {
			t.Fatal(err)
		}
		if left := c.tables.InUse(); left != (pdusession.Use{Sessions: 1, Rules: 2, Usages: 1}) {
			t.Errorf("left in the tables: %+v", left)
		}
	})
}
