// SPDX-License-Identifier: Apache-2.0

package language

// The matches that limit rates and numbers.

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Rate is a number of packets per sec, min, hour or day; or of bytes per sec.
type Rate struct {
	Count uint64
	// Per is sec, min, hour or day.
	Per string
	// Bytes is whether it counts bytes.
	Bytes bool
}

// Limit is -m limit.
type Limit struct {
	Rate  Rate
	Burst uint32
}

// ConnLimit is -m connlimit.
type ConnLimit struct {
	// Count matches if there are more connections (Above), or at most as many.
	Count uint32
	Above bool
	// MaskBits are the bits of an address that make a group.
	MaskBits uint8
	// Destination groups by destination address instead of by source.
	Destination bool
}

// Statistic is -m statistic. Every is 0 in the mode random.
type Statistic struct {
	// Probability is a multiple of 2^-31.
	Probability   float64
	Every, Packet uint32
	Not           bool
}

// units are the seconds of a unit of time, longest first.
var units = []struct {
	name    string
	seconds uint64
}{{"day", 86400}, {"hour", 3600}, {"min", 60}, {"sec", 1}}

// The packets per second at which periods of limit and hashlimit have one tick.
const (
	limitScale     = 10000
	hashlimitScale = 1000000
)

// rate reads N/UNIT and rounds it as the kernel counts: with periods of 1/scale seconds. seconds is the unit's length.
func rate(text string, scale uint64) (r Rate, seconds uint64, err error) {
	count, unit, divided := strings.Cut(text, "/")
	seconds = 1
	if divided {
		if unit = strings.ToLower(unit); strings.HasPrefix("minute", unit) {
			unit = "min"[:min(len(unit), 3)]
		} else if strings.HasPrefix("second", unit) {
			unit = "sec"[:min(len(unit), 3)]
		}
		i := slices.IndexFunc(units, func(u struct {
			name    string
			seconds uint64
		}) bool {
			return unit != "" && strings.HasPrefix(u.name, unit)
		})
		if i < 0 {
			return r, 0, fmt.Errorf("bad rate %q: it is N/second, /minute, /hour or /day", text)
		}
		seconds = units[i].seconds
	}
	n, ok := decimal(count, math.MaxUint32)
	if !ok || n == 0 {
		return r, 0, fmt.Errorf("bad rate %q: it is N/second, /minute, /hour or /day", text)
	}
	period := scale * seconds / n
	if period == 0 || n > scale*seconds {
		return r, 0, fmt.Errorf("rate too fast %q: at most %d/second", text, scale)
	}
	return rateOf(period, scale), seconds, nil
}

// rateOf returns the rate of a period, in the shortest unit that is exact enough for iptables.
func rateOf(period, scale uint64) Rate {
	i := 1
	for ; i < len(units); i++ {
		unit := units[i].seconds * scale
		if period > unit || unit/period < unit%period {
			break
		}
	}
	return Rate{Count: units[i-1].seconds * scale / period, Per: units[i-1].name}
}

// seconds returns the length of the unit.
func (r Rate) seconds() uint64 {
	for _, u := range units {
		if u.name == r.Per {
			return u.seconds
		}
	}
	return 1
}

// String returns N/UNIT.
func (r Rate) String() string {
	if r.Bytes {
		return bytesText(r.Count) + "/s"
	}
	return strconv.FormatUint(r.Count, 10) + "/" + r.Per
}

func newLimit(Family) *builder {
	m := Limit{Rate: Rate{Count: 3, Per: "hour"}, Burst: 5}
	return &builder{
		name: "limit",
		options: []option{
			{names: []string{"--limit"}, arity: oneValue, set: func(v value) (err error) {
				m.Rate, _, err = rate(v.text, limitScale)
				return err
			}},
			{names: []string{"--limit-burst"}, arity: oneValue, set: func(v value) error {
				n, err := v.numberOf(1, 10000)
				m.Burst = uint32(n)
				return err
			}},
		},
		match: func() Match { return m },
	}
}

// Name returns limit.
func (Limit) Name() string { return "limit" }

