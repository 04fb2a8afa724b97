// SPDX-License-Identifier: Apache-2.0

package edpi

// State: flows, classes and counters.

import (
	"container/heap"
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/polycube/polycube/aging"
	"github.com/polycube/polycube/counter"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/author"
	"github.com/polycube/polycube/dpi"
	"github.com/polycube/polycube/flow"
	"github.com/polycube/polycube/inet"
	"github.com/polycube/polycube/ring"
)

// counters are those of the program.
var counters = counter.Of(files, "edpi_counter")

// ends are those of a flow.
type ends struct {
	Source          netip.Addr `json:"source"`
	Destination     netip.Addr `json:"destination"`
	L4              string     `json:"l4-protocol"`
	SourcePort      uint16     `json:"source-port"`
	DestinationPort uint16     `json:"destination-port"`
}

// flowState is an entry of the list `flow`.
type flowState struct {
	ends
	Application  string `json:"application"`
	Carrier      string `json:"carrier,omitempty"`
	Category     string `json:"category,omitempty"`
	State        string `json:"state"`
	Elephant     bool   `json:"elephant"`
	Risks        string `json:"risks,omitempty"`
	Inspected    uint32 `json:"inspected"`
	Packets      uint64 `json:"packets"`
	Bytes        uint64 `json:"bytes"`
	ReplyPackets uint64 `json:"reply-packets"`
	ReplyBytes   uint64 `json:"reply-bytes"`
	Age          int64  `json:"age"`
	Idle         int64  `json:"idle"`
}

// classState is an entry of the lists `protocol` and `category`.
type classState struct {
	Name    string `json:"name"`
	Flows   uint64 `json:"flows"`
	Packets uint64 `json:"packets"`
	Bytes   uint64 `json:"bytes"`
}

// policyState is what an entry of the list `policy` has in addition.
type policyState struct {
	Kind           string `json:"kind"`
	Name           string `json:"name"`
	InEffect       bool   `json:"in-effect"`
	PassedPackets  uint64 `json:"passed-packets"`
	PassedBytes    uint64 `json:"passed-bytes"`
	DroppedPackets uint64 `json:"dropped-packets"`
	DroppedBytes   uint64 `json:"dropped-bytes"`
}

type classifierState struct {
	Status  string `json:"status"`
	Behind  int64  `json:"behind,omitempty"`
	Version string `json:"version,omitempty"`
	Lost    uint64 `json:"lost"`
}

type statistics struct {
	Flows           uint32 `json:"flows"`
	Started         uint64 `json:"started"`
	Expired         uint64 `json:"expired"`
	CutShort        uint64 `json:"cut-short"`
	NoRoom          uint64 `json:"no-room"`
	NoRoomElephants uint64 `json:"no-room-elephants"`
	Inspected       uint64 `json:"inspected"`
	Sampled         uint64 `json:"sampled"`
	NotInspected    uint64 `json:"not-inspected"`
	ElephantFlows   uint64 `json:"elephant-flows"`
	Fragments       uint64 `json:"fragments"`
	NotMirrored     uint64 `json:"not-mirrored"`
	NotLogged       uint64 `json:"not-logged"`
}

// state has the structure of the model.
type state struct {
	Idle       []idleState      `json:"idle-timeout,omitempty"`
	Policies   []policyState    `json:"policy,omitempty"`
	Flows      []flowState      `json:"flow,omitempty"`
	Protocols  []classState     `json:"protocol,omitempty"`
	Categories []classState     `json:"category,omitempty"`
	Classifier *classifierState `json:"classifier,omitempty"`
	Statistics *statistics      `json:"statistics,omitempty"`
}

func (n *edpi) state(_ context.Context, path []string) (any, error) {
	if n.conf == nil {
		return nil, nil
	}
	wanted := func(name string) bool { return len(path) == 0 || path[0] == name }
	var s state
	var err error
	if len(path) > 5 && path[0] == "flow" {
		s.Flows, err = n.flow(path[1:])
		return s, err
	}
	if wanted("idle-timeout") {
		s.Idle = n.idleStates()
	}
	if wanted("policy") {
		if s.Policies, err = n.policyStates(); err != nil {
			return nil, err
		}
	}
	if wanted("protocol") || wanted("category") {
		if s.Protocols, s.Categories, err = n.classes(); err != nil {
			return nil, err
		}
	}
	if wanted("classifier") {
		if s.Classifier, err = n.classifierState(); err != nil {
			return nil, err
		}
	}
	if wanted("statistics") {
		s.Statistics, err = n.statistics()
	}
	return s, err
}

