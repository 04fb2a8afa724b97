// SPDX-License-Identifier: Apache-2.0

package n4

// What sessions have exclusively: TEIDs, addresses of devices, guaranteed bit rates.

import (
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"net/netip"
	"slices"

	"github.com/wmnsk/go-pfcp/ie"

	"github.com/polycube/polycube/internal/n4/rules"
)

// errNoTEID: the draws of TEIDs found none that is free.
var errNoTEID = errors.New("no free TEID")

// resources are those in use, each with the number of its session.
type resources struct {
	data      DataPlane
	random    *mathrand.ChaCha8
	teids     map[rules.TEID]uint64
	addresses map[netip.Addr]uint64 // the first address of an IPv6 prefix
	pools     []*pool
	instances []string
	gbr       rules.Rates
	maxGBR    uint64
}

func newResources(c *Config, data DataPlane) *resources {
	var seed [32]byte
	rand.Read(seed[:]) // never returns an error
	r := &resources{data: data, random: mathrand.NewChaCha8(seed), teids: map[rules.TEID]uint64{}, addresses: map[netip.Addr]uint64{},
		instances: c.Instances, maxGBR: c.GuaranteedKbps}
	for _, p := range c.Pools {
		r.pools = append(r.pools, newPool(p))
	}
	return r
}

// claim is what a request has taken so far. It is the Resources of its rules.
type claim struct {
	*resources
	session   uint64
	taken     []rules.TEID
	allocated []netip.Addr
	gbrBefore rules.Rates
	gbrAfter  rules.Rates
}

func (r *resources) claim(session uint64) *claim { return &claim{resources: r, session: session} }

// TEID returns a random one: the tunnels of a device cannot be guessed.
func (c *claim) TEID(local string) (uint32, error) {
	for range 64 {
		t := rules.TEID{Local: local, TEID: uint32(c.random.Uint64())}
		if _, used := c.teids[t]; t.TEID != 0 && !used {
			c.teids[t] = c.session
			c.taken = append(c.taken, t)
			return t.TEID, nil
		}
	}
	return 0, errNoTEID
}

// IPv4 allocates from the pools of a network instance.
func (c *claim) IPv4(instance string) (netip.Addr, error) { return c.allocate(instance, true) }

// IPv6 allocates a /64 prefix.
func (c *claim) IPv6(instance string) (netip.Prefix, error) {
	addr, err := c.allocate(instance, false)
	if err != nil {
		return netip.Prefix{}, err
	}
	return netip.PrefixFrom(addr, 64), nil
}

func (c *claim) allocate(instance string, v4 bool) (netip.Addr, error) {
	used := func(a netip.Addr) bool { _, is := c.addresses[a]; return is }
	for _, p := range c.pools {
		if p.Prefix.Addr().Is4() != v4 || p.Instance != "" && p.Instance != instance {
			continue
		}
		if addr, ok := p.take(used); ok {
			c.addresses[addr] = c.session
			c.allocated = append(c.allocated, addr)
			return addr, nil
		}
	}
	return netip.Addr{}, fmt.Errorf("network instance %q: %w", instance, errOccupied)
}

// Locals are the addresses of this end of tunnels.
func (c *claim) Locals() rules.Locals { return c.data.Locals() }

// Known reports whether there is a network instance.
func (c *claim) Known(instance string) bool {
	return len(c.instances) == 0 || slices.Contains(c.instances, instance)
}

// deviceAddresses returns those of a set; IPv6 is known by the first address of its prefix.
func deviceAddresses(s *rules.Set) []netip.Addr {
	var list []netip.Addr
	if s == nil {
		return nil
	}
	if s.IPv4.IsValid() {
		list = append(list, s.IPv4)
	}
	if s.IPv6.IsValid() {
		list = append(list, s.IPv6.Addr())
	}
	return list
}

// complete takes what the CP function has given, and guaranteed bit rates. The former set is nil for a new session.
func (c *claim) complete(was, is *rules.Set) error {
	for _, teid := range is.TEIDs() {
		if of, used := c.teids[teid]; used && of != c.session {
			return &rules.RefusalError{Cause: ie.CauseRuleCreationModificationFailure, Failed: failedPDR(is, teid), Why: "another session has the TEID"}
		} else if !used {
			c.teids[teid] = c.session
			c.taken = append(c.taken, teid)
		}
	}
	for _, addr := range deviceAddresses(is) {
		if of, used := c.addresses[addr]; used && of != c.session {
			return &rules.RefusalError{Cause: ie.CauseRuleCreationModificationFailure, Failed: failedPDR(is, rules.TEID{}), Why: "another session has the address " + addr.String()}
		} else if !used {
			c.addresses[addr] = c.session
			c.allocated = append(c.allocated, addr)
		}
	}
	c.gbrAfter = is.GBR()
	if was != nil {
		c.gbrBefore = was.GBR()
	}
	up, down := c.gbr.Up-c.gbrBefore.Up+c.gbrAfter.Up, c.gbr.Down-c.gbrBefore.Down+c.gbrAfter.Down
	more := c.gbrAfter.Up > c.gbrBefore.Up || c.gbrAfter.Down > c.gbrBefore.Down
	if c.maxGBR > 0 && more && (up > c.maxGBR || down > c.maxGBR) {
		c.gbrBefore, c.gbrAfter = rules.Rates{}, rules.Rates{}
		return &rules.RefusalError{Cause: ie.CauseNoResourcesAvailable, Why: "guaranteed bit rates above the capacity"}
	}
	c.gbr = rules.Rates{Up: up, Down: down}
	return nil
}

// failedPDR names the first PDR with a TEID; 0: the first one.
func failedPDR(s *rules.Set, teid rules.TEID) *rules.Failed {
	for i := range s.PDRs {
		if r := &s.PDRs[i]; teid.TEID == 0 || r.Has(teid) {
			return &rules.Failed{Kind: ie.RuleIDTypePDR, ID: uint32(r.ID)}
		}
	}
	return nil
}

// undo returns what a refused request has taken.
func (c *claim) undo() {
	for _, teid := range c.taken {
		delete(c.teids, teid)
	}
	for _, addr := range c.allocated {
		c.free(addr)
	}
	c.gbr.Up -= c.gbrAfter.Up - c.gbrBefore.Up
	c.gbr.Down -= c.gbrAfter.Down - c.gbrBefore.Down
	*c = claim{resources: c.resources, session: c.session}
}

func (r *resources) free(addr netip.Addr) {
	delete(r.addresses, addr)
	for _, p := range r.pools {
		p.giveBack(addr)
	}
}

// settle returns what a session had and has no more, once the data plane does not use it. Either set may be nil. What was
// taken for rules that the same request has replaced is returned, too.
func (c *claim) settle(was, is *rules.Set) {
	var before, after []rules.TEID
	if was != nil {
		before = was.TEIDs()
	}
	if is != nil {
		after = is.TEIDs()
	}
	for _, teid := range append(before, c.taken...) {
		if !slices.Contains(after, teid) {
			delete(c.teids, teid)
		}
	}
	kept := deviceAddresses(is)
	for _, addr := range deviceAddresses(was) {
		if !slices.Contains(kept, addr) {
			c.free(addr)
		}
	}
}

// releaseGBR returns the guaranteed bit rates of a session that is removed.
func (r *resources) releaseGBR(s *rules.Set) {
	g := s.GBR()
	r.gbr.Up -= g.Up
	r.gbr.Down -= g.Down
}
