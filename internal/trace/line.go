// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"

	"github.com/polycube/polycube/internal/datapath"
	"github.com/polycube/polycube/internal/datapath/link"
	"github.com/polycube/polycube/internal/slowpath"
)

// Line is a step of a packet, for people and programs.
type Line struct {
	Time time.Time `json:"time"`
	// Packet identifies the packet; copies of a packet may have another number.
	Packet string `json:"packet"`
	Cube   string `json:"cube"`
	// Port is where the packet entered the cube, or on egress where it leaves it.
	Port      string `json:"port,omitempty"`
	Direction string `json:"direction,omitempty"`
	// Program is the index of the cube's program.
	Program int `json:"program"`
	// Verdict is what the program returned; also drop for what the framework drops; leave where the packet goes to a
	// netdev; inject where it starts, if it was injected.
	Verdict string `json:"verdict"`
	Reason  string `json:"reason,omitempty"`
	// Out is the port, or the netdev, by which it continues.
	Out     string `json:"out,omitempty"`
	Length  int    `json:"length"`
	Summary string `json:"summary"`
	// Frame is the whole packet in hex, if it was injected.
	Frame string `json:"frame,omitempty"`
}

// verdicts are the names of enum pcn_verdict.
var verdicts = []string{"pass", "send", "drop", "flood", "slowpath", "call", "namespace", "flood", "turn", "offer", "redirect"}

const (
	verdictSend, verdictDrop, verdictSlowpath, verdictCall, verdictNamespace, verdictOffer, verdictRedirect = 1, 2, 4, 5, 6, 9, 10
)

// outputNetdev and outputNeigh are PCN_OUTPUT_NETDEV and PCN_OUTPUT_NEIGH: instead of an output, a netdev of the host, or a
// neighbour there.
const (
	outputNetdev = 0xfffe
	outputNeigh  = 0xffff
)

// Next waits for the next step. It returns io.EOF when the session has ended, and the context's
// error when that ends.
func (s *Session) Next(ctx context.Context) (Line, error) {
	if s.countReached() {
		return Line{}, io.EOF
	}
	step, err := s.next(ctx)
	if err != nil {
		return Line{}, err
	}
	s.take()
	return s.line(step), nil
}

// Idle reports whether no step waits.
func (s *Session) Idle() bool { return s.idle() }

func (s *Session) line(step *slowpath.Step) Line {
	l := s.hub.describe(step)
	l.Time = s.epoch.Add(step.Time)
	return l
}

func (h *Hub) cubeID(step *slowpath.Step) datapath.CubeID { return datapath.CubeID(step.Cube) }

// describe replaces the numbers of a step by names.
func (h *Hub) describe(step *slowpath.Step) Line {
	id := h.cubeID(step)
	l := Line{Packet: fmt.Sprintf("%04x", step.ID), Cube: Framework, Program: int(step.Program),
		Length: step.Length, Summary: Summarise(step.Data, step.Length)}
	if id != 0 {
		l.Cube = h.topology.CubeName(id)
	}
	switch step.Stage {
	case link.StageEnd:
		l.Verdict, l.Reason = "drop", frameworkReason(step.Extra)
		return l
	case link.StageLeave:
		l.Verdict, l.Out = "leave", netdevName(int(step.Extra))
		return l
	}
	l.Direction, l.Port = "ingress", h.topology.PortName(id, step.InPort)
	if step.Egress {
		l.Direction, l.Port = "egress", h.topology.PortName(id, step.OutPort)
	}
	h.verdict(&l, id, step)
	return l
}

// verdict names what a program returned, and why.
func (h *Hub) verdict(l *Line, id datapath.CubeID, step *slowpath.Step) {
	l.Verdict = fmt.Sprintf("bad-verdict %d", step.Verdict)
	if int(step.Verdict) < len(verdicts) {
		l.Verdict = verdicts[step.Verdict]
	}
	drops, ups := h.plane.CubeReasons(id)
	switch step.Verdict {
	case verdictSend, verdictNamespace, verdictOffer:
		l.Out = h.topology.PortName(id, step.OutPort)
	case verdictDrop:
		l.Reason = cubeReason(drops, step.Reason, frameworkReason(0))
	case verdictSlowpath:
		l.Reason = cubeReason(ups, step.Reason, strconv.Itoa(int(step.Reason)))
	case verdictRedirect:
		switch step.OutPort {
		case outputNetdev:
			l.Out = "netdev"
		case outputNeigh:
			l.Out = "neighbour"
		default:
			l.Out = strconv.Itoa(int(step.OutPort))
		}
	case verdictCall:
		l.Out = strconv.Itoa(int(step.Reason))
	}
}

func frameworkReason(n uint32) string {
	if all := datapath.FrameworkReasons(); n < uint32(len(all)) {
		return all[n]
	}
	return strconv.Itoa(int(n))
}

func cubeReason(labels []string, reason uint16, otherwise string) string {
	if i := int(reason) - datapath.FirstReason; i >= 0 && i < len(labels) {
		return labels[i]
	}
	return otherwise
}

// netdevName is the name of an interface, or its index if it was deleted.
func netdevName(index int) string {
	if i, err := net.InterfaceByIndex(index); err == nil {
		return i.Name
	}
	return fmt.Sprintf("netdev %d", index)
}