func (n *edpi) policyStates() (all []policyState, err error) {
	for i := range n.conf.Policies {
		p := &n.conf.Policies[i]
		is := policyState{Kind: kinds[p.Kind], Name: p.Name}
		_, is.InEffect = n.policies.row(p)
		var sums [2]inet.Count
		for dropped := range sums {
			each, _, err := n.policies.counts.Get(2*n.policies.of[p.key()] + uint32(dropped))
			if err != nil {
				return nil, err
			}
			sums[dropped] = inet.Sum(each)
		}
		is.PassedPackets, is.PassedBytes = sums[0].Packets, sums[0].Bytes
		is.DroppedPackets, is.DroppedBytes = sums[1].Packets, sums[1].Bytes
		all = append(all, is)
	}
	return all, nil
}

// classes are those that have had packets, or have a name.
func (n *edpi) classes() (protocols, categories []classState, err error) {
	sums, err := n.flows.sums()
	if err != nil {
		return nil, nil, err
	}
	special := map[uint32]string{dpi.Undecided: "undecided", dpi.NoRoom: "no-room", dpi.Other: "not-ip", dpi.Fragment: "fragment"}
	seen := map[string]bool{}
	for row := uint32(0); row < dpi.Elephants; row++ {
		if row == dpi.Protocols {
			clear(seen)
		}
		c := sums[row]
		name := special[row]
		if name == "" {
			if c == (count{}) && (n.policies.names == nil || n.policies.names[row] == "") {
				continue
			}
			name = n.policies.name(row)
		}
		if seen[name] {
			name += "-" + strconv.Itoa(int(row)) // nDPI has a name twice: keys differ
		}
		seen[name] = true
		is := classState{name, c.Flows, c.Packets, c.Bytes}
		if row < dpi.Protocols {
			protocols = append(protocols, is)
		} else {
			categories = append(categories, is)
		}
	}
	return protocols, categories, nil
}

func (n *edpi) classifierState() (*classifierState, error) {
	by, c, up, err := n.behind()
	if err != nil {
		return nil, err
	}
	is := &classifierState{Status: "DOWN"}
	if up {
		is.Status = "UP"
	}
	if c.Beat != 0 {
		is.Behind = by.Milliseconds()
	}
	is.Version, _, _ = strings.Cut(string(c.Version[:]), "\x00")
	lost, err := n.env.Map("packets" + ring.CountsSuffix)
	if err != nil {
		return nil, err
	}
	sum, err := ring.Sum(lost)
	is.Lost = sum.Lost
	return is, err
}

func (n *edpi) statistics() (*statistics, error) {
	f := n.flows
	is := &statistics{Flows: f.live, Expired: f.expired, CutShort: f.cutShort, NotLogged: f.notLogged}
	set := counters.In(n.env, "counters")
	for name, to := range map[string]*uint64{
		"started": &is.Started, "no-room": &is.NoRoom, "no-room-elephants": &is.NoRoomElephants, "inspected": &is.Inspected,
		"sampled": &is.Sampled, "not-inspected": &is.NotInspected, "elephant-flows": &is.ElephantFlows,
		"later-fragments": &is.Fragments, "not-mirrored": &is.NotMirrored,
	} {
		var err error
		if *to, err = set.Sum(name); err != nil {
			return nil, err
		}
	}
	return is, nil
}

// report adds an event when polycube-ndpi comes or goes.
func (n *edpi) report(up bool) {
	if up == n.up {
		return
	}
	n.up = up
	if up {
		author.Announce(n.env, "classifier-up", "polycube-ndpi classifies flows")
	} else {
		author.Announce(n.env, "classifier-down", "polycube-ndpi is not running, hangs or lags behind")
	}
}

// endsOf are the ends of a flow, the source first.
func endsOf(k dpi.Key, is dpi.Flow) ends {
	e := ends{k.Low.Addr(), k.High.Addr(), inet.Protocol(k.Protocol).String(), k.LowPort.Number(), k.HighPort.Number()}
	if is.Flags&dpi.Reverse != 0 {
		e.Source, e.Destination, e.SourcePort, e.DestinationPort = e.Destination, e.Source, e.DestinationPort, e.SourcePort
	}
	return e
}

// shown is a flow as the model has it.
func (n *edpi) shown(k dpi.Key, is dpi.Flow, now uint64) flowState {
	if is.Flags&dpi.Decided == 0 {
		if d, ok, err := n.flows.decisions.Get(k); err == nil && ok && d.ID == is.ID {
			is.Class, is.Flags = d.Class, is.Flags|dpi.Decided
		}
	}
	s := flowState{ends: endsOf(k, is), State: "NEW", Elephant: is.Flags&dpi.Elephant != 0, Inspected: is.Inspected}
	from := 0
	if is.Flags&dpi.Reverse != 0 {
		from = 1
	}
	s.Packets, s.Bytes, s.ReplyPackets, s.ReplyBytes = is.Packets[from], is.Bytes[from], is.Packets[1-from], is.Bytes[1-from]
	s.Age, s.Idle = aging.Age(now, is.ID).Milliseconds(), aging.Age(now, is.Last).Milliseconds()
	switch {
	case is.Flags&dpi.Decided == 0 && is.Inspected > 0:
		s.State = "INSPECTED"
	case is.Flags&dpi.Decided == 0:
	case is.Class.Protocol == 0 && is.Class.Master == 0:
		s.State = "GAVE_UP"
	case dpi.Flags(is.Class.Flags)&dpi.Guessed != 0:
		s.State = "GUESSED"
	default:
		s.State = "CLASSIFIED"
	}
	if is.Flags&dpi.Decided != 0 {
		s.Application, s.Category = n.policies.name(is.Class.ProtocolRow()), n.policies.name(is.Class.CategoryRow())
		if m := is.Class.Master; m != 0 && m <= dpi.LastProtocol {
			s.Carrier = n.policies.name(uint32(m))
		}
		s.Risks = n.policies.risks(is.Class.Risks)
	}
	return s
}

