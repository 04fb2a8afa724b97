// SPDX-License-Identifier: Apache-2.0

package gtphandler

// User equipment in the maps of the program: by its addresses, and by the TEID of its tunnel.

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/table"
	"github.com/polycube/polycube/gtppath"
	"github.com/polycube/polycube/inet"
)

// downlink is struct gtphandler_user.
type downlink struct {
	Source, Destination inet.Address
	TEID, Counter       uint32
	QFI, IPv6           uint8
	ByClass, AnyTEID    uint8
	_                   uint32
}

// uplink is struct gtphandler_tunnel. Addresses are in network byte order.
type uplink struct {
	IPv6           uint64
	IPv4           uint32
	HasIPv4        uint32
	Class, Counter uint32
}

// claim is what only one device can have: an IPv4 address, an IPv6 prefix, a network behind it, or the TEID of a tunnel in its
// network instance.
type claim struct {
	kind    claimKind
	value   uint64
	tunnel  gtppath.Tunnel
	network inet.Network
}

type claimKind uint8

const (
	claimIPv4 claimKind = iota
	claimIPv6
	claimTEID
	claimRoute
)

// claimNames are for messages.
var claimNames = map[claimKind]string{claimIPv4: "address", claimIPv6: "IPv6 prefix", claimTEID: "teid", claimRoute: "framed-route"}

// user is a device in effect.
type user struct {
	User
	counted
	claims []claim
	down   downlink
	up     uplink
}

type users struct {
	ipv4    table.Table[uint32, downlink]
	ipv6    table.Table[uint64, downlink]
	tunnels table.Table[uint32, uplink]
	// named are the tunnels of network instances with a name.
	named    table.Table[gtppath.Tunnel, uplink]
	networks table.Table[inet.Network, inet.Address]
	counters *counters
	path     *gtppath.Path

	of     map[netip.Addr]*user
	claims map[claim]*user
	// routes is the number of networks behind devices.
	routes int
}

func newUsers(env cube.Env, path *gtppath.Path, counters *counters) *users {
	return &users{
		path: path,
		ipv4: table.New[uint32, downlink](env, "users4"), ipv6: table.New[uint64, downlink](env, "users6"),
		tunnels: table.New[uint32, uplink](env, "tunnels"), named: table.New[gtppath.Tunnel, uplink](env, "named_tunnels"),
		networks: table.New[inet.Network, inet.Address](env, "networks"),
		counters: counters, of: map[netip.Addr]*user{}, claims: map[claim]*user{},
	}
}

// change is a checked change.
type change struct {
	*users
	conf    *Config
	created bool
	// fresh are devices that are new or changed, and was what there was before of these and of those that are gone.
	fresh map[netip.Addr]*user
	was   map[netip.Addr]*user
	// left are for the tunnels that devices have left.
	left   []gtppath.EndMarker
	undone cube.Undo
}

// prepare checks a change of the configuration and of entries.
func (u *users) prepare(entries []cube.EntryChange, old, conf *Config, created bool) (*change, error) {
	c := &change{users: u, conf: conf, created: created, fresh: map[netip.Addr]*user{}, was: map[netip.Addr]*user{}}
	changed, err := cube.DecodeEntries[User](entries)
	if err != nil {
		return nil, err
	}
	for _, e := range changed {
		if e.Old != nil {
			c.was[e.Old.IP] = u.of[e.Old.IP]
		}
		if e.New == nil {
			continue
		}
		if c.fresh[e.New.IP], err = conf.compile(e.New); err != nil {
			return nil, fmt.Errorf("user-equipment %s: %w", e.New.IP, err)
		}
	}
	if len(c.fresh) > 0 && conf.Type == Ethernet {
		return nil, fmt.Errorf("user-equipment: session-type is ETHERNET: add an ethernet-session: %w", cube.ErrInvalid)
	}
	if err := c.others(old); err != nil {
		return nil, err
	}
	if n := len(u.of) - len(c.was) + len(c.fresh); n > int(conf.MaxUsers) {
		return nil, fmt.Errorf("user-equipment: %d devices, but max-user-equipment is %d: create a gtphandler with more: %w", n, conf.MaxUsers, cube.ErrFull)
	}
	if n := u.routes - routesOf(c.was) + routesOf(c.fresh); n > int(conf.MaxRoutes) {
		return nil, fmt.Errorf("user-equipment: %d framed routes, but max-framed-routes is %d: create a gtphandler with more: %w", n, conf.MaxRoutes, cube.ErrFull)
	}
	return c, c.check()
}

// routesOf is the number of networks behind devices.
func routesOf(all map[netip.Addr]*user) (n int) {
	for _, is := range all {
		n += len(is.Routes)
	}
	return n
}

