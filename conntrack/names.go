// SPDX-License-Identifier: Apache-2.0

package conntrack

// What users see: classes, states and timeouts, in the order of the enums of <pcn/conntrack_progress.h>.

import "time"

// Class is what a packet is to its connection.
type Class uint32

// The classes. The caller decides on the last two: Related is an ICMP error about a packet of a connection, and an
// Untracked packet has none.
const (
	Invalid Class = iota
	New
	Established
	Related
	Untracked
)

func (c Class) String() string { return name(classes, int(c)) }

var classes = []string{"INVALID", "NEW", "ESTABLISHED", "RELATED", "UNTRACKED"}

// Phase is the state of a connection, by name.
type Phase uint8

// The phases. Unreplied and Replied are those of all protocols but TCP.
const (
	None Phase = iota
	Unreplied
	Replied
	SynSent
	SynSent2
	SynRecv
	Open
	FinWait
	CloseWait
	LastAck
	TimeWait
	Closed
)

func (p Phase) String() string { return name(phases, int(p)) }

var phases = []string{"NONE", "NEW", "ESTABLISHED", "SYN_SENT", "SYN_SENT2", "SYN_RECV", "ESTABLISHED", "FIN_WAIT",
	"CLOSE_WAIT", "LAST_ACK", "TIME_WAIT", "CLOSE"}

func name(names []string, n int) string {
	if n < len(names) {
		return names[n]
	}
	return "UNKNOWN"
}

// Timeout is one of the times for which connections without packets are kept.
type Timeout uint8

// The timeouts. Unacknowledged limits the others while data is not acknowledged, MaxRetrans after several
// retransmissions.
const (
	Unlimited Timeout = iota
	UDP
	UDPStream
	ICMP
	Other
	TCPSynSent
	TCPSynRecv
	TCPEstablished
	TCPFinWait
	TCPCloseWait
	TCPLastAck
	TCPTimeWait
	TCPClose
	TCPUnacknowledged
	TCPMaxRetrans
	timeouts
)

// Timeouts are the times by Timeout; 0 means that connections do not expire.
type Timeouts [timeouts]time.Duration

// DefaultTimeouts are those of Linux, except that UDP streams have 180 s instead of 120.
var DefaultTimeouts = Timeouts{
	UDP:               30 * time.Second,
	UDPStream:         180 * time.Second,
	ICMP:              30 * time.Second,
	Other:             600 * time.Second,
	TCPSynSent:        120 * time.Second,
	TCPSynRecv:        60 * time.Second,
	TCPEstablished:    5 * 24 * time.Hour,
	TCPFinWait:        120 * time.Second,
	TCPCloseWait:      60 * time.Second,
	TCPLastAck:        30 * time.Second,
	TCPTimeWait:       120 * time.Second,
	TCPClose:          10 * time.Second,
	TCPUnacknowledged: 300 * time.Second,
	TCPMaxRetrans:     300 * time.Second,
}

// Of is the time after which a connection without packets has ended; 0 means never.
func (t *Timeouts) Of(s *State) time.Duration {
	if s.Timeout >= timeouts || s.Cap >= timeouts {
		return 0
	}
	limit := t[s.Timeout]
	if most := t[s.Cap]; s.Cap != Unlimited && most != 0 && (limit == 0 || most < limit) {
		return most
	}
	return limit
}