// flow finds the flow that a path names.
func (n *edpi) flow(keys []string) ([]flowState, error) {
	key, reverse, ok := keyOf(keys)
	if !ok {
		return nil, nil // there is none: the framework says so
	}
	is, ok, err := n.flows.table.Get(key)
	if err != nil || !ok || (is.Flags&dpi.Reverse != 0) != reverse {
		return nil, err
	}
	now, err := cube.Time()
	return []flowState{n.shown(key, is, now)}, err
}

// keyOf is the key that a path names; reverse: the higher end is the source.
func keyOf(keys []string) (key dpi.Key, reverse, ok bool) {
	f := flow.Flow{}
	for i, to := range []*inet.Address{&f.Source, &f.Destination} {
		address, err := netip.ParseAddr(keys[i])
		if err != nil {
			return key, false, false
		}
		*to = inet.AddressOf(address)
	}
	protocol, ok := inet.Protocols.Parse(keys[2])
	f.Protocol = uint8(protocol)
	for i, to := range []*flow.Port{&f.SourcePort, &f.DestinationPort} {
		port, err := strconv.ParseUint(keys[3+i], 10, 16)
		if err != nil {
			return key, false, false
		}
		*to = flow.Port{byte(port >> 8), byte(port)}
	}
	key, reverse = dpi.KeyOf(&f)
	return key, reverse, ok
}

// page returns a page of flows.
func (n *edpi) page(_ context.Context, path []string, q cube.PageQuery) (page cube.Page, err error) {
	if !slices.Equal(path, []string{"flow"}) {
		return page, fmt.Errorf("%s: %w", strings.Join(path, " "), cube.ErrNotFound)
	}
	now, err := cube.Time()
	if err != nil {
		return page, err
	}
	keep := func(k dpi.Key, is dpi.Flow) bool {
		if q.Matches == nil {
			return true
		}
		raw, err := json.Marshal(n.shown(k, is, now))
		return err == nil && q.Matches(raw)
	}
	entries, next, err := n.flows.table.Page(q.After, q.Limit, keep)
	if err != nil {
		return page, err
	}
	for _, e := range entries {
		raw, err := json.Marshal(n.shown(e.Key, e.Value, now))
		if err != nil {
			return page, err
		}
		page.Entries = append(page.Entries, raw)
	}
	page.Next = next
	return page, nil
}

// heavy are flows, the lightest first: a heap.
type heavy []dpi.Ended

func (h heavy) Len() int           { return len(h) }
func (h heavy) Less(i, j int) bool { return h[i].Flow.All() < h[j].Flow.All() }
func (h heavy) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *heavy) Push(x any)        { *h = append(*h, x.(dpi.Ended)) }
func (h *heavy) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// action carries out flows.
func (n *edpi) action(_ context.Context, path []string, input json.RawMessage) (cube.ActionResult, error) {
	if len(path) != 1 || path[0] != "flows" {
		return cube.ActionResult{}, fmt.Errorf("%v: %w", path, cube.ErrNotFound)
	}
	var in struct {
		Count int `json:"count"`
	}
	if err := json.Unmarshal(input, &in); err != nil {
		return cube.ActionResult{}, fmt.Errorf("flows: %w: %w", cube.ErrInvalid, err)
	}
	now, err := cube.Time()
	if err != nil {
		return cube.ActionResult{}, err
	}
	var top heavy
	for k, is := range n.flows.table.All(&err) {
		heap.Push(&top, dpi.Ended{Key: k, Flow: is})
		if len(top) > in.Count {
			heap.Pop(&top)
		}
	}
	if err != nil {
		return cube.ActionResult{}, err
	}
	out := struct {
		Flow []flowState `json:"flow"`
	}{make([]flowState, len(top))}
	for i := len(top) - 1; i >= 0; i-- {
		e := heap.Pop(&top).(dpi.Ended)
		out.Flow[i] = n.shown(e.Key, e.Flow, now)
	}
	return cube.ActionResult{Output: out}, nil
}
