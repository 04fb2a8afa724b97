// SPDX-License-Identifier: Apache-2.0

package link

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/pcapfilter"
)

// Trace is what trace sessions observe in a component; without it the programs contain no tracing code.
type Trace struct{ Sessions []Session }

// Session observes the steps of packets, or the packets at one place.
type Session struct {
	// Bit identifies a session, in md.flags and in records: 0 to MaxSessions-1.
	Bit uint8
	// Filter selects packets where they enter, or at the place of a capture; nil selects all.
	Filter *pcapfilter.Filter
	// Cube is the only one whose steps are recorded, 0: all.
	Cube uint16
	// Capture is the place whose packets are recorded completely; nil records steps.
	Capture *Capture
}

// Capture is a place where packets are captured: a port of a standard cube, or a transparent cube.
type Capture struct {
	Cube, Port uint16
}

// MaxSessions is the maximum number of concurrent sessions (PCN_MD_TRACE).
const MaxSessions = 4

// Stages of a record: enum pcn_trace_stage.
const (
	StageProgram = 1
	StageEnd     = 2
	StageLeave   = 3
	StageIn      = 4
	StageOut     = 5
)

// traceCalls are the framework's functions that filters call.
var traceCalls = pcapfilter.Calls{Load: "pcn_core_field", Length: "pcn_core_length"}

func filterName(s Session) string { return fmt.Sprintf("pcn_filter_%d", s.Bit) }

// tracer writes the code that records packets. It preserves registers as the comments say.
type tracer struct {
	veil
	trace   *Trace  // nil for none
	helpers *Object // the functions of the framework
}

// traced reports whether any session observes the component.
func (t tracer) traced() bool {
	return t.trace != nil && len(t.trace.Sessions) > 0
}

// sessions returns the sessions of a kind, none if the component is not traced.
func (t tracer) sessions(want func(Session) bool) []Session {
	var out []Session
	if t.traced() {
		for _, s := range t.trace.Sessions {
			if want(s) {
				out = append(out, s)
			}
		}
	}
	slices.SortFunc(out, func(a, b Session) int { return cmp.Compare(a.Bit, b.Bit) })
	return out
}

func follows(s Session) bool  { return s.Capture == nil }
func captures(s Session) bool { return s.Capture != nil }

func mask(sessions []Session) (bits int32) {
	for _, s := range sessions {
		bits |= 1 << s.Bit
	}
	return bits
}

// skipLabel is a label inside a block; others have numbers too.
func skipLabel(b *block) string { return b.local() + ".untraced" }

// choose leaves in r9 the bits of the sessions whose filter matches the packet in r6.
func (t tracer) choose(b *block, sessions []Session) {
	b.add(asm.Mov.Imm(asm.R9, 0))
	for _, s := range sessions {
		skip := skipLabel(b)
		if s.Filter != nil {
			b.add(asm.Mov.Reg(asm.R1, asm.R6))
			b.call(filterName(s))
			b.add(asm.JEq.Imm(asm.R0, 0, skip))
		}
		b.add(asm.Or.Imm(asm.R9, 1<<s.Bit))
		b.mark(skip)
	}
}

// traceBegin emits the selection of packets to follow, where they enter; r6 is the packet. It uses r0 to r5 and r9.
func (t tracer) traceBegin(b *block) {
	sessions := t.sessions(follows)
	if len(sessions) == 0 {
		return
	}
	none := skipLabel(b)
	t.choose(b, sessions)
	b.add(asm.JEq.Imm(asm.R9, 0, none))
	t.begin(b)
	b.mark(none)
}

// begin marks the packet as followed by the sessions in r9.
func (t tracer) begin(b *block) {
	b.args()
	b.add(asm.Mov.Reg(asm.R3, asm.R9))
	b.call("pcn_core_trace_begin")
}

