// SPDX-License-Identifier: Apache-2.0

package edpi

// The configuration in Go; a test compares it with the model.

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/polycube/polycube/bucket"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/sketch"
)

// Config is the decoded configuration.
type Config struct {
	Outputs   []cube.Output `json:"outputs"`
	Mode      Mode          `json:"mode"`
	MaxFlows  uint32        `json:"max-flows"`
	Inspect   uint8         `json:"inspect-packets"`
	Snap      uint16        `json:"snap-length"`
	Sample    uint32        `json:"sample-interval"`
	Undecided Undecided     `json:"undecided"`
	OnFailure Failure       `json:"on-failure"`
	Silence   uint32        `json:"classifier-timeout"` // milliseconds
	TCP       uint32        `json:"tcp-timeout"`
	Other     uint32        `json:"timeout"`
	Ended     uint32        `json:"ended-timeout"`
	Bytes     uint64        `json:"elephant-bytes"`
	Rate      uint64        `json:"elephant-rate"` // kbit/s
	Idle      []Idle        `json:"idle-timeout"`
	Policies  []Policy      `json:"policy"`
}

// Policy is an entry of the list `policy`.
type Policy struct {
	Kind     Kind    `json:"kind"`
	Name     string  `json:"name"`
	Action   Action  `json:"action"`
	Mark     *uint32 `json:"mark"`
	Rate     *uint32 `json:"rate"` // kbit/s
	Output   *uint8  `json:"output"`
	Elephant bool    `json:"elephant"`
}

// Mode is an enumeration of the model, with the numbers of enum edpi_mode.
type Mode uint32

// Undecided is an enumeration of the model, with the numbers of enum edpi_undecided.
type Undecided uint32

// Failure is an enumeration of the model, with the numbers of enum edpi_failure.
type Failure uint32

// Kind is an enumeration of the model.
type Kind uint32

// Action is an enumeration of the model, with the numbers of enum edpi_action.
type Action uint32

// Kinds of classes.
const (
	Protocol Kind = iota
	Category
	Elephant
)

// The actions.
const (
	Pass Action = iota
	Drop
	Mark
	Limit
	Redirect
	Mirror
)

var kinds = []string{"PROTOCOL", "CATEGORY", "ELEPHANT"}

// UnmarshalText parses the model's value.
func (m *Mode) UnmarshalText(text []byte) (err error) {
	*m, err = cube.Enum[Mode]("mode", text, "INLINE", "MIRROR")
	return err
}

// UnmarshalText parses the model's value.
func (u *Undecided) UnmarshalText(text []byte) (err error) {
	*u, err = cube.Enum[Undecided]("undecided", text, "PASS", "DROP")
	return err
}

// UnmarshalText parses the model's value.
func (f *Failure) UnmarshalText(text []byte) (err error) {
	*f, err = cube.Enum[Failure]("on-failure", text, "OPEN", "CLOSED")
	return err
}

// UnmarshalText parses the model's value.
func (k *Kind) UnmarshalText(text []byte) (err error) {
	*k, err = cube.Enum[Kind]("kind", text, kinds...)
	return err
}

// UnmarshalText parses the model's value.
func (a *Action) UnmarshalText(text []byte) (err error) {
	*a, err = cube.Enum[Action]("action", text, "PASS", "DROP", "MARK", "LIMIT", "REDIRECT", "MIRROR")
	return err
}

// kilobit is a kbit/s in bytes per second.
const kilobit = 125

// constants are those of the program.
func (c *Config) constants() map[string]any {
	return map[string]any{
		"mode": uint32(c.Mode), "undecided": uint32(c.Undecided), "on_failure": uint32(c.OnFailure),
		"classifier_timeout": uint64(c.Silence) * uint64(time.Millisecond), "inspect_packets": uint32(c.Inspect),
		"snap_length": uint32(c.Snap), "sample_interval": c.Sample, "elephant_bytes": c.Bytes, "elephant_rate": sketch.PerWindow(c.Rate * kilobit),
	}
}

// key is a class as the programs' table of slots knows it.
func (p *Policy) key() classKey {
	k := classKey{Kind: uint32(p.Kind)}
	copy(k.Name[:], strings.ToLower(p.Name))
	return k
}

// policy is struct edpi_policy.
type policy struct {
	Limit         bucket.Limit
	Action, Value uint32
}

// Bursts that are chosen for a rate.
const (
	burstTime  = 250 * time.Millisecond // longer than TCP waits at least before it repeats a segment
	burstBytes = 128 << 10              // more than a superframe has
)

// compile checks a policy.
func (p *Policy) compile() (is policy, err error) {
	is = policy{Limit: bucket.Unlimited, Action: uint32(p.Action)}
	wrong := func(text string) (policy, error) {
		return policy{}, fmt.Errorf("policy %s %s: %s: %w", kinds[p.Kind], p.Name, text, cube.ErrInvalid)
	}
	if p.Kind == Elephant && !strings.EqualFold(p.Name, "any") {
		return wrong("the name of the ELEPHANT policy must be any")
	}
	switch p.Action {
	case Pass, Drop:
	case Mark:
		if p.Mark == nil {
			return wrong("MARK needs a mark")
		}
		is.Value = *p.Mark
	case Redirect:
		if p.Output == nil {
			return wrong("REDIRECT needs an output")
		}
		is.Value = uint32(*p.Output)
	case Mirror:
		if p.Output == nil {
			return wrong("MIRROR needs an output")
		}
		is.Value = uint32(*p.Output)
	case Limit:
		if p.Rate == nil {
			return wrong("LIMIT needs a rate")
		}
		bytes := uint64(*p.Rate) * kilobit
		burst := min(max(bytes*uint64(burstTime)/uint64(time.Second), burstBytes), math.MaxUint32)
		if is.Limit, err = bucket.New(bytes, time.Second, uint32(burst)); err != nil {
			return wrong(err.Error())
		}
	}
	return is, nil
}

// checkOutput finds out whether programs can send packets, or copies of them, to a policy's output.
func (c *Config) checkOutput(p *Policy, typ cube.Type) error {
	if p.Action != Mirror && p.Action != Redirect {
		return nil
	}
	wrong := func(format string, args ...any) error {
		return fmt.Errorf("policy %s %s: %s: %w", kinds[p.Kind], p.Name, fmt.Sprintf(format, args...), cube.ErrInvalid)
	}
	if p.Action == Mirror && typ.Hook() != cube.TC {
		return wrong("MIRROR needs a cube of type TC: XDP cannot copy a packet and let it continue")
	}
	at := slices.IndexFunc(c.Outputs, func(o cube.Output) bool { return o.Number == *p.Output })
	if at < 0 {
		return wrong("the cube has no output %d", *p.Output)
	}
	if to := c.Outputs[at].To; p.Action == Mirror && strings.Contains(to, ":") {
		return wrong("MIRROR copies packets to netdevs, and output %d leads to port %s", *p.Output, to)
	}
	return nil
}

// check returns the policies in the form of programs, by class.
func (c *Config) check(typ cube.Type) (map[classKey]policy, error) {
	all := map[classKey]policy{}
	for i := range c.Policies {
		p := &c.Policies[i]
		is, err := p.compile()
		if err == nil {
			err = c.checkOutput(p, typ)
		}
		if err != nil {
			return nil, err
		}
		if _, twice := all[p.key()]; twice {
			return nil, fmt.Errorf("policy %s %s: the name is already used (names are case-insensitive): %w", kinds[p.Kind], p.Name, cube.ErrInvalid)
		}
		all[p.key()] = is
	}
	return all, nil
}
