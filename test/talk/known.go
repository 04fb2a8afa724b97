// SPDX-License-Identifier: Apache-2.0

package talk

import "github.com/polycube/polycube/conntrack"

// Verdict is what we, or Linux, say about a packet.
type Verdict struct {
	Class conntrack.Class
	State conntrack.Phase
}

// Difference is a packet about which Linux says something else.
type Difference struct {
	Before       conntrack.State // of the connection, with us
	Segment      conntrack.Segment
	Opener       bool // the sender is the opener
	Picked       bool // the connection was picked up
	Trails       bool // the sender's segment before it is older than our windows, and ends where it begins
	Ours, Theirs Verdict
	Options      conntrack.Options
}

func (d *Difference) rst() bool { return d.Segment.Flags&conntrack.RST != 0 }

func (d *Difference) synAck() bool {
	return d.Segment.Flags&(conntrack.SYN|conntrack.ACK) == conntrack.SYN|conntrack.ACK
}

// known are the differences that are known. The first reason that applies ends the comparison of a connection,
// because the states differ from then on.
var known = []struct {
	why     string
	applies func(d *Difference) bool
}{
	{"a SYN within or after a connection opens another: the rules decide, and Linux passes or rejects it", func(d *Difference) bool {
		return d.Segment.Flags == conntrack.SYN && d.Before.State > conntrack.SynSent && d.Ours.Class == conntrack.New && d.Theirs.Class != conntrack.New
	}},
	{"a SYN that is older than a closed connection reuses its ports only when it is answered", func(d *Difference) bool {
		return d.Segment.Flags == conntrack.SYN && d.Before.State == conntrack.TimeWait && d.Ours == Verdict{conntrack.New, conntrack.TimeWait} && d.Theirs == Verdict{conntrack.New, conntrack.SynSent}
	}},
	{"a SYN of the other side again: valid", func(d *Difference) bool {
		return d.Segment.Flags == conntrack.SYN && !d.Opener && d.Before.State < conntrack.Open && d.Theirs.Class == conntrack.Invalid && d.Ours.Class == conntrack.Established
	}},
	{"the second SYN+ACK of a simultaneous open completes it; Linux waits for one more ACK", func(d *Difference) bool {
		return d.synAck() && d.Before.State == conntrack.SynRecv && d.Ours == Verdict{conntrack.Established, conntrack.Open} && d.Theirs == Verdict{conntrack.Established, conntrack.SynRecv}
	}},
	{"the windows of a simultaneous open are known from the SYNs on, and any ACK of a SYN opens; Linux wants SYN+ACK", func(d *Difference) bool {
		return d.Before.State == conntrack.SynSent2 || d.Ours.State == conntrack.SynSent2 || d.Before.State == conntrack.SynRecv && d.Ours.Class == conntrack.Invalid
	}},
	{"an RST that follows what was sent closes, though it is not acknowledged yet", func(d *Difference) bool {
		return d.rst() && d.Ours.Class == d.Theirs.Class && d.Ours.State == conntrack.Closed && d.Theirs.State != conntrack.Closed
	}},
	{"an RST before the reply closes, and Linux forgets the connection", func(d *Difference) bool {
		return d.rst() && d.Before.State == conntrack.SynSent && d.Theirs.State == conntrack.None
	}},
	{"an RST before the reply must acknowledge the SYN (RFC 9293, 3.10.7.3)", func(d *Difference) bool {
		return d.rst() && d.Before.State <= conntrack.SynSent2 && d.Ours.Class != conntrack.Established
	}},
	{"an RST outside of the window is invalid in every state", func(d *Difference) bool {
		return d.rst() && d.Ours.Class == conntrack.Invalid && d.Before.State != conntrack.Open
	}},
	{"if segments outside of the windows are valid, Linux does not limit RSTs as documented", func(d *Difference) bool {
		return d.rst() && d.Options.Liberal
	}},
	{"a SYN+ACK must acknowledge the SYN", func(d *Difference) bool {
		return d.synAck() && d.Before.State == conntrack.SynSent && d.Ours.Class == conntrack.Invalid
	}},
	{"a SYN with another sequence number replaces the first; Linux waits for the answer to the highest", func(d *Difference) bool {
		return d.synAck() && d.Before.State == conntrack.SynSent && d.Ours == Verdict{conntrack.Established, conntrack.SynRecv} && d.Theirs == Verdict{conntrack.Established, conntrack.SynSent}
	}},
	{"a picked up connection has windows of 1 GB; with Linux it has none", func(d *Difference) bool {
		return d.Picked && d.Ours.Class == conntrack.Invalid && d.Theirs.Class != conntrack.Invalid
	}},
	{"a picked up connection has windows of 1 GB, and a FIN older than these closes nothing; with Linux it has none", func(d *Difference) bool {
		return d.Picked && d.Segment.Flags&conntrack.FIN != 0 && d.Ours == Verdict{conntrack.Established, conntrack.Open} && d.Theirs == Verdict{conntrack.Established, conntrack.FinWait}
	}},
	{"a picked up connection has windows of 1 GB, and an RST after a segment older than these closes nothing; with Linux it has none", func(d *Difference) bool {
		return d.Picked && d.Trails && d.rst() && d.Ours == Verdict{conntrack.Established, conntrack.Open} && d.Theirs == Verdict{conntrack.Established, conntrack.Closed}
	}},
	{"after an RST, segments within the windows are valid", func(d *Difference) bool {
		return d.Before.State == conntrack.Closed && d.Ours == Verdict{conntrack.Established, conntrack.Closed} && d.Theirs == Verdict{conntrack.Invalid, conntrack.Closed}
	}},
	{"an RST changes no window, and with Linux, its window counts", func(d *Difference) bool {
		return d.Before.State == conntrack.Closed && d.Ours == Verdict{conntrack.Invalid, conntrack.Closed} && d.Theirs == Verdict{conntrack.Established, conntrack.Closed}
	}},
	{"an answer that opens nothing is no reply", func(d *Difference) bool {
		return d.Before.State == conntrack.SynSent && d.Ours == Verdict{conntrack.New, conntrack.SynSent} && d.Theirs == Verdict{conntrack.Established, conntrack.SynSent}
	}},
	{"a SYN+ACK within a connection is a segment like others", func(d *Difference) bool {
		return d.synAck() && d.Before.State >= conntrack.SynRecv && (d.Ours.State == d.Theirs.State || d.Options.Liberal)
	}},
	{"an acknowledgement of something else does not open", func(d *Difference) bool {
		return d.Before.State == conntrack.SynRecv && d.Ours == Verdict{conntrack.Established, conntrack.SynRecv} && d.Theirs == Verdict{conntrack.Established, conntrack.Open}
	}},
	{"an acknowledgement of something else does not close", func(d *Difference) bool {
		return d.Ours.Class == d.Theirs.Class && (d.Ours.State == conntrack.FinWait && d.Theirs.State == conntrack.CloseWait || d.Ours.State == conntrack.LastAck && d.Theirs.State == conntrack.TimeWait)
	}},
}

// Known returns why our verdict is another one on purpose, "" if there is no such reason.
func (d *Difference) Known() string {
	for _, k := range known {
		if k.applies(d) {
			return k.why
		}
	}
	return ""
}

// Confused reports whether Linux judges later segments by this one, though it is invalid: it remembers a wrong SYN+ACK
// in a handshake, and a SYN within a connection. after is the state with us.
func (d *Difference) Confused(after conntrack.Phase) bool {
	return d.synAck() && d.Ours.Class == conntrack.Invalid && after < conntrack.Open ||
		d.Segment.Flags == conntrack.SYN && d.Before.State > conntrack.SynSent2
}
