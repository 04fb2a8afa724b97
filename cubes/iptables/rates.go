// SPDX-License-Identifier: Apache-2.0

package iptables

// Conditions that count packets: rate.h.

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"github.com/polycube/polycube/bucket"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/iptables/language"
)

// counted is struct iptables_counted: the key of what a condition has counted.
type counted struct{ Counter, Place uint32 }

// periods are the units of rates.
var periods = map[string]time.Duration{"sec": time.Second, "min": time.Minute, "hour": time.Hour, "day": 24 * time.Hour}

// rateTest puts a rate into a condition.
func rateTest(t *test, r language.Rate, burst uint64) error {
	of, err := bucket.New(r.Count, periods[r.Per], uint32(min(burst, math.MaxUint32)))
	if err != nil {
		return err
	}
	_, err = binary.Encode(t.Data[:], binary.NativeEndian, of)
	return err
}

func limitTest(r language.Rate, burst uint64) ([]test, error) {
	t := test{Kind: testLimit}
	if err := rateTest(&t, r, burst); err != nil {
		return nil, err
	}
	return []test{t}, nil
}

// groupings are the bits of what makes a group: enum iptables_by.
var groupings = map[string]uint16{"srcip": 1, "srcport": 2, "dstip": 4, "dstport": 8}

// serialAt is where a condition has the serial number of its groups: behind a limit.
const serialAt = 24

// serial returns the serial number.
func (t *test) serial() uint32 { return binary.NativeEndian.Uint32(t.Data[serialAt:]) }

// number gives the condition's groups a serial number. One that was there before a restart keeps it, and so its groups.
func (t *test) number(was *test) {
	serial := t.Data[serialAt : serialAt+4]
	if copy(serial, was.Data[serialAt:]); *was == *t && was.serial() != 0 {
		return
	}
	_, _ = rand.Read(serial) // never fails
	serial[0] |= 1           // there is no 0
}

// numberGroups does so for the conditions of a new row. A row of the same rule is there after a restart only: rows are removed
// before their counters are free.
func (f *iptables) numberGroups(counter uint32, is *row) error {
	for i := range is.Test[:is.Tests] {
		t := &is.Test[i]
		if !t.Kind.groups() {
			continue
		}
		was, _, err := f.rows.Get(counter)
		if err != nil {
			return err
		}
		t.number(&was.Test[i])
	}
	return nil
}

// byBytes is IPTABLES_BYTES.
const byBytes = 16

// hashLimitTest is the condition of a rate for each group of packets.
func hashLimitTest(family language.Family, m language.HashLimit) ([]test, error) {
	if m.RateMatch || m.RateInterval != 0 {
		return nil, fmt.Errorf("--hashlimit-rate-match is not supported; use --hashlimit-upto or --hashlimit-above: %w", cube.ErrUnsupported)
	}
	bits := uint32(32)
	if family == language.IPv6 {
		bits = 128
	}
	t := test{Kind: testHashLimit, Negated: m.Above, Value: min(bits, uint32(m.SrcMask)) | min(bits, uint32(m.DstMask))<<8}
	for _, by := range m.By {
		t.Number |= groupings[by]
	}
	burst := m.Burst
	if m.Rate.Bytes {
		t.Number |= byBytes
		burst = max(burst, m.Rate.Count)
	}
	if err := rateTest(&t, m.Rate, burst); err != nil {
		return nil, err
	}
	return []test{t}, nil
}
