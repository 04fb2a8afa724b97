// SPDX-License-Identifier: Apache-2.0

package session

import "github.com/polycube/polycube/conntrack/table"

// Counters is the grouping `session-counters`; without values if nothing is counted.
type Counters struct {
	PacketsOriginal *uint64 `json:"packets-original,omitempty"`
	BytesOriginal   *uint64 `json:"bytes-original,omitempty"`
	PacketsReply    *uint64 `json:"packets-reply,omitempty"`
	BytesReply      *uint64 `json:"bytes-reply,omitempty"`
}

// CountersOf returns the form of the model.
func CountersOf(c table.Counts) Counters {
	return Counters{&c.Original.Packets, &c.Original.Bytes, &c.Reply.Packets, &c.Reply.Bytes}
}
