// SPDX-License-Identifier: Apache-2.0

package iptables

// Conditions about the connection of a packet, and about how many connections there are: connections.h. Programs count those that
// begin, and this those that end.

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/polycube/polycube/conntrack"
	conns "github.com/polycube/polycube/conntrack/table"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/table"
	"github.com/polycube/polycube/inet"
	"github.com/polycube/polycube/iptables/language"
)

// crowd is struct iptables_crowd.
type crowd struct {
	Rule    counted
	Serial  uint32
	_       uint32
	Address inet.Address
}

// link is struct iptables_link.
type link struct {
	Crowd      crowd
	Connection conns.Key
}

// connectionTests returns the conditions of -m conntrack other than --ctstate.
func connectionTests(m language.Conntrack) (out []test, err error) {
	if m.Status != nil || m.Expire != nil {
		return nil, fmt.Errorf("--ctstatus and --ctexpire are not supported; use --ctstate: %w", cube.ErrUnsupported)
	}
	for _, a := range []struct {
		kind testKind
		is   language.Address
	}{{testCTSource, m.OrigSrc}, {testCTDestination, m.OrigDst}, {testCTDestination, m.ReplSrc}, {testCTSource, m.ReplDst}} {
		if !a.is.Any() {
			out = append(out, maskTest(a.kind, a.is))
		}
	}
	for _, p := range []struct {
		kind testKind
		is   *language.PortRange
	}{
		{testCTSourcePort, m.OrigSrcPort}, {testCTDestinationPort, m.OrigDstPort}, {testCTDestinationPort, m.ReplSrcPort},
		{testCTSourcePort, m.ReplDstPort},
	} {
		if p.is != nil {
			t := test{Kind: p.kind, Negated: p.is.Not}
			binary.NativeEndian.PutUint16(t.Data[:], p.is.First)
			binary.NativeEndian.PutUint16(t.Data[2:], p.is.Last)
			out = append(out, t)
		}
	}
	if m.HasProtocol && m.Protocol.Number != 0 {
		out = append(out, test{Kind: testCTProtocol, Negated: m.Protocol.Not, Value: uint32(m.Protocol.Number)})
	}
	if m.Dir != "" {
		out = append(out, test{Kind: testReply, Negated: m.Dir == "ORIGINAL"})
	}
	for i := range out {
		if len(m.State) > 0 { // the only condition that a packet without connection can fulfil, and it is enough
			out[i].Number = 1
		}
	}
	return out, nil
}

// byDestination is the bit of a condition that is about destination addresses.
const byDestination = 1 << 8

// connectionsTest is the condition that there are more connections than a number, or not.
func connectionsTest(m language.ConnLimit) test {
	t := test{Kind: testConnections, Negated: !m.Above, Value: m.Count, Number: uint16(m.MaskBits)}
	if m.Destination {
		t.Number |= byDestination
	}
	return t
}

// crowds are the connections that count.
type crowds struct {
	links             table.Table[link, uint32]
	arrived, departed table.Table[crowd, uint32]
	// before is what had arrived at the last tick.
	before map[crowd]uint32
}

// crowdTick is how often connections that have ended are found.
const crowdTick = time.Second

func newCrowds(env cube.Env) *crowds {
	return &crowds{links: table.New[link, uint32](env, "links"), arrived: table.New[crowd, uint32](env, "arrived"),
		departed: table.New[crowd, uint32](env, "departed"), before: map[crowd]uint32{}}
}

// tick counts out the connections that have ended. counts reports whether a crowd's rule is still there.
func (c *crowds) tick(counts func(*crowd) bool, runs func(conns.Key) bool) error {
	var err error
	arrived := map[crowd]uint32{}
	for k, n := range c.arrived.All(&err) {
		arrived[k] = n
	}
	there, gone := map[crowd]uint32{}, map[crowd]uint32{}
	var ended []link
	for l := range c.links.All(&err) {
		if runs(l.Connection) && counts(&l.Crowd) {
			there[l.Crowd]++
		} else {
			ended = append(ended, l)
			gone[l.Crowd]++
		}
	}
	if err != nil {
		return err
	}
	if _, err := c.links.DeleteAll(ended); err != nil {
		return err
	}
	for _, crowds := range []map[crowd]uint32{there, gone} {
		for k := range crowds {
			arrived[k] += 0 // it is in the map, even if a program counted a connection while the crowd was being forgotten
		}
	}
	var errs []error
	for k, n := range arrived {
		errs = append(errs, c.settle(k, n, gone[k], there[k]))
	}
	c.before = arrived
	return errors.Join(errs...)
}

// settle writes how many connections of a crowd have departed. If none has arrived since the last tick, the connections that are
// there tell: nothing is lost if the daemon was killed between the two. A crowd without connections is forgotten then. If a program
// counts one at this moment, the next two ticks find it.
func (c *crowds) settle(k crowd, arrived, gone, there uint32) error {
	departed, known, err := c.departed.Get(k)
	if err != nil {
		return err
	}
	was := departed
	departed += gone
	if before, ok := c.before[k]; ok && before == arrived {
		departed = arrived - there
		if there == 0 {
			_, lost := c.arrived.Delete(k)
			_, bad := c.departed.Delete(k)
			return errors.Join(lost, bad)
		}
	}
	if departed == was && (known || departed == 0) {
		return nil
	}
	return c.departed.Set(k, departed)
}

// countOut is called after each crowdTick.
func (f *iptables) countOut() {
	known := map[counted]uint32{}
	counts := func(k *crowd) bool {
		serial, ok := known[k.Rule]
		if !ok {
			r, there, err := f.rows.Get(k.Rule.Counter)
			if there && err == nil && k.Rule.Place < r.Tests && r.Test[k.Rule.Place].Kind == testConnections {
				serial = r.Test[k.Rule.Place].serial()
			}
			known[k.Rule] = serial
		}
		return serial == k.Serial
	}
	runs := func(k conns.Key) bool {
		phase, ok := f.zone.Phase(k)
		return ok && phase != conntrack.TimeWait && phase != conntrack.Closed
	}
	if err := f.crowds.tick(counts, runs); err != nil {
		f.env.Logger().Error("connections that have ended still count", "error", err)
	}
}