func (m Limit) String() string {
	return joined("--limit "+m.Rate.String(), when(m.Burst != 5, fmt.Sprintf("--limit-burst %d", m.Burst)))
}

func newConnLimit(family Family) *builder {
	m := ConnLimit{MaskBits: uint8(family.bits())}
	b := &builder{name: "connlimit"}
	count := func(above bool, name, other string) option {
		return option{names: []string{name}, arity: oneValue, not: true, excludes: []string{other},
			set: func(v value) error {
				n, err := v.numberOf(0, math.MaxUint32)
				m.Count, m.Above = uint32(n), above != v.not
				return err
			}}
	}
	var source bool
	saddr, daddr := flag(&source, "--connlimit-saddr"), flag(&m.Destination, "--connlimit-daddr")
	saddr.excludes, daddr.excludes = daddr.names, saddr.names
	b.options = []option{
		count(true, "--connlimit-above", "--connlimit-upto"),
		count(false, "--connlimit-upto", "--connlimit-above"),
		{names: []string{"--connlimit-mask"}, arity: oneValue, set: func(v value) error {
			n, err := v.numberOf(0, uint64(family.bits()))
			m.MaskBits = uint8(n)
			return err
		}},
		saddr, daddr,
	}
	b.finish = func(*context) error {
		if !b.has("--connlimit-above", "--connlimit-upto") {
			return errors.New("--connlimit-above or --connlimit-upto must be specified")
		}
		return nil
	}
	b.match = func() Match { return m }
	return b
}

// Name returns connlimit.
func (ConnLimit) Name() string { return "connlimit" }

func (m ConnLimit) String() string {
	name, of := "upto", "saddr"
	if m.Above {
		name = "above"
	}
	if m.Destination {
		of = "daddr"
	}
	return fmt.Sprintf("--connlimit-%s %d --connlimit-mask %d --connlimit-%s", name, m.Count, m.MaskBits, of)
}

func newStatistic(Family) *builder {
	var m Statistic
	var mode string
	b := &builder{name: "statistic", required: "--mode"}
	b.options = []option{
		{names: []string{"--mode"}, arity: oneValue, set: func(v value) error {
			if mode = v.text; mode != "random" && mode != "nth" {
				return v.bad("it is random or nth")
			}
			return nil
		}},
		{names: []string{"--probability"}, arity: oneValue, not: true, set: func(v value) error {
			p, err := strconv.ParseFloat(v.text, 64)
			if err != nil || !(p >= 0 && p <= 1) {
				return v.bad("it is a number from 0 to 1")
			}
			m.Probability, m.Not = math.Round(p*(1<<31))/(1<<31), v.not
			return nil
		}},
		{names: []string{"--every"}, arity: oneValue, not: true, set: func(v value) error {
			n, err := v.numberOf(1, math.MaxUint32)
			m.Every, m.Not = uint32(n), v.not
			return err
		}},
		{names: []string{"--packet"}, arity: oneValue, set: func(v value) error {
			n, err := v.numberOf(0, math.MaxUint32)
			m.Packet = uint32(n)
			return err
		}},
	}
	b.finish = func(*context) error {
		random, nth := b.has("--probability"), b.has("--every", "--packet")
		switch {
		case mode == "random" && (!random || nth):
			return errors.New("the mode random takes --probability and no other option")
		case mode == "nth" && (random || !b.has("--every") || !b.has("--packet")):
			return errors.New("the mode nth takes --every and --packet and no other option")
		case mode == "nth" && m.Packet >= m.Every:
			return errors.New("--packet must be less than --every")
		}
		return nil
	}
	b.match = func() Match { return m }
	return b
}

// Name returns statistic.
func (Statistic) Name() string { return "statistic" }

func (m Statistic) String() string {
	if m.Every == 0 {
		return "--mode random " + bang(m.Not, fmt.Sprintf("--probability %.11f", m.Probability))
	}
	return "--mode nth " + bang(m.Not, fmt.Sprintf("--every %d --packet %d", m.Every, m.Packet))
}

func (Limit) match()     {}
func (ConnLimit) match() {}
func (Statistic) match() {}
