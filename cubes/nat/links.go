// SPDX-License-Identifier: Apache-2.0

package nat

// The netdevs of the host, with the addresses that MASQUERADE and REDIRECT use.

import (
	"errors"
	"fmt"
	"net"
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

	// Nil before the first take.
	hosts []hostaddr.Address
	local map[netip.Addr]bool
}

func newLinks(env cube.Env, changed func()) *links {
	l := &links{env: env, links: table.New[uint32, link](env, "links"), types: table.New[inet.Address, uint32](env, "addresses"), changed: changed}
	l.follower = hostaddr.New(env, l.take)
	return l
}

// take takes over the addresses of the host when they have changed.
func (l *links) take(all []hostaddr.Address, err error) {
	if err == nil {
		err = l.know(all)
	}
	if err != nil {
		l.env.Logger().Error("the addresses of the host are not known", "error", err)
		return
	}
	l.changed()
}

// know writes addresses.
func (l *links) know(all []hostaddr.Address) error {
	l.hosts, l.local = all, map[netip.Addr]bool{}
	for _, a := range all {
		l.local[a.Prefix.Addr()] = true
	}
	_, err := table.Replace(l.types, hostaddr.Types(all)).Do()
	return errors.Join(err, l.write())
}

// refresh writes the netdevs that there are, and the first time the addresses. It is a step of a plan, without an undo.
func (l *links) refresh() (undo func() error, err error) {
	if l.hosts != nil {
		return nil, l.write()
	}
	all, err := hostaddr.List()
	if err != nil {
		return nil, err
	}
	return nil, l.know(all)
}

// write writes the netdevs, each with its first address of each family that is known beyond the link, or, as in Linux, with the
// first one of all netdevs.
func (l *links) write() error {
	netdevs, err := net.Interfaces()
	if err != nil {
		return fmt.Errorf("list the netdevs: %w", err)
	}
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
	for _, d := range netdevs {
		is := link{Address: first}
		copy(is.Name[:15], d.Name)
		for family := range first {
			if of := own[d.Index]; of != nil && of[family] != (inet.Address{}) {
				is.Address[family] = of[family]
			}
		}
		want[uint32(d.Index)] = is
	}
	_, err = table.Replace(l.links, want).Do()
	return err
}

// has reports whether the host has an address, as far as is known.
func (l *links) has(a netip.Addr) bool { return l.local == nil || l.local[a] }