// traceResume is traceBegin for a packet that may be followed already: copies contain their sessions, and packets from
// the slow path none. r0 survives.
func (t tracer) traceResume(b *block) {
	sessions := t.sessions(follows)
	if len(sessions) == 0 {
		return
	}
	known, done := skipLabel(b), skipLabel(b)
	b.add(asm.Mov.Reg(asm.R8, asm.R0))
	b.load(asm.R1, asm.R10, mdTraceID, asm.Half)
	b.add(asm.JNE.Imm(asm.R1, 0, done))
	b.load(asm.R9, asm.R10, mdFlags, asm.Half)
	b.add(asm.And.Imm(asm.R9, mask(sessions)), asm.JNE.Imm(asm.R9, 0, known))
	t.choose(b, sessions)
	b.add(asm.JEq.Imm(asm.R9, 0, done))
	b.mark(known)
	t.begin(b)
	b.mark(done)
	b.add(asm.Mov.Reg(asm.R0, asm.R8))
}

// at are the sessions that record the steps of a cube, and those that capture there: they also need the fate of the
// packets that the cube received.
func (t tracer) at(id uint16) []Session {
	return t.sessions(func(s Session) bool {
		return s.Capture == nil && (s.Cube == 0 || s.Cube == id) || s.Capture != nil && s.Capture.Cube == id
	})
}

// traceProgram emits the record of a program's return value, in r0, which survives.
func (t tracer) traceProgram(b *block, at place) {
	sessions := t.at(at.cube.ID)
	if len(sessions) == 0 {
		return
	}
	skip := skipLabel(b)
	b.load(asm.R1, asm.R10, mdFlags, asm.Half)
	b.add(asm.And.Imm(asm.R1, mask(sessions)), asm.JEq.Imm(asm.R1, 0, skip))
	b.store(asm.R10, offKey, asm.R0, asm.DWord)
	b.add(asm.Mov.Reg(asm.R4, asm.R1), asm.LSh.Imm(asm.R4, 16),
		asm.And.Imm(asm.R0, 0xff), asm.LSh.Imm(asm.R0, 8), asm.Or.Reg(asm.R4, asm.R0), asm.Or.Imm(asm.R4, StageProgram))
	b.args()
	b.number(asm.R3, at.cube, at.way()|int32(at.index)<<24)
	b.add(asm.Mov.Imm(asm.R5, 0))
	b.call("pcn_core_trace")
	b.load(asm.R0, asm.R10, offKey, asm.DWord)
	b.mark(skip)
}

// traceEnd emits the record of a packet that the framework drops: r6 is the cube, r7 the reason. Drops by a cube itself
// are in its program's record.
func (t tracer) traceEnd(b *block) {
	skip := skipLabel(b)
	if !t.traceStage(b, skip, StageEnd, func() {
		b.add(asm.JEq.Imm(asm.R7, reasonUnspecified, skip), asm.JGE.Imm(asm.R7, reasonFirst, skip))
	}) {
		return
	}
	b.add(asm.Mov.Reg(asm.R5, asm.R7))
	b.call("pcn_core_trace")
	b.mark(skip)
}

// traceLeave emits the record of a packet that leaves by the netdev in r8; r6 is the cube.
func (t tracer) traceLeave(b *block) {
	skip := skipLabel(b)
	if !t.traceStage(b, skip, StageLeave, func() {}) {
		return
	}
	b.add(asm.Mov.Reg(asm.R5, asm.R8))
	b.call("pcn_core_trace")
	b.mark(skip)
}

// traceStage emits the arguments except the last of a record for the cube in r6, unless the packet is not followed or
// test jumps to skip. It is false if there is nothing to emit.
func (t tracer) traceStage(b *block, skip string, stage int32, test func()) bool {
	sessions := t.sessions(follows)
	if len(sessions) == 0 {
		return false
	}
	b.load(asm.R4, asm.R10, mdFlags, asm.Half)
	b.add(asm.And.Imm(asm.R4, mask(sessions)), asm.JEq.Imm(asm.R4, 0, skip))
	test()
	b.add(asm.LSh.Imm(asm.R4, 16), asm.Or.Imm(asm.R4, stage))
	b.args()
	b.add(asm.Mov.Reg(asm.R3, asm.R6))
	return true
}

