// SPDX-License-Identifier: Apache-2.0

package lbrp

// The list `session`.

import (
	"strings"
	"time"

	"github.com/polycube/polycube/balance/session"
	conns "github.com/polycube/polycube/conntrack/table"
	"github.com/polycube/polycube/inet"
)

// stateSession is an entry of `session`.
type stateSession struct {
	session.View
	Proto        string `json:"proto"`
	Packets      uint64 `json:"packets"`
	Bytes        uint64 `json:"bytes"`
	ReplyPackets uint64 `json:"reply-packets"`
	ReplyBytes   uint64 `json:"reply-bytes"`
}

// protocols are those of sessions; ICMP is ICMPv6 for IPv6.
var protocols = map[string]inet.Protocol{"ICMP": inet.ICMP, "TCP": inet.TCP, "UDP": inet.UDP, "SCTP": inet.SCTP}

func protocolName(p inet.Protocol) string {
	if p == inet.ICMPv6 {
		p = inet.ICMP
	}
	return p.String()
}

// list returns the list.
func (b *balancer) list() *session.List {
	return &session.List{
		Table: func() *conns.Table { return b.sessions }, Servers: b.sweep.Servers, Find: b.session,
		Show: func(is *session.Session, now time.Duration) any { return b.show(is, now) },
	}
}

// show returns a session as shown, from the entry for the client's packets.
func (b *balancer) show(is *session.Session, now time.Duration) stateSession {
	view, reply := is.View(b.sessions, now, b.conf.Timeout.of(is))
	return stateSession{
		View: view, Proto: protocolName(is.Key.Protocol),
		Packets: is.Own[ownPackets], Bytes: is.Own[ownBytes], ReplyPackets: reply.Own[ownPackets], ReplyBytes: reply.Own[ownBytes],
	}
}

// session returns the session that the keys of an entry name.
func (b *balancer) session(words []string) (is session.Session, ok bool) {
	if len(words) != 5 {
		return is, false
	}
	k, ok := session.ParseKey(words[0], words[1], words[2], words[3])
	proto, known := protocols[strings.ToUpper(words[4])]
	if !ok || !known {
		return is, false
	}
	k.Protocol = proto
	if proto == inet.ICMP && k.IPv6 != 0 {
		k.Protocol = inet.ICMPv6
	}
	for k.Zone = range zones {
		if e, found := b.sessions.Find(k.Entry()); found && !session.Of(&e).IsReply() {
			return *session.Of(&e), true
		}
	}
	return is, false
}
