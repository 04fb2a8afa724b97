// SPDX-License-Identifier: Apache-2.0

package shadow

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/netdev"
)

// alias is the prefix of the alias of outer ends, which names their owner.
const alias = "polycube shadow "

func aliasOf(c Cube, port string) string { return alias + c.UUID + " " + c.Name + ":" + port }

// Ends are the interfaces of a cube's namespace.
type Ends struct {
	// Outer are the indexes of the outer ends, by port.
	Outer map[string]int
	// Made are the ports whose interfaces are new.
	Made []string
	// Undo removes only what was created.
	Undo func() error
}

// Ensure creates the missing parts of a cube's namespace and of its ports' interfaces.
func (k *Keeper) Ensure(c Cube) (Ends, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	ends := Ends{Outer: make(map[string]int, len(c.Ports))}
	s, fresh, err := k.space(c)
	if err != nil {
		return Ends{}, err
	}
	undo := func() error {
		if fresh {
			return k.remove(c.UUID)
		}
		var names []string
		for _, port := range ends.Made {
			names = append(names, InnerName(port))
		}
		return s.remove(names...)
	}
	for _, port := range c.Ports {
		name := InnerName(port)
		e, there := s.ends[name]
		if !there {
			if e, err = k.wire(c, s, port); err != nil {
				return Ends{}, errors.Join(err, undo())
			}
			s.ends[name] = e
			ends.Made = append(ends.Made, port)
		}
		ends.Outer[port] = e.outer
	}
	ends.Undo = func() error {
		k.mu.Lock()
		defer k.mu.Unlock()
		return undo()
	}
	return ends, nil
}

// space returns the cube's namespace with its name and its interfaces; fresh tells that it was created.
func (k *Keeper) space(c Cube) (s *space, fresh bool, err error) {
	if s = k.spaces[c.UUID]; s != nil {
		err = k.rename(s)
	} else if s, fresh, err = k.open(c); err == nil {
		k.spaces[c.UUID] = s
		k.watch(c.UUID, s)
	}
	if err != nil {
		return nil, false, err
	}
	return s, fresh, s.find()
}

// find collects the interfaces of the namespace: veths whose other end is an outer end of ours.
func (s *space) find() error {
	inside := map[string]*netlink.Veth{}
	err := netdev.InNamespace(s.file, func() error {
		links, err := netdev.Listed(netlink.LinkList)
		for _, l := range links {
			if v, ok := l.(*netlink.Veth); ok {
				inside[v.Name] = v
			}
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("shadow: interfaces of %s: %w", s.path, err)
	}
	s.ends = map[string]end{}
	for name, v := range inside {
		outer, err := netlink.LinkByIndex(v.ParentIndex)
		if err == nil && strings.HasPrefix(outer.Attrs().Alias, s.alias) && outer.Attrs().ParentIndex == v.Index {
			s.ends[name] = end{v.Index, v.ParentIndex}
		}
	}
	return nil
}

// wire creates a port's interface. Its outer end gets another name if the plain one is taken, unless by an interface
// of the same port that was moved out of the namespace.
func (k *Keeper) wire(c Cube, s *space, port string) (end, error) {
	inner := InnerName(port)
	for _, outer := range []string{OuterName(c.Name, port), otherOuterName(k.o.Instance, c.Name, port)} {
		if l, err := netlink.LinkByName(outer); err == nil && l.Attrs().Alias == aliasOf(c, port) {
			if err := ignoreMissing(netlink.LinkDel(l)); err != nil {
				return end{}, err
			}
		}
		err := k.addVeth(s, outer, inner)
		if errors.Is(err, unix.EEXIST) {
			continue
		}
		if err != nil {
			return end{}, fmt.Errorf("shadow: interface of port %s: %w", port, err)
		}
		e, err := k.ready(s, outer, inner, aliasOf(c, port))
		if err != nil {
			return end{}, errors.Join(err, removeLink(outer))
		}
		return e, nil
	}
	return end{}, fmt.Errorf("port %s: the name of interface %s, or of %s in %s, is in use: %w",
		port, OuterName(c.Name, port), inner, k.Name(c.Name), cube.ErrInUse)
}

func (k *Keeper) addVeth(s *space, outer, inner string) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = outer
	return netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: inner, PeerNamespace: netlink.NsFd(s.file.Fd())})
}