// captureIn emits the capture of a received packet, before the cube's program sees it.
func (t tracer) captureIn(b *block, at place) {
	if at.index != 0 || !at.cube.Transparent && at.dir != cube.Ingress {
		return
	}
	for _, s := range t.sessions(captures) {
		if s.Capture.Cube != at.cube.ID {
			continue
		}
		skip := skipLabel(b)
		if !at.cube.Transparent {
			b.load(asm.R1, asm.R10, mdInPort, asm.Half)
			b.add(asm.JNE.Imm(asm.R1, int32(s.Capture.Port), skip))
		}
		t.capture(b, s, skip, int32(s.Capture.Cube)|at.way(), StageIn, func() { b.load(asm.R5, asm.R10, mdInPort, asm.Half) })
		b.mark(skip)
	}
}

// captureOut emits the capture of a packet that a cube sends by md.out_port.
func (t tracer) captureOut(b *block, c *Cube) {
	for _, s := range t.sessions(captures) {
		if s.Capture.Cube != c.ID {
			continue
		}
		skip := skipLabel(b)
		t.left(b, asm.R1, mdOutPort)
		b.add(asm.JNE.Imm(asm.R1, int32(s.Capture.Port), skip))
		t.captureSent(b, s, c, skip)
		b.mark(skip)
	}
}

// captureFlood emits the capture of the copy that a flood sends by a port. If all copies run the egress program, they
// are captured there.
func (t tracer) captureFlood(b *block, c *Cube) {
	if c.has(cube.Egress) {
		return
	}
	for _, s := range t.sessions(captures) {
		if s.Capture.Cube != c.ID {
			continue
		}
		skip := skipLabel(b)
		b.load(asm.R1, asm.R10, mdInPort, asm.Half)
		b.add(asm.JEq.Imm(asm.R1, int32(s.Capture.Port), skip))
		if p := c.port(s.Capture.Port); p == nil { // one that is code is captured on the path there
			t.captureSent(b, s, c, skip)
		}
		b.mark(skip)
	}
}

func (t tracer) captureSent(b *block, s Session, c *Cube, skip string) {
	t.capture(b, s, skip, int32(c.ID)|1<<16, StageOut, func() { b.add(asm.Mov.Imm(asm.R5, int32(s.Capture.Port))) })
}

// capture emits one record of the whole packet, if the session's filter matches it, and marks the packet, so that the
// record of the cube's verdict follows.
func (t tracer) capture(b *block, s Session, skip string, who, stage int32, extra func()) {
	if s.Filter != nil {
		b.load(asm.R1, asm.R10, offCtx, asm.DWord)
		b.call(filterName(s))
		b.add(asm.JEq.Imm(asm.R0, 0, skip))
	}
	b.args()
	b.add(asm.Mov.Imm(asm.R3, 1<<s.Bit))
	b.call("pcn_core_trace_begin")
	b.load(asm.R1, asm.R10, mdFlags, asm.Half)
	b.add(asm.And.Imm(asm.R1, 1<<s.Bit), asm.JEq.Imm(asm.R1, 0, skip))
	extra()
	b.args()
	b.add(asm.Mov.Imm(asm.R3, who), asm.Mov.Imm(asm.R4, stage|1<<s.Bit<<16))
	b.call("pcn_core_capture")
}

// filters returns the functions of the sessions' filters.
func (t tracer) filters() ([]asm.Instructions, error) {
	var out []asm.Instructions
	for _, s := range t.sessions(func(s Session) bool { return s.Filter != nil }) {
		f := t.helpers.Functions[traceCalls.Length]
		if f == nil {
			return nil, fmt.Errorf("framework function %s: %w", traceCalls.Length, ErrObject)
		}
		typed := *btf.FuncMetadata(&f.Body[0]) // has the same parameters
		typed.Name, typed.Linkage = filterName(s), btf.GlobalFunc
		body := s.Filter.EBPF(filterName(s), traceCalls)
		body[0] = btf.WithFuncMetadata(body[0], &typed).WithSource(asm.Comment("filter: " + s.Filter.Expression))
		out = append(out, body)
	}
	return out, nil
}
