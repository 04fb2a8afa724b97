// SPDX-License-Identifier: Apache-2.0

package language

// The match that limits the rate of each group of packets.

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// HashLimit is -m hashlimit.
type HashLimit struct {
	Rate Rate
	// Above matches packets above the rate instead of those up to it.
	Above bool
	// Burst is in packets or in bytes, as the rate; 0 is none, which rates of bytes can have.
	Burst uint64
	// By are the fields that make a group, some of srcip, srcport, dstip and dstport in this order.
	By       []string
	HashName string
	// Size and Max are of the hash table; GC is the milliseconds between its collections; 0 are the kernel's defaults.
	Size, Max, GC uint32
	// Expire is after how many idle milliseconds an entry ends.
	Expire           uint32
	SrcMask, DstMask uint8
	RateMatch        bool
	RateInterval     uint32 // in seconds
}

var hashModes = []string{"srcip", "srcport", "dstip", "dstport"}

var byteUnits = []struct {
	name string
	size uint64
}{{"mb", 1 << 20}, {"kb", 1 << 10}, {"b", 1}}

// byteCount reads N and a unit of bytes. ok is false if there is no unit.
func byteCount(text string) (n uint64, ok bool) {
	for _, u := range byteUnits {
		if digits, found := strings.CutSuffix(text, u.name); found {
			n, ok = decimal(digits, math.MaxUint32/u.size)
			return n * u.size, ok
		}
	}
	return 0, false
}

// byteCost is the price of 16 bytes in the kernel's account for a rate.
func byteCost(rate uint64) uint64 { return math.MaxUint32 / (rate>>4 + 1) }

// costBytes is the rate of a price.
func costBytes(cost uint64) uint64 { return (math.MaxUint32/cost - 1) << 4 }

// bytesText prints a number of bytes in the largest unit that gives the same price.
func bytesText(n uint64) string {
	for _, u := range byteUnits {
		if n >= u.size && byteCost(n/u.size*u.size) == byteCost(n) {
			return strconv.FormatUint(n/u.size, 10) + u.name
		}
	}
	return strconv.FormatUint(n, 10) + "b"
}

// hashRate reads a rate of packets or of bytes. seconds is the length of the unit.
func hashRate(text string) (r Rate, seconds uint64, err error) {
	digits, _ := strings.CutSuffix(text, "/s")
	n, ok := byteCount(strings.TrimSuffix(digits, "/"))
	if !ok || !strings.HasSuffix(text, "b/s") {
		if strings.HasSuffix(digits, "b") {
			return r, 0, fmt.Errorf("bad rate %q: a rate of bytes is Nb/s, Nkb/s or Nmb/s", text)
		}
		return rate(text, hashlimitScale)
	}
	if n < 16 {
		return r, 0, fmt.Errorf("rate too slow %q: at least 16b/s", text)
	}
	// The rate that the kernel counts with is printed rounded, which must not change it again.
	n = costBytes(byteCost(n))
	if short, ok := byteCount(bytesText(n)); ok {
		n = short
	}
	return Rate{Count: n, Per: "sec", Bytes: true}, 1, nil
}

func newHashLimit(family Family) *builder {
	m := &HashLimit{SrcMask: uint8(family.bits()), DstMask: uint8(family.bits())}
	b := &builder{name: "hashlimit", required: "--hashlimit-name"}
	var burst string
	var seconds uint64
	number32 := func(to *uint32, name string, low uint64) option {
		return option{names: []string{name}, arity: oneValue, set: func(v value) error {
			n, err := v.numberOf(low, math.MaxUint32)
			*to = uint32(n)
			return err
		}}
	}
	mask := func(to *uint8, name string) option {
		return option{names: []string{name}, arity: oneValue, set: func(v value) error {
			n, err := v.numberOf(0, uint64(family.bits()))
			*to = uint8(n)
			return err
		}}
	}
	limit := func(above bool, excludes string, names ...string) option {
		return option{names: names, arity: oneValue, not: true, excludes: []string{excludes},
			set: func(v value) (err error) {
				m.Above = above != v.not
				m.Rate, seconds, err = hashRate(v.text)
				return err
			}}
	}
	b.options = []option{
		limit(false, "--hashlimit-above", "--hashlimit-upto", "--hashlimit"),
		limit(true, "--hashlimit-upto", "--hashlimit-above"),
		{names: []string{"--hashlimit-burst"}, arity: oneValue, set: func(v value) error { burst = v.text; return nil }},
		{names: []string{"--hashlimit-mode"}, arity: oneValue, set: func(v value) error { return m.readMode(v.text) }},
		{names: []string{"--hashlimit-name"}, arity: oneValue, set: func(v value) error {
			m.HashName = v.text
			if v.text == "" || len(v.text) > 15 || v.text[0] == '-' || strings.ContainsAny(v.text, "/\"'\\!") ||
				strings.IndexFunc(v.text, func(r rune) bool { return r <= ' ' || r > '~' }) >= 0 {
				return v.bad("it is a name of 1 to 15 characters, without spaces, slashes and quotes")
			}
			return nil
		}},
		number32(&m.Size, "--hashlimit-htable-size", 1),
		number32(&m.Max, "--hashlimit-htable-max", 1),
		number32(&m.GC, "--hashlimit-htable-gcinterval", 1),
		number32(&m.Expire, "--hashlimit-htable-expire", 1),
		mask(&m.SrcMask, "--hashlimit-srcmask"),
		mask(&m.DstMask, "--hashlimit-dstmask"),
		flag(&m.RateMatch, "--hashlimit-rate-match"),
		number32(&m.RateInterval, "--hashlimit-rate-interval", 1),
	}
	b.finish = func(*context) error { return m.finish(burst, seconds) }
	b.match = func() Match { return *m }
	return b
}

