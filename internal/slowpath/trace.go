// SPDX-License-Identifier: Apache-2.0

// Steps of traced packets come up through the same ring. They are charged to the framework's share, so tracing takes
// nothing from the slow path.

package slowpath

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

const recordTrace = 5

// Step is what one cube, or the framework, did with a traced packet: struct pcn_trace.
type Step struct {
	// Time is that of the machine's monotonic clock.
	Time time.Duration
	// Cube is 0 for the framework itself.
	Cube, InPort, OutPort, Reason uint16
	// Extra depends on the stage: a reason, an interface index, a port.
	Extra uint32
	// ID distinguishes packets that are traced at about the same time.
	ID                      uint16
	Stage, Verdict, Program uint8
	Egress, XDP             bool
	// Sessions has a bit for each session that requests the step.
	Sessions uint8
	// Ifindex is the netdev where the packet entered.
	Ifindex int
	// Length is that of the frame on the wire, of which Data are the first bytes.
	Length int
	Data   []byte
}

// Tracer is a Handler that receives steps. The step and its bytes are valid only during the call.
type Tracer interface {
	Trace(s *Step)
}

// traceHead is sizeof(struct pcn_trace).
const traceHead = 32

var errRecordTrace = errors.New("inconsistent step of a packet")

// step decodes the body of a record; its bytes are copied into buf.
func (r *record) step(body, buf []byte, s *Step) error {
	if len(body) < traceHead || len(body) > maxCapture {
		return errRecordTrace
	}
	e, data := binary.NativeEndian, body[traceHead:]
	if len(data) > 0 && len(data) < ethernetHead || int64(r.len) < int64(len(data)) {
		return errRecordTrace
	}
	*s = Step{
		Time: time.Duration(e.Uint64(body)), Cube: e.Uint16(body[8:]),
		InPort: e.Uint16(body[10:]), OutPort: e.Uint16(body[12:]), Reason: e.Uint16(body[14:]),
		Extra: e.Uint32(body[16:]), ID: e.Uint16(body[20:]),
		Stage: body[22], Verdict: body[23], Program: body[24], Egress: body[25] != 0, Sessions: body[26],
		XDP: r.flags&flagXDP != 0, Ifindex: int(r.ifindex), Data: buf[:r.frame(data, buf)],
	}
	s.Length = int(r.len) + len(s.Data) - len(data)
	return nil
}

// DecodeStep decodes a record of a step from another ring. The caller owns the step.
func DecodeStep(b []byte) (*Step, error) {
	var r record
	if err := r.decode(b); err != nil {
		return nil, fmt.Errorf("record of a step: %w", err)
	}
	body, err := r.body(b)
	if err == nil && r.kind != recordTrace {
		err = errRecordKind
	}
	var s Step
	if err == nil {
		err = r.step(body, make([]byte, len(body)+vlanTag), &s)
	}
	if err != nil {
		return nil, fmt.Errorf("record of a step: %w", err)
	}
	return &s, nil
}
