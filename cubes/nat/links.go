// SPDX-License-Identifier: Apache-2.0

package nat

// The netdevs of the host, with the addresses that MASQUERADE and REDIRECT use.

import (
	"errors"
	"maps"
	"net/netip"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/table"
	"github.com/polycube/polycube/hostaddr"
	"github.com/polycube/polycube/inet"
)

// link is struct nat_link.
type link struct {
	Name    [16]byte
	Address [2]inet.Address
}

// links keep the tables of netdevs and addresses as the host has them.
type links struct {
	env      cube.Env
	links    table.Table[uint32, link]
	types    table.Table[inet.Address, uint32]
	follower *hostaddr.Follower
	// changed is called when addresses have changed.
	changed func()

	names map[int]string
	hosts []hostaddr.Address
	local map[netip.Addr]bool
}

func newLinks(env cube.Env, changed func()) *links {
	l := &links{env: env, links: table.New[uint32, link](env, "links"), types: table.New[inet.Address, uint32](env, "addresses"), changed: changed}
	l.follower = hostaddr.New(env, l.take)
	return l
}

// take takes over the addresses of the host.
func (l *links) take(all []hostaddr.Address, err error) {
	if err == nil {
		l.hosts, l.local = all, map[netip.Addr]bool{}
		for _, a := range all {
			l.local[a.Prefix.Addr()] = true
		}
		_, err = table.Replace(l.types, hostaddr.Types(all)).Do()
	}
	if err = errors.Join(err, l.write()); err != nil {
		l.env.Logger().Error("the addresses of the host are not known", "error", err)
		return
	}
	l.changed()
}

// name takes over which netdevs there are.
func (l *links) name(p *cube.Parent) {
	l.names = maps.Clone(p.Netdevs)
	if p.Index != 0 {
		l.names = map[int]string{p.Index: p.Netdev}
	}
	if err := l.write(); err != nil {
		l.env.Logger().Error("rules do not match by interface", "error", err)
	}
}

// write writes the netdevs, each with its first address of each family that is known beyond the link, or, as in Linux, with the
// first one of all netdevs.
func (l *links) write() error {
	var first [2]inet.Address
	own := map[int]*[2]inet.Address{}
	for _, a := range l.hosts {
		if !a.Global {
			continue
		}
		family := 0
		if a.Prefix.Addr().Is6() {
			family = 1
		}
		of := own[a.Index]
		if of == nil {
			of = &[2]inet.Address{}
			own[a.Index] = of
		}
		for _, to := range []*inet.Address{&first[family], &of[family]} {
			if *to == (inet.Address{}) {
				*to = inet.AddressOf(a.Prefix.Addr())
			}
		}
	}
	want := map[uint32]link{}
	for index, name := range l.names {
		is := link{Address: first}
		copy(is.Name[:15], name)
		for family := range first {
			if of := own[index]; of != nil && of[family] != (inet.Address{}) {
				is.Address[family] = of[family]
			}
		}
		want[uint32(index)] = is
	}
	_, err := table.Replace(l.links, want).Do()
	return err
}

// has reports whether the host has an address, as far as is known.
func (l *links) has(a netip.Addr) bool { return l.local == nil || l.local[a] }