// others compiles the devices that do not change themselves, if the addresses of this end do.
func (c *change) others(old *Config) error {
	if old == nil || old == c.conf {
		return nil
	}
	for ip, is := range c.of {
		if c.was[ip] != nil {
			continue
		}
		before, _ := old.local(is.Endpoint, is.Instance)
		after, err := c.conf.local(is.Endpoint, is.Instance)
		if err != nil {
			return fmt.Errorf("user-equipment %s: %w", ip, err)
		}
		if before != after {
			if c.fresh[ip], err = c.conf.compile(&is.User); err != nil {
				return err
			}
			c.was[ip] = is
		}
	}
	return nil
}

// check returns an error if two devices want the same.
func (c *change) check() error {
	taken := map[claim]*user{}
	for ip, is := range c.fresh {
		for _, k := range is.claims {
			owner := taken[k]
			if existing := c.claims[k]; existing != nil && c.was[existing.IP] == nil {
				owner = existing
			}
			if owner != nil {
				return fmt.Errorf("user-equipment %s: %s has the same %s: %w", ip, owner.IP, claimNames[k.kind], cube.ErrExists)
			}
			taken[k] = is
		}
	}
	return nil
}

// compile brings an entry into the form of the program, without its counter.
func (c *Config) compile(u *User) (*user, error) {
	if err := u.check(); err != nil {
		return nil, err
	}
	local, err := c.local(u.Endpoint, u.Instance)
	if err != nil {
		return nil, err
	}
	is := &user{User: *u}
	is.down = downlink{Source: inet.AddressOf(local), Destination: inet.AddressOf(u.Endpoint), TEID: u.Remote, QFI: u.QFI}
	is.up.Class = u.TEID
	if u.Class != nil {
		is.up.Class = *u.Class
	}
	for flag, set := range map[*uint8]bool{&is.down.IPv6: u.Endpoint.Is6(), &is.down.ByClass: u.Remote == 0, &is.down.AnyTEID: u.TEID == 0} {
		if set {
			*flag = 1
		}
	}
	for _, a := range []netip.Addr{u.IP, u.Prefix} {
		switch {
		case a.Is4():
			address := a.As4()
			is.up.IPv4, is.up.HasIPv4 = binary.NativeEndian.Uint32(address[:]), 1
			is.claims = append(is.claims, claim{kind: claimIPv4, value: uint64(is.up.IPv4)})
		case a.IsValid():
			address := a.As16()
			is.up.IPv6 = binary.NativeEndian.Uint64(address[:])
			is.claims = append(is.claims, claim{kind: claimIPv6, value: is.up.IPv6})
		}
	}
	for _, r := range u.Routes {
		is.claims = append(is.claims, claim{kind: claimRoute, network: inet.NetworkOf(r)})
	}
	if u.TEID != 0 {
		is.claims = append(is.claims, claim{kind: claimTEID, tunnel: gtppath.Tunnel{TEID: u.TEID, Instance: gtppath.Instance(u.Instance)}})
	}
	return is, nil
}

// commit carries the change out: first it removes what is gone, which makes room.
func (c *change) commit() (undo func() error, err error) {
	c.left = nil
	defer func() {
		if err != nil {
			err = errors.Join(err, c.undone.Run())
		}
	}()
	if c.created {
		if err := c.begin(); err != nil {
			return nil, err
		}
	}
	if err := c.path.Configure(c.conf.Settings(), &c.undone); err != nil {
		return nil, err
	}
	for ip, was := range c.was {
		if c.fresh[ip] == nil {
			if err := c.leave(was, nil); err != nil {
				return nil, fmt.Errorf("user-equipment %s: %w", ip, err)
			}
		}
	}
	for ip, is := range c.fresh {
		if err := c.enter(is, c.was[ip]); err != nil {
			return nil, fmt.Errorf("user-equipment %s: %w", ip, err)
		}
	}
	return c.undone.Run, nil
}

