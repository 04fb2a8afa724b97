// SPDX-License-Identifier: Apache-2.0

package policer

// The configuration in Go, and in the form of the program.

import (
	"fmt"
	"math"
	"time"

	"github.com/polycube/polycube/bucket"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/inet"
)

// Config is the decoded configuration.
type Config struct {
	Algorithm Algorithm `json:"algorithm"`
	Window    uint32    `json:"window"`
	Length    Length    `json:"length"`
	Max       uint32    `json:"max-contracts"`
	Default   Contract  `json:"default-contract"`
	Contracts []Entry   `json:"contract"`
}

// Entry is an entry of the list `contract`. Entries come one by one.
type Entry struct {
	Class uint32 `json:"traffic-class"`
	Contract
}

// Contract is what a class may do.
type Contract struct {
	Action    Action           `json:"action"`
	Rate      *uint64          `json:"rate-limit"`
	Burst     *uint64          `json:"burst-limit"`
	MarkBelow uint8            `json:"mark-below"`
	MarkDSCP  *uint8           `json:"mark-dscp"`
	Queue     *inet.QueueClass `json:"queue"`
}

// Algorithm is an enumeration of the model, with the numbers of enum policer_algorithm.
type Algorithm uint32

// Length is an enumeration of the model, with the numbers of enum policer_length.
type Length uint32

// Action is an enumeration of the model, with the numbers of enum policer_action.
type Action uint32

// The algorithms.
const (
	CompareAndSwap Algorithm = iota
	FixedWindow
	TokenBucket
	TokenBucketReduced
	SlidingWindow
	SlidingWindowReduced
)

// The actions.
const (
	Pass Action = iota
	Limit
	Drop
	Mark
	Shape
)

// UnmarshalText parses the model's value.
func (a *Algorithm) UnmarshalText(text []byte) (err error) {
	*a, err = cube.Enum[Algorithm]("algorithm", text, "COMPARE_AND_SWAP", "FIXED_WINDOW", "TOKEN_BUCKET", "TOKEN_BUCKET_REDUCED_LOCK",
		"SLIDING_WINDOW", "SLIDING_WINDOW_REDUCED_LOCK")
	return err
}

// UnmarshalText parses the model's value.
func (l *Length) UnmarshalText(text []byte) (err error) {
	*l, err = cube.Enum[Length]("length", text, "FRAME", "IP")
	return err
}

// UnmarshalText parses the model's value.
func (a *Action) UnmarshalText(text []byte) (err error) {
	*a, err = cube.Enum[Action]("action", text, "PASS", "LIMIT", "DROP", "MARK", "SHAPE")
	return err
}

// locks reports whether the states of contracts have a lock: they are then in a map of their own.
func (a Algorithm) locks() bool { return a >= TokenBucket }

// contract is struct policer_contract.
type contract struct {
	Limit       bucket.Limit
	Quota, Near uint64
	Word        uint64
	Action      uint8
	Coarse      uint8
	DSCP        uint8
	_           uint8
	Queue       uint32
	Warned      uint64
}

// noDSCP is POLICER_NO_DSCP.
const noDSCP = 0xff

// Bursts that are chosen for a rate.
const (
	burstTime  = 250 * time.Millisecond // longer than TCP waits at least before it repeats a segment
	burstBytes = 128 << 10              // more than a superframe has
)

// kilobit is what the units of the model are, in bytes.
const kilobit = 125

// coarseBurst is the time of a burst at its rate from which the coarse clock is exact enough: its ticks are 10 ms apart at
// most.
const coarseBurst = 40 * time.Millisecond

// of returns a contract in the form of the program, without its state.
func (c *Config) of(is Contract) (contract, error) {
	out := contract{Action: uint8(is.Action), DSCP: noDSCP}
	if is.MarkDSCP != nil {
		out.DSCP = *is.MarkDSCP
	}
	if is.Action == Shape {
		if is.Queue == nil {
			return out, fmt.Errorf("queue: required by action SHAPE: %w", cube.ErrInvalid)
		}
		out.Queue = uint32(*is.Queue)
		return out, nil
	}
	if is.Action != Limit && is.Action != Mark {
		return out, nil
	}
	if is.Rate == nil {
		return out, fmt.Errorf("rate-limit: required by actions LIMIT and MARK: %w", cube.ErrInvalid)
	}
	rate := *is.Rate * kilobit
	burst := max(rate/uint64(time.Second/burstTime), burstBytes)
	if is.Burst != nil {
		burst = *is.Burst * kilobit
	}
	burst = min(burst, math.MaxUint32)
	var err error
	if out.Limit, err = bucket.New(rate, time.Second, uint32(burst)); err != nil {
		return out, fmt.Errorf("rate-limit: %w", err)
	}
	window := time.Duration(c.Window) * time.Millisecond
	if out.Quota, err = c.quota(rate, window); err != nil {
		return out, err
	}
	near, lasts := out.Limit.Size, time.Duration(burst*uint64(time.Second)/rate)
	if c.Algorithm == FixedWindow {
		near, lasts = out.Quota, window
	}
	if lasts >= coarseBurst {
		out.Coarse = 1
	}
	if is.Action == Mark {
		out.Near = near/100*uint64(is.MarkBelow) + near%100*uint64(is.MarkBelow)/100
	}
	return out, nil
}

// quota is what a rate in bytes per second allows in a fixed window.
func (c *Config) quota(rate uint64, window time.Duration) (uint64, error) {
	quota := rate * uint64(window/time.Millisecond) / 1000
	const most = 1 << 39 // half of what the program's word can count
	switch {
	case c.Algorithm != FixedWindow:
		return 0, nil
	case quota < 1500:
		return 0, fmt.Errorf("rate-limit: a window of %s passes only %d bytes, less than one packet of 1,500: %w", window, quota, cube.ErrInvalid)
	case quota > most:
		return 0, fmt.Errorf("rate-limit: a window of %s passes %d bytes, but at most %d can be counted: %w", window, quota, uint64(most), cube.ErrInvalid)
	}
	return quota, nil
}

// states is the size of the map of states: there is one for each contract, and for the default contract, if these have locks.
func (c *Config) states() uint32 {
	if c.Algorithm.locks() {
		return c.Max + 1
	}
	return 1
}

// constants returns those of the program.
func (c *Config) constants() map[string]any {
	return map[string]any{"algorithm": uint32(c.Algorithm), "length": uint32(c.Length), "window": uint64(c.Window) * uint64(time.Millisecond)}
}
