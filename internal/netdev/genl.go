// SPDX-License-Identifier: Apache-2.0

// Families of generic netlink. The library reads two bytes behind its header of their messages, which are those of some
// other variable: it sends them, which some families refuse, and the race detector finds them.

package netdev

import (
	"encoding/binary"
	"fmt"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// genlHeader is struct genlmsghdr: command, version and two bytes that are zero.
type genlHeader [nl.SizeofGenlmsg]byte

func (h genlHeader) Len() int          { return len(h) }
func (h genlHeader) Serialize() []byte { return h[:] }

// genlFamily is a family of generic netlink, with the numbers of its groups by name.
type genlFamily struct {
	id      uint16
	version uint8
	groups  map[string]uint32
}

// findFamily asks the kernel; the error wraps ENOENT if it has none of that name.
func findFamily(name string) (*genlFamily, error) {
	req := nl.NewNetlinkRequest(nl.GENL_ID_CTRL, 0)
	req.AddData(genlHeader{nl.GENL_CTRL_CMD_GETFAMILY, nl.GENL_CTRL_VERSION})
	req.AddData(nl.NewRtAttr(nl.GENL_CTRL_ATTR_FAMILY_NAME, nl.ZeroTerminated(name)))
	msgs, err := req.Execute(unix.NETLINK_GENERIC, 0)
	if err != nil {
		return nil, fmt.Errorf("netlink family %s: %w", name, err)
	}
	f := &genlFamily{groups: map[string]uint32{}}
	for _, m := range msgs {
		if len(m) < nl.SizeofGenlmsg {
			continue
		}
		if err := f.read(m[nl.SizeofGenlmsg:]); err != nil {
			return nil, fmt.Errorf("netlink family %s: %w", name, err)
		}
	}
	if f.id == 0 {
		return nil, fmt.Errorf("netlink family %s: %w", name, unix.ENOENT)
	}
	return f, nil
}

// read takes what the attributes of an answer say.
func (f *genlFamily) read(attributes []byte) error {
	attrs, err := nl.ParseRouteAttr(attributes)
	if err != nil {
		return err
	}
	for _, a := range attrs {
		switch a.Attr.Type &^ unix.NLA_F_NESTED {
		case nl.GENL_CTRL_ATTR_FAMILY_ID:
			if len(a.Value) == 2 {
				f.id = binary.NativeEndian.Uint16(a.Value)
			}
		case nl.GENL_CTRL_ATTR_VERSION:
			if len(a.Value) == 4 {
				f.version = uint8(binary.NativeEndian.Uint32(a.Value))
			}
		case nl.GENL_CTRL_ATTR_MCAST_GROUPS:
			err = f.readGroups(a.Value)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (f *genlFamily) readGroups(attributes []byte) error {
	groups, err := nl.ParseRouteAttr(attributes)
	if err != nil {
		return err
	}
	for _, g := range groups {
		members, err := nl.ParseRouteAttr(g.Value)
		if err != nil {
			return err
		}
		name, id := "", uint32(0)
		for _, m := range members {
			switch m.Attr.Type {
			case nl.GENL_CTRL_ATTR_MCAST_GRP_NAME:
				name = nl.BytesToString(m.Value)
			case nl.GENL_CTRL_ATTR_MCAST_GRP_ID:
				if len(m.Value) == 4 {
					id = binary.NativeEndian.Uint32(m.Value)
				}
			}
		}
		f.groups[name] = id
	}
	return nil
}