// begin takes over the maps of an earlier daemon: what is not configured any more is removed, and devices get their counters.
func (c *change) begin() error {
	claimed := map[claim]*user{}
	for _, is := range c.fresh {
		for _, k := range is.claims {
			claimed[k] = is
		}
	}
	var gone []claim
	c.counters.begin()
	seen := func(k claim, counter uint32) {
		if is := claimed[k]; is == nil || !c.counters.keep(&is.counted, counter) {
			gone = append(gone, k)
		}
	}
	var errs [5]error
	for address, is := range c.ipv4.All(&errs[0]) {
		seen(claim{kind: claimIPv4, value: uint64(address)}, is.Counter)
	}
	for prefix, is := range c.ipv6.All(&errs[1]) {
		seen(claim{kind: claimIPv6, value: prefix}, is.Counter)
	}
	for teid, is := range c.tunnels.All(&errs[2]) {
		seen(claim{kind: claimTEID, tunnel: gtppath.Tunnel{TEID: teid}}, is.Counter)
	}
	for tunnel, is := range c.named.All(&errs[4]) {
		seen(claim{kind: claimTEID, tunnel: tunnel}, is.Counter)
	}
	for network, of := range c.networks.All(&errs[3]) {
		k := claim{kind: claimRoute, network: network}
		if is := claimed[k]; is == nil || inet.AddressOf(is.IP) != of {
			gone = append(gone, k)
		}
	}
	endpoints := map[netip.Addr]bool{}
	for _, is := range c.fresh {
		endpoints[is.Endpoint] = true
	}
	for _, is := range c.conf.Sessions {
		endpoints[is.Endpoint] = true
	}
	if err := errors.Join(errors.Join(errs[:]...), c.path.Begin(endpoints)); err != nil {
		return err
	}
	for _, k := range gone {
		if err := c.remove(k); err != nil {
			return err
		}
	}
	return nil
}

// enter gives a device its tunnels; was is what it had before.
func (c *change) enter(is, was *user) error {
	if was != nil {
		is.counter = was.counter
	} else if err := c.counters.give(&is.counted, &c.undone); err != nil {
		return err
	}
	is.down.Counter, is.up.Counter = is.counter, is.counter
	if err := c.path.Use(is.Endpoint, gtppath.Instance(is.Instance), &c.undone); err != nil {
		return err
	}
	if was != nil && was.Remote != 0 && (was.Remote != is.Remote || was.Endpoint != is.Endpoint) {
		m, err := c.path.EndMarker(was.down.Source.Addr(), was.Endpoint, was.Remote)
		if err != nil {
			return err
		}
		c.left = append(c.left, m)
	}
	for _, k := range is.claims {
		if err := c.put(k, is); err != nil {
			return err
		}
	}
	if was != nil {
		if err := c.leave(was, is); err != nil {
			return err
		}
	}
	more := len(is.Routes)
	if was != nil {
		more -= len(was.Routes)
	}
	c.of[is.IP] = is
	c.routes += more
	c.undone.Push(func() error {
		delete(c.of, is.IP)
		if was != nil {
			c.of[is.IP] = was
		}
		c.routes -= more
		return nil
	})
	return nil
}

// leave ends what a device had and does not have now; nil: it is gone.
func (c *change) leave(was, is *user) error {
	for _, k := range was.claims {
		if c.claims[k] != was {
			continue
		}
		if err := c.remove(k); err != nil {
			return err
		}
		delete(c.claims, k)
		c.undone.Push(func() error {
			c.claims[k] = was
			return c.write(k, was)
		})
	}
	if err := c.path.Unuse(was.Endpoint, &c.undone); err != nil || is != nil {
		return err
	}
	delete(c.of, was.IP)
	c.routes -= len(was.Routes)
	c.counters.release(&was.counted, &c.undone)
	c.undone.Push(func() error {
		c.of[was.IP] = was
		c.routes += len(was.Routes)
		return nil
	})
	return nil
}

// put gives a claim to a device.
func (c *change) put(k claim, is *user) error {
	was := c.claims[k]
	c.claims[k] = is
	c.undone.Push(func() error {
		if was != nil {
			c.claims[k] = was
			return c.write(k, was)
		}
		delete(c.claims, k)
		return c.remove(k)
	})
	return c.write(k, is)
}

// write writes an entry of the maps.
func (u *users) write(k claim, is *user) error {
	switch k.kind {
	case claimIPv4:
		return u.ipv4.Set(uint32(k.value), is.down)
	case claimIPv6:
		return u.ipv6.Set(k.value, is.down)
	case claimRoute:
		return u.networks.Set(k.network, inet.AddressOf(is.IP))
	case claimTEID: // below
	}
	if k.tunnel.Instance != 0 {
		return u.named.Set(k.tunnel, is.up)
	}
	return u.tunnels.Set(k.tunnel.TEID, is.up)
}

// remove removes one.
func (u *users) remove(k claim) (err error) {
	switch k.kind {
	case claimIPv4:
		_, err = u.ipv4.Delete(uint32(k.value))
	case claimIPv6:
		_, err = u.ipv6.Delete(k.value)
	case claimRoute:
		_, err = u.networks.Delete(k.network)
	case claimTEID:
		if k.tunnel.Instance != 0 {
			_, err = u.named.Delete(k.tunnel)
		} else {
			_, err = u.tunnels.Delete(k.tunnel.TEID)
		}
	}
	return err
}