func (m *HashLimit) readMode(text string) error {
	n, err := namedBits(text, hashModes)
	m.By = bitNames(n, hashModes)
	return err
}

func (m *HashLimit) finish(burst string, seconds uint64) error {
	if m.Rate.Count == 0 {
		return errors.New("--hashlimit-upto or --hashlimit-above must be specified")
	}
	if m.Expire == 0 {
		m.Expire = uint32(seconds * 1000)
	}
	if m.GC == 1000 {
		m.GC = 0 // the default
	}
	if m.RateInterval != 0 && !m.RateMatch {
		return errors.New("--hashlimit-rate-interval needs --hashlimit-rate-match")
	}
	if m.RateMatch && (m.Rate.Bytes || m.Rate.Per != "sec") {
		return errors.New("--hashlimit-rate-match needs a rate per second")
	}
	if m.RateInterval == 1 {
		m.RateInterval = 0
	}
	return m.readBurst(burst)
}

// readBurst reads the burst, whose unit is that of the rate.
func (m *HashLimit) readBurst(text string) error {
	bytes, isBytes := byteCount(text)
	n, ok := decimal(text, 1000000)
	switch {
	case text == "":
		m.Burst = 5
		if m.Rate.Bytes {
			m.Burst = 0
		}
		return nil
	case !m.Rate.Bytes:
		if !ok || n == 0 {
			return fmt.Errorf("bad value %q for option \"--hashlimit-burst\": it is a number from 1 to 1000000", text)
		}
		m.Burst = n
		return nil
	case isBytes:
		n = bytes
	case !ok:
		return fmt.Errorf("bad value %q for option \"--hashlimit-burst\": it is a number of bytes", text)
	}
	if n < m.Rate.Count {
		return fmt.Errorf("the burst %s cannot be smaller than the rate %s", text, m.Rate)
	}
	if n = m.multiple(n); n > math.MaxUint32 {
		return fmt.Errorf("the burst %s is too large", text)
	}
	m.Burst = n
	return nil
}

// multiple rounds a burst of bytes up to a multiple of the rate, as the kernel counts it.
func (m HashLimit) multiple(n uint64) uint64 {
	return (n + m.Rate.Count - 1) / m.Rate.Count * m.Rate.Count
}

// burstText prints a burst of bytes as iptables does, in the largest unit, rounded down; but exactly if the rounded one
// would be another burst.
func (m HashLimit) burstText() string {
	for _, u := range byteUnits {
		n := m.Burst / u.size * u.size
		if m.Burst < u.size {
			continue
		}
		if n >= m.Rate.Count && m.multiple(n) == m.Burst {
			return strconv.FormatUint(m.Burst/u.size, 10) + u.name
		}
		break
	}
	return strconv.FormatUint(m.Burst, 10) + "b"
}

// Name returns hashlimit.
func (HashLimit) Name() string { return "hashlimit" }

func (m HashLimit) String() string {
	mode, burst := "upto", strconv.FormatUint(m.Burst, 10)
	if m.Above {
		mode = "above"
	}
	if m.Rate.Bytes {
		burst = m.burstText()
	}
	num := func(name string, n uint32) string { return when(n != 0, fmt.Sprintf("--hashlimit-%s %d", name, n)) }
	full := uint8(32)
	if m.SrcMask > 32 || m.DstMask > 32 {
		full = 128
	}
	return joined("--hashlimit-"+mode+" "+m.Rate.String(), when(m.Burst != 0, "--hashlimit-burst "+burst),
		when(m.By != nil, "--hashlimit-mode "+strings.Join(m.By, ",")), "--hashlimit-name "+m.HashName,
		num("htable-size", m.Size), num("htable-max", m.Max), num("htable-gcinterval", m.GC),
		when(uint64(m.Expire) != m.Rate.seconds()*1000, num("htable-expire", m.Expire)),
		when(m.SrcMask != full, fmt.Sprintf("--hashlimit-srcmask %d", m.SrcMask)),
		when(m.DstMask != full, fmt.Sprintf("--hashlimit-dstmask %d", m.DstMask)),
		when(m.RateMatch, "--hashlimit-rate-match"), num("rate-interval", m.RateInterval))
}

func (HashLimit) match() {}
