// SPDX-License-Identifier: Apache-2.0

package conntrack

import (
	"errors"
	"testing"

	"github.com/polycube/polycube/test/repeat"

	"math/rand/v2"
)

// lawful checks what is true for all packets.
func lawful(in, out step) error {
	from := uint8(in.From & 1)
	was, is := in.State, out.State
	tcp, p := in.Protocol == stepTCP, in.Segment
	switch {
	case out.Class == Invalid && is != was:
		return errors.New("an invalid packet changed the state")
	case out.Class != Invalid && is.State == None:
		return errors.New("a valid packet belongs to no connection")
	case was.State == None && out.Class == Established:
		return errors.New("a connection was established by its first packet")
	case out.Class != Invalid && is.Timeout == Unlimited:
		return errors.New("a connection has no timeout")
	case in.Protocol == stepFollow:
		return followed(in, out)
	case !tcp:
		return nil
	case was.State != None && !p.has(SYN) && is.Side[1-from] != was.Side[1-from]:
		return errors.New("a packet changed the other side")
	case p.has(RST) && (is.Side != was.Side || is.Steps != was.Steps):
		return errors.New("an RST moved a window")
	case p.has(RST) && was.State == None && out.Class != Invalid:
		return errors.New("an RST opened a connection")
	case is.State == Closed && was.State != Closed && !p.has(RST):
		return errors.New("a connection was reset without an RST")
	}
	for _, side := range is.Side {
		if is.State > SynSent && side.Window == 0 && is.State != Closed {
			return errors.New("a side has no window")
		}
	}
	return nil
}

// followed checks what is true for all packets of connections without windows.
func followed(in, out step) error {
	was, is, flags := in.State, out.State, in.Segment.Flags
	switch {
	case in.Options != protoTCP:
		return nil
	case out.Class == Invalid && (was.State != None || flags&RST == 0):
		return errors.New("a packet other than an RST of no connection is invalid")
	case is.State == Closed && was.State != Closed && flags&RST == 0:
		return errors.New("a connection was reset without an RST")
	case flags&RST != 0 && is.Steps != was.Steps:
		return errors.New("an RST has opened or closed something")
	case was.State == Open && flags&(SYN|FIN|RST) == 0 && is != was:
		return errors.New("a segment changed an open connection")
	case is.State == Open && is.Flags&flagSeenReply == 0:
		return errors.New("a connection is open without a reply")
	}
	return nil
}

func TestLawsHoldForRandomPackets(t *testing.T) {
	sequences(dice{rand.New(rand.NewPCG(repeat.Seed(t), 1))}, 5000, 60, func(in, out step) {
		if err := lawful(in, out); err != nil {
			t.Fatalf("packet %+v of side %d\n   in %+v\n  out %+v %v: %v", in.Segment, in.From&1, in.State, out.State, out.Class, err)
		}
	})
}
