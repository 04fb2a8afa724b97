// SPDX-License-Identifier: Apache-2.0

package ddosmitigator

// Addresses that the program has listed. The map is that of all cubes; each has the entries of its number.

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/author"
	"github.com/polycube/polycube/cube/origins"
	"github.com/polycube/polycube/cube/table"
	"github.com/polycube/polycube/inet"
	"github.com/polycube/polycube/sketch"
)

// suspect is struct ddosmitigator_suspect.
type suspect struct {
	High, Low uint64
	Cube, End uint32
}

// listing is struct ddosmitigator_listing.
type listing struct {
	Expires, Rate uint64
	Drops         inet.Count
	Exceeded      uint32
	_             uint32
}

// Names in the model.
var (
	endNames      = [ends]string{"SRC", "DST"}
	exceededNames = [...]string{1: "PACKETS", 2: "SYNS", 3: "BYTES"}
)

// The same in sentences.
var (
	endWords      = [ends]string{"source", "destination"}
	exceededWords = [...]string{1: "packets", 2: "SYNs", 3: "bytes"}
)

// suspectOf is an entry of the list `detected`.
type suspectOf struct {
	End       string `json:"end"`
	IP        string `json:"ip"`
	Reason    string `json:"reason"`
	Rate      uint64 `json:"rate"`
	TimeLeft  uint32 `json:"time-left"`
	DropPkts  uint64 `json:"drop-pkts"`
	DropBytes uint64 `json:"drop-bytes"`
}

type detections struct {
	env cube.Env
	all table.Table[suspect, listing]
	// on is set while the program lists addresses.
	on bool
	// known are the listings that were announced, with their end.
	known map[suspect]uint64
}

func newDetections(env cube.Env) *detections {
	return &detections{env: env, all: table.New[suspect, listing](env, "detected"), known: map[suspect]uint64{}}
}

// begin removes the entries of an earlier cube with the number, or takes over those of this cube before a restart.
func (d *detections) begin() error {
	origin, err := d.env.Origin("dropped") // a map of this cube alone
	if err != nil {
		return err
	}
	var gone []suspect
	for s, l := range d.own(&err) {
		if origin == origins.Created {
			gone = append(gone, s)
		} else {
			d.known[s] = l.Expires
		}
	}
	if err != nil {
		return err
	}
	_, err = d.all.DeleteAll(gone)
	return err
}

// own iterates over the entries of this cube.
func (d *detections) own(failed *error) func(yield func(suspect, listing) bool) {
	return func(yield func(suspect, listing) bool) {
		for s, l := range d.all.All(failed) {
			if s.Cube == uint32(d.env.Instance()) && !yield(s, l) {
				return
			}
		}
	}
}

// automatic returns a step that notes whether the program lists addresses.
func (d *detections) automatic(on bool) func() (func() error, error) {
	return func() (func() error, error) {
		was := d.on
		d.on = on
		return func() error { d.on = was; return nil }, nil
	}
}

// announced is how many addresses are announced one by one in a second.
const announced = 100

// follow announces new listings, and releases addresses whose time is over.
func (d *detections) follow() error {
	if !d.on && len(d.known) == 0 {
		return nil
	}
	now, err := cube.TimeCoarse()
	if err != nil {
		return err
	}
	var fresh, over []suspect
	found := map[suspect]listing{}
	for s, l := range d.own(&err) {
		found[s] = l
		switch {
		case l.Expires <= now:
			over = append(over, s)
		case d.known[s] != l.Expires:
			fresh = append(fresh, s)
		}
	}
	if err != nil {
		return err
	}
	d.tell("listed", fresh, found)
	d.tell("released", over, found)
	for _, s := range fresh {
		d.known[s] = found[s].Expires
	}
	if _, err := d.all.DeleteAll(over); err != nil {
		return err
	}
	for s := range d.known {
		if l, ok := found[s]; !ok || l.Expires <= now {
			delete(d.known, s)
		}
	}
	return nil
}

// tell logs and announces what happened to addresses.
func (d *detections) tell(what string, all []suspect, of map[suspect]listing) {
	slices.SortFunc(all, func(a, b suspect) int { return cmp.Compare(of[b].Rate, of[a].Rate) })
	for i, s := range all {
		if i == announced {
			d.env.Logger().Warn("addresses "+what, "more", len(all)-i)
			author.Announce(d.env, what, fmt.Sprintf("%d more addresses were %s", len(all)-i, what))
			return
		}
		l := of[s]
		rate := sketch.PerSecond(l.Rate)
		d.env.Logger().Warn("address "+what, "end", endNames[s.End%ends], "ip", s.addr().String(), "reason", l.reason(),
			"rate", rate, "drop-pkts", l.Drops.Packets)
		author.Announce(d.env, what, fmt.Sprintf("%s %s was %s, with %d %s per second; %d packets were dropped",
			endWords[s.End%ends], s.addr(), what, rate, exceededWords[l.Exceeded%uint32(len(exceededWords))], l.Drops.Packets))
	}
}

func (s suspect) addr() netip.Addr { return addrOf(s.High, s.Low) }

func (l listing) reason() string { return exceededNames[l.Exceeded%uint32(len(exceededNames))] }

// list returns the entries of the model's list, the busiest first.
func (d *detections) list() ([]suspectOf, error) {
	now, err := cube.TimeCoarse()
	if err != nil {
		return nil, err
	}
	var all []suspectOf
	for s, l := range d.own(&err) {
		if l.Expires <= now {
			continue
		}
		all = append(all, suspectOf{endNames[s.End%ends], s.addr().String(), l.reason(), sketch.PerSecond(l.Rate),
			seconds(l.Expires, now), l.Drops.Packets, l.Drops.Bytes})
	}
	slices.SortFunc(all, func(a, b suspectOf) int {
		return cmp.Or(cmp.Compare(b.DropPkts, a.DropPkts), cmp.Compare(a.IP, b.IP), cmp.Compare(a.End, b.End))
	})
	return all, err
}

// seconds returns the time from now on, rounded up.
func seconds(until, now uint64) uint32 {
	return uint32((until - now + uint64(time.Second) - 1) / uint64(time.Second))
}

// release removes an entry, or all if there are no keys.
func (d *detections) release(keys []string) error {
	if len(keys) == 0 {
		var all []suspect
		var err error
		for s := range d.own(&err) {
			all = append(all, s)
		}
		if err != nil {
			return err
		}
		_, err = d.all.DeleteAll(all)
		return err
	}
	if len(keys) != 2 {
		return fmt.Errorf("detected %v: an entry has an end and an address: %w", keys, cube.ErrInvalid)
	}
	addr, err := netip.ParseAddr(keys[1])
	end := slices.Index(endNames[:], keys[0])
	if err != nil || end < 0 {
		return fmt.Errorf("detected %v: %w", keys, cube.ErrNotFound)
	}
	high, low := wordsOf(addr)
	ok, err := d.all.Delete(suspect{high, low, uint32(d.env.Instance()), uint32(end)})
	if err == nil && !ok {
		err = fmt.Errorf("detected %s %s: %w", keys[0], keys[1], cube.ErrNotFound)
	}
	return err
}
