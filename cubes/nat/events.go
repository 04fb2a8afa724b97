// SPDX-License-Identifier: Apache-2.0

package nat

// Events: sessions that are new, in another state, or gone.

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/polycube/polycube/inet"
)

// The kinds of messages of programs, enum nat_notice.
const (
	noticeNew = iota
	noticeUpdated
)

// notify announces the session of a message.
func (n *nat) notify(kind uint32, data []byte) {
	var is session
	if size, err := binary.Decode(data, binary.NativeEndian, &is); err != nil || size != len(data) || is.isInboundAlone() {
		return
	}
	switch kind {
	case noticeNew:
		n.events.Announce("new", is.String())
	case noticeUpdated:
		n.events.Announce("updated", is.String())
	}
}

// ended returns what announces that a session has ended, nil if there are no events.
func (n *nat) ended() func(*session) {
	if !n.config.SessionEvents {
		return nil
	}
	return func(is *session) {
		if !is.isInboundAlone() {
			n.events.Announce("destroyed", is.String())
		}
	}
}

// tick announces how many events were lost.
func (n *nat) tick() {
	if n.group == nil || !bool(n.config.SessionEvents) {
		return
	}
	if err := n.events.Tick(); err != nil {
		n.env.Logger().Error("events of sessions", "error", err)
	}
}

// String is a session in an event, as seen from behind the NAT, with its external endpoint.
func (s *session) String() string {
	is := *s
	if is.Key.Zone&zoneOutside != 0 {
		is.Key, is.Addr, is.Port = s.twin(), s.Key.Local, s.Key.LocalPort
	}
	text := func(e endpoint) netip.AddrPort { return netip.AddrPortFrom(e.addr, e.port) }
	return fmt.Sprintf("%s %s > %s as %s %s", inet.Protocol(is.Key.Proto), text(is.internal()), text(is.remote()), text(is.external()), stateOf(&is.Progress))
}
