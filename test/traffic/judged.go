// SPDX-License-Identifier: Apache-2.0

package traffic

// What Linux says of a packet, and what our model of TCP says.

import (
	"fmt"

	"github.com/polycube/polycube/conntrack"
	"github.com/polycube/polycube/test/netfilter"
	"github.com/polycube/polycube/test/pkt"
	"github.com/polycube/polycube/test/talk"
)

// edge is where the last valid segment of a connection ends, if it is older than our windows: we have not taken its data.
type edge struct {
	of  uint8
	end uint32
}

// Judged is what Linux has done with a packet.
type Judged struct {
	Packet
	Frame  []byte
	Class  conntrack.Class
	Passed bool
	Counts []string // the counters that it has moved
}

// Apply applies a packet that Linux has judged to its TCP connection. known is the reason for which we judge it in another
// way on purpose.
func (j *Judged) Apply(router *netfilter.Router, options conntrack.Options) (known string, err error) {
	conn := j.Conn
	if conn == nil {
		return "", nil
	}
	next := conn.State
	d := talk.Difference{Before: conn.State, Segment: j.Segment, Opener: j.Of == conn.State.Opener(), Picked: conn.Picked, Options: options,
		Trails: conn.old != nil && *conn.old == edge{j.Of, j.Segment.Seq}}
	d.Ours = talk.Verdict{Class: next.TCP(j.Of, j.Segment, options), State: next.State}
	if d.Ours.Class == conntrack.New && !j.Passed {
		next, d.Ours.State = conn.State, conn.State.State // the rules refuse it
	}
	d.Theirs.Class = j.Class
	if d.Theirs.State, err = j.phase(router, &next); err != nil {
		return "", err
	}
	switch {
	case d.Ours == d.Theirs:
	case d.Ours.Class == conntrack.New && d.Theirs == talk.Verdict{Class: conntrack.New} && !j.Passed:
		// Linux forgets a closed connection when a SYN reuses its ports, even if the rules refuse it. The SYN counts.
	case d.Known() != "":
		conn.Ended = true
		return d.Known(), nil
	default:
		return "", fmt.Errorf("%s is %v in %v by our model of TCP, and %v in %v by Linux; segment %+v of side %d; before %+v",
			j.What, d.Ours.Class, d.Ours.State, d.Theirs.Class, d.Theirs.State, j.Segment, j.Of, d.Before)
	}
	if d.Ours.Class == conntrack.Established {
		conn.old = nil
		end := j.Segment.Seq + j.Segment.Length
		if j.Segment.Flags&(conntrack.SYN|conntrack.FIN|conntrack.RST|conntrack.ACK) == conntrack.ACK && int32(end-next.Side[j.Of].End) > 0 {
			conn.old = &edge{j.Of, end}
		}
	}
	conn.Picked = conn.Picked || conn.State.State == conntrack.None && next.State == conntrack.Open
	conn.State = next
	conn.Ended = d.Confused(next.State) || d.Ours != d.Theirs
	return "", nil
}

// Again makes the connection of a packet one that no packet has been applied to, so that all its packets may be judged again.
func (j *Judged) Again() {
	if j.Conn != nil {
		j.Conn.State, j.Conn.Picked, j.Conn.Ended, j.Conn.old = conntrack.State{}, false, false, nil
	}
}

// phase is the state of a TCP connection in the kernel's table. The connection may have been opened by either side.
func (j *Judged) phase(router *netfilter.Router, next *conntrack.State) (conntrack.Phase, error) {
	f := netfilter.Flow{Protocol: pkt.ProtoTCP, Src: j.Ends[0].Addr(), Dst: j.Ends[1].Addr(), Ports: [2]uint16{j.Ends[0].Port(), j.Ends[1].Port()}}
	if opener := next.Opener(); next.State != conntrack.None && opener != j.Of {
		f = netfilter.Flow{Protocol: pkt.ProtoTCP, Src: f.Dst, Dst: f.Src, Ports: [2]uint16{f.Ports[1], f.Ports[0]}}
	}
	phase, _, err := router.Tracked(f)
	return phase, err
}
