// SPDX-License-Identifier: Apache-2.0

package nat

// Random operations: packets of both directions, and changes of rules and sessions in between.

import (
	"fmt"
	"math/rand/v2"
	"slices"
)

// op is an operation. Its other parameters are drawn from its seed when it runs, so that they stay the same when operations
// before it are left out.
type op struct {
	id   int
	verb verb
	ref  int // the operation whose packet it refers to, -1: none
	n    int
	seed uint64
}

type verb string

const (
	opFresh      verb = "packet"
	opAnswer     verb = "answer to"
	opAgain      verb = "another packet like"
	opError      verb = "ICMP error about"
	opHairpin    verb = "packet from inside to where the sender is outside of"
	opIntrude    verb = "packet of a stranger to the sender of"
	opPiece      verb = "fragment of a packet like"
	opReply      verb = "fragment of an answer to"
	opFill       verb = "sessions of IPv6 as many as"
	opSnat       verb = "rule of SNAT"
	opDnat       verb = "rule of DNAT"
	opForward    verb = "forwarded port"
	opMasquerade verb = "masquerade"
	opParent     verb = "address of the port"
	opBehave     verb = "behaviour"
	opFlush      verb = "deletion of all sessions"
	opDelete     verb = "deletion of the session of"
	opAge        verb = "long silence in the session of"
)

func (o op) String() string {
	if o.ref >= 0 {
		return fmt.Sprintf("%d: %s %d", o.id, o.verb, o.ref)
	}
	return fmt.Sprintf("%d: %s %d", o.id, o.verb, o.n)
}

// about are the verbs of operations that are about another one's packet.
var about = []verb{opAnswer, opAgain, opError, opHairpin, opIntrude, opPiece, opReply, opDelete, opAge}

// packets are the verbs of operations that send one.
var packets = []verb{opFresh, opAnswer, opAgain, opError, opHairpin, opIntrude, opPiece, opReply}

// shares are the frequencies of operations, in thousandths.
var shares = []struct {
	verb  verb
	share int
}{{opFresh, 340}, {opAnswer, 230}, {opAgain, 90}, {opError, 90}, {opHairpin, 60}, {opIntrude, 40}, {opPiece, 35}, {opReply, 20}, {opSnat, 16}, {opDnat, 9},
	{opForward, 14}, {opMasquerade, 3}, {opParent, 6}, {opBehave, 4}, {opFlush, 4}, {opDelete, 14}, {opAge, 14}, {opFill, 4}}

// drawVerb draws a verb by the shares.
func drawVerb(r *rand.Rand) verb {
	at := r.IntN(1000)
	for _, s := range shares {
		if at -= s.share; at < 0 {
			return s.verb
		}
	}
	return opFresh
}

// drawOps draws about as many operations as length.
func drawOps(seed uint64, length int) (ops []op) {
	r := rand.New(rand.NewPCG(seed, 7))
	var sent []int // operations with a packet
	begin := func(v verb, n int) {
		if r.IntN(6) > 0 {
			ops = append(ops, op{id: len(ops), verb: v, ref: -1, n: n, seed: r.Uint64()})
		}
	}
	begin(opSnat, r.IntN(4)) // one for hosts of IPv4, and one for those of IPv6
	begin(opSnat, 4+r.IntN(3))
	for _, v := range []verb{opSnat, opMasquerade, opParent, opDnat, opForward, opForward} {
		if r.IntN(2) == 0 {
			begin(v, r.IntN(1000))
		}
	}
	for len(ops) < length {
		o := op{id: len(ops), verb: drawVerb(r), ref: -1, n: r.IntN(1000), seed: r.Uint64()}
		if slices.Contains(about, o.verb) {
			if len(sent) == 0 {
				continue
			}
			o.ref = sent[max(0, len(sent)-1-r.IntN(30))]
		}
		if o.verb != opPiece && o.verb != opReply {
			if ops = append(ops, o); slices.Contains(packets, o.verb) {
				sent = append(sent, o.id)
			}
			continue
		}
		for _, n := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {2, 0, 1}, {0, 1, 1, 0}}[r.IntN(5)] {
			o.id, o.n = len(ops), n
			ops = append(ops, o)
		}
	}
	return ops
}