// ready finishes a new interface. The outer end has no IPv6, and its alias names its owner.
func (k *Keeper) ready(s *space, outer, inner, whose string) (end, error) {
	l, err := netlink.LinkByName(outer)
	if err != nil {
		return end{}, fmt.Errorf("shadow: outer end %s: %w", outer, err)
	}
	// A kernel without IPv6 does not need this setting.
	if err := netlink.LinkSetIP6AddrGenMode(l, nl6None); err != nil && !errors.Is(err, unix.EAFNOSUPPORT) && !errors.Is(err, unix.EOPNOTSUPP) {
		return end{}, fmt.Errorf("shadow: outer end %s: %w", outer, err)
	}
	if err := netlink.LinkSetAlias(l, whose); err != nil {
		return end{}, fmt.Errorf("shadow: outer end %s: %w", outer, err)
	}
	e := end{inner: l.Attrs().ParentIndex, outer: l.Attrs().Index}
	err = netdev.InNamespace(s.file, func() error {
		in, err := netlink.LinkByName(inner)
		if err != nil {
			return err
		}
		e.inner = in.Attrs().Index
		if k.o.Prepare != nil {
			if err := k.o.Prepare(e.inner); err != nil {
				return err
			}
		}
		return netlink.LinkSetUp(in)
	})
	if err != nil {
		return end{}, fmt.Errorf("shadow: interface %s in %s: %w", inner, s.path, err)
	}
	return e, nil
}

// nl6None is IN6_ADDR_GEN_MODE_NONE.
const nl6None = 1

// Owner is the UUID of the cube that an outer end belongs to, "" for any other interface.
func (k *Keeper) Owner(ifindex int) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	for uuid, s := range k.spaces {
		for _, e := range s.ends {
			if e.outer == ifindex {
				return uuid
			}
		}
	}
	return ""
}

// Trim removes the interfaces of ports that the cube no longer has.
func (k *Keeper) Trim(c Cube) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.spaces[c.UUID]
	if s == nil {
		return nil
	}
	keep := map[string]bool{}
	for _, port := range c.Ports {
		keep[InnerName(port)] = true
	}
	var names []string
	for name := range s.ends {
		if !keep[name] {
			names = append(names, name)
		}
	}
	return s.remove(names...)
}

// remove deletes interfaces by their outer ends, and forgets them.
func (s *space) remove(names ...string) error {
	var outer []int
	for _, name := range names {
		if e, ok := s.ends[name]; ok {
			outer = append(outer, e.outer)
		}
		delete(s.ends, name)
	}
	return removeLinks(outer)
}

// dyingGroup is the group of interfaces that are about to be deleted: the kernel deletes a group together, and waits
// once for all of them. A keeper only puts interfaces to be deleted into it.
const dyingGroup = 0x70636e64

// removeLinks deletes interfaces; it is not an error if they are already gone.
func removeLinks(indexes []int) error {
	var errs []error
	for _, index := range indexes {
		l, err := netlink.LinkByIndex(index)
		if err == nil && len(indexes) > 1 {
			err = netlink.LinkSetGroup(l, dyingGroup)
		} else if err == nil {
			err = netlink.LinkDel(l)
		}
		errs = append(errs, ignoreMissing(err))
	}
	if len(indexes) > 1 {
		req := nl.NewNetlinkRequest(unix.RTM_DELLINK, unix.NLM_F_ACK)
		req.AddData(nl.NewIfInfomsg(unix.AF_UNSPEC))
		req.AddData(nl.NewRtAttr(unix.IFLA_GROUP, nl.Uint32Attr(dyingGroup)))
		_, err := req.Execute(unix.NETLINK_ROUTE, 0)
		errs = append(errs, ignoreMissing(err))
	}
	return errors.Join(errs...)
}

func removeLink(name string) error {
	l, err := netlink.LinkByName(name)
	if err == nil {
		err = netlink.LinkDel(l)
	}
	return ignoreMissing(err)
}

// ignoreMissing treats an already deleted interface as success.
func ignoreMissing(err error) error {
	var missing netlink.LinkNotFoundError
	if err == nil || errors.As(err, &missing) || errors.Is(err, unix.ENODEV) {
		return nil
	}
	return fmt.Errorf("shadow: remove an interface: %w", err)
}

// removeEnds deletes all veths of a namespace that have an outer end of ours.
func removeEnds(f *os.File) error {
	s := &space{alias: alias, path: f.Name(), file: f}
	if err := s.find(); err != nil {
		return err
	}
	return s.remove(slices.Collect(maps.Keys(s.ends))...)
}

// Remove deletes a cube's namespace: its name and interfaces. Processes in it keep an empty one.
func (k *Keeper) Remove(uuid string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.remove(uuid)
}

func (k *Keeper) remove(uuid string) error {
	s := k.spaces[uuid]
	if s == nil {
		return nil
	}
	delete(k.spaces, uuid)
	err := errors.Join(removeEnds(s.file), k.removeName(s.path))
	s.close()
	return err
}