// passage is a packet that came out, to which others may refer.
type passage struct {
	in, outside   bool // it came from outside, it left to the outside
	translated    bool
	got           []byte
	before, after *sight
}

// build creates the frame of an operation: false if it refers to a packet that did not come out.
func (o op) build(seen map[int]*passage) (in bool, frame []byte, ok bool) {
	r := noise{Rand: rand.New(rand.NewPCG(o.seed, 1))}
	of := o.about(seen)
	if o.ref >= 0 && of == nil {
		return false, nil, false
	}
	var packet []byte
	if of == nil {
		in, packet = r.fresh()
	} else {
		in, packet = r.related(o, of)
	}
	if o.verb == opPiece || o.verb == opReply {
		packet = r.cutUp(packet, o.n)
		r.Rand = rand.New(rand.NewPCG(o.seed, uint64(o.n)+2))
	}
	frame = r.framed(in, packet)
	if r.chance(9) {
		frame = r.spoiled(frame)
	}
	return in, frame, true
}

// about returns the packet that an operation refers to: usually a translated one, the last before that of ref.
func (o op) about(seen map[int]*passage) *passage {
	if of := seen[o.ref]; of != nil && (of.translated || o.seed%8 == 0) {
		return of
	}
	for id := o.ref; id >= 0; id-- {
		if of := seen[id]; of != nil && of.translated {
			return of
		}
	}
	return nil
}

// fresh creates an unrelated packet.
func (r *noise) fresh() (in bool, packet []byte) {
	r.v6 = r.chance(3)
	in = r.chance(4)
	from, to := r.ends(in)
	if r.chance(20) { // about a packet that was never sent
		return in, r.about(from.addr, to.addr, r.between(r.proto(), to, from, r.local()))
	}
	return in, r.between(r.proto(), from, to, r.local())
}

// related creates a packet related to one that came out.
func (r *noise) related(o op, of *passage) (in bool, packet []byte) {
	r.v6 = of.before.v6
	proto, sender, receiver, id := of.before.proto, of.after.from, of.after.to, of.after.from.port
	switch o.verb {
	case opAgain, opPiece:
		return of.in, r.between(proto, of.before.from, of.before.to, of.before.from.port)
	case opAnswer, opReply:
		return of.outside, r.between(proto, receiver, sender, id)
	case opHairpin:
		return false, r.between(proto, endpoint{r.insider(), r.local()}, sender, r.local())
	case opIntrude:
		from := among(*r, endpoint{receiver.addr, r.port()}, endpoint{r.outsider(), receiver.port})
		return of.outside, r.between(proto, from, sender, id)
	}
	from := receiver.addr
	if r.chance(3) { // a router on the path
		from = r.insider()
		if of.outside {
			from = r.outsider()
		}
	}
	return of.outside, r.about(from, sender.addr, of.got[of.after.l3:])
}

// flow returns the packet's session, nil if it has ended.
func (p *passage) flow(o *oracle) *flow {
	local, remote := p.before.sides(p.in)
	t, k := o.tableOf(local.addr), pair{local, remote, p.before.proto}
	if p.in {
		return t.translation(k, o.ruled.sources())
	}
	return t.flows[k]
}

// drawBehaviour draws how sessions are made.
func drawBehaviour(seed uint64) Behaviour {
	r := rand.New(rand.NewPCG(seed, 5))
	return Behaviour{Mapping: Mapping(r.IntN(4) / 3), Filtering: Filtering(r.IntN(3)), OtherProtocols: OtherProtocols(r.IntN(3)),
		Overload: r.IntN(3) == 0, Hairpin: r.IntN(4) > 0}
}
