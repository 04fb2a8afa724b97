// SPDX-License-Identifier: Apache-2.0

package language

// Targets other than those of NAT.

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Verdict is -j ACCEPT, DROP or RETURN.
type Verdict string

// Jump is -j or -g to a user-defined chain.
type Jump struct {
	Chain string
	// Goto is -g: the chain returns to where this one would have returned.
	Goto bool
}

// Reject is -j REJECT.
type Reject struct {
	// With is the answer by its full name, such as icmp-port-unreachable, icmp6-no-route or tcp-reset.
	With string
}

// Log is -j LOG.
type Log struct {
	Prefix string
	// Level is from 0 emerg to 7 debug, 4 warning if it was not given.
	Level                                              uint8
	TCPSequence, TCPOptions, IPOptions, UID, MACDecode bool
}

// NFLog is -j NFLOG.
type NFLog struct {
	Prefix string
	Group  uint16
	// Size is how many bytes of a packet are sent; all if HasSize is not set.
	Size      uint32
	HasSize   bool
	Threshold uint16
}

// SetMark is -j MARK: the mark becomes (mark AND NOT Mask) XOR Value.
type SetMark struct{ Value, Mask uint32 }

// ModifySet is -j SET. Add or Del is nil if it was not given.
type ModifySet struct {
	Add, Del *Set
	// Exist resets the timeout of an entry that is in the set.
	Exist bool
	// Timeout is in seconds, valid if HasTimeout is set.
	Timeout    uint32
	HasTimeout bool
}

// NoTrack is -j NOTRACK, or -j CT --notrack.
type NoTrack struct{ CT bool }

// Name returns ACCEPT, DROP or RETURN.
func (v Verdict) Name() string { return string(v) }

func (Verdict) String() string { return "" }

func newVerdict(name string) *builder {
	return &builder{
		name: name,
		finish: func(c *context) error {
			if name == "DROP" && c.table == "nat" {
				return errors.New(`the table nat is not intended for filtering`)
			}
			return nil
		},
		target: func() Target { return Verdict(name) },
	}
}

// Name returns the chain.
func (j Jump) Name() string { return j.Chain }

func (Jump) String() string { return "" }

// rejectNames are the full and the short names of the answers.
var rejectNames = map[Family]map[string]string{
	IPv4: {
		"net-unreach": "icmp-net-unreachable", "host-unreach": "icmp-host-unreachable",
		"proto-unreach": "icmp-proto-unreachable", "port-unreach": "icmp-port-unreachable",
		"net-prohib": "icmp-net-prohibited", "host-prohib": "icmp-host-prohibited", "tcp-rst": "tcp-reset",
		"admin-prohib": "icmp-admin-prohibited",
	},
	IPv6: {
		"no-route": "icmp6-no-route", "adm-prohibited": "icmp6-adm-prohibited",
		"addr-unreach": "icmp6-addr-unreachable", "port-unreach": "icmp6-port-unreachable",
		"policy-fail": "icmp6-policy-fail", "reject-route": "icmp6-reject-route", "tcp-reset": "tcp-reset",
	},
}

func newReject(family Family) *builder {
	m := Reject{With: "icmp-port-unreachable"}
	if family == IPv6 {
		m.With = "icmp6-port-unreachable"
	}
	return &builder{
		name: "REJECT",
		options: []option{{names: []string{"--reject-with"}, arity: oneValue, set: func(v value) error {
			for short, full := range rejectNames[family] {
				if text := strings.ToLower(v.text); text == short || text == full {
					m.With = full
					return nil
				}
			}
			return fmt.Errorf("unknown reject type %q", v.text)
		}}},
		finish: func(c *context) error {
			if m.With == "tcp-reset" && !c.protocolIn(protoTCP) {
				return errors.New("--reject-with tcp-reset requires -p tcp")
			}
			return firstOf(c.inTable("the target", "filter"), c.only("the target", "INPUT", "FORWARD", "OUTPUT"))
		},
		target: func() Target { return m },
	}
}

// Name returns REJECT.
func (Reject) Name() string { return "REJECT" }

func (m Reject) String() string { return "--reject-with " + m.With }

// logLevels are the names of the levels that iptables knows.
var logLevels = map[string]uint8{"emerg": 0, "panic": 0, "alert": 1, "crit": 2, "error": 3, "warning": 4, "notice": 5,
	"info": 6, "debug": 7}

func newLog(Family) *builder {
	m := Log{Level: 4}
	return &builder{
		name: "LOG",
		options: []option{
			{names: []string{"--log-level"}, arity: oneValue, set: func(v value) error {
				level, named := logLevels[v.text]
				n, ok := decimal(v.text, 7)
				if !named && !ok {
					return fmt.Errorf("log level %q unknown: it is from 0 to 7, or a name such as warning", v.text)
				}
				if m.Level = level; !named {
					m.Level = uint8(n)
				}
				return nil
			}},
			prefixOption(&m.Prefix, "--log-prefix", 29),
			flag(&m.TCPSequence, "--log-tcp-sequence"), flag(&m.TCPOptions, "--log-tcp-options"),
			flag(&m.IPOptions, "--log-ip-options"), flag(&m.UID, "--log-uid"), flag(&m.MACDecode, "--log-macdecode"),
		},
		target: func() Target { return m },
	}
}

// prefixOption is an option with the text before a message.
func prefixOption(to *string, name string, limit int) option {
	return option{names: []string{name}, arity: oneValue, set: func(v value) (err error) {
		if *to, err = v.line(limit); err == nil && *to == "" {
			return v.bad("it is empty")
		}
		return err
	}}
}

// Name returns LOG.
func (Log) Name() string { return "LOG" }

func (m Log) String() string {
	return joined(when(m.Prefix != "", "--log-prefix "+quoted(m.Prefix)),
		when(m.Level != 4, "--log-level "+itoa(m.Level)), when(m.TCPSequence, "--log-tcp-sequence"),
		when(m.TCPOptions, "--log-tcp-options"), when(m.IPOptions, "--log-ip-options"), when(m.UID, "--log-uid"),
		when(m.MACDecode, "--log-macdecode"))
}

func newNFLog(Family) *builder {
	var m NFLog
	number16 := func(to *uint16, name string) option {
		return option{names: []string{name}, arity: oneValue, set: func(v value) error {
			n, err := v.numberOf(0, 65535)
			*to = uint16(n)
			return err
		}}
	}
	return &builder{
		name: "NFLOG",
		options: []option{
			number16(&m.Group, "--nflog-group"),
			prefixOption(&m.Prefix, "--nflog-prefix", 63),
			{names: []string{"--nflog-range"}, arity: oneValue, set: func(v value) error {
				return fmt.Errorf("option %q has never worked: use --nflog-size", v.option)
			}},
			{names: []string{"--nflog-size"}, arity: oneValue, set: func(v value) error {
				n, err := v.numberOf(0, math.MaxUint32)
				m.Size, m.HasSize = uint32(n), true
				return err
			}},
			number16(&m.Threshold, "--nflog-threshold"),
		},
		target: func() Target { return m },
	}
}

// Name returns NFLOG.
func (NFLog) Name() string { return "NFLOG" }

func (m NFLog) String() string {
	return joined(when(m.Prefix != "", "--nflog-prefix "+quoted(m.Prefix)),
		when(m.Group != 0, "--nflog-group "+itoa(m.Group)), when(m.HasSize, "--nflog-size "+itoa(m.Size)),
		when(m.Threshold != 0, "--nflog-threshold "+itoa(m.Threshold)))
}

var markOptions = []string{"--set-mark", "--set-xmark", "--or-mark", "--and-mark", "--xor-mark"}

func newSetMark(Family) *builder {
	var m SetMark
	b := &builder{name: "MARK"}
	set := func(name string, masked bool, of func(n, mask uint32) SetMark) option {
		return option{names: []string{name}, arity: oneValue, excludes: markOptions, set: func(v value) error {
			n, mask, err := v.mark()
			if err == nil && !masked && strings.Contains(v.text, "/") {
				err = v.bad("it is a number of 32 bits")
			}
			m = of(n, mask)
			return err
		}}
	}
	b.options = []option{
		set("--set-mark", true, func(n, mask uint32) SetMark { return SetMark{n, n | mask} }),
		set("--set-xmark", true, func(n, mask uint32) SetMark { return SetMark{n, mask} }),
		set("--or-mark", false, func(n, _ uint32) SetMark { return SetMark{n, n} }),
		set("--and-mark", false, func(n, _ uint32) SetMark { return SetMark{0, ^n} }),
		set("--xor-mark", false, func(n, _ uint32) SetMark { return SetMark{n, 0} }),
	}
	b.finish = func(*context) error {
		if len(b.seen) == 0 {
			return fmt.Errorf("one of %s must be specified", strings.Join(markOptions, ", "))
		}
		return nil
	}
	b.target = func() Target { return m }
	return b
}

// Name returns MARK.
func (SetMark) Name() string { return "MARK" }

func (m SetMark) String() string { return fmt.Sprintf("--set-xmark 0x%x/0x%x", m.Value, m.Mask) }

func newModifySet(Family) *builder {
	var m ModifySet
	b := &builder{name: "SET"}
	of := func(to **Set, name string) option {
		return option{names: []string{name}, arity: twoValues, set: func(v value) error {
			dirs, err := setDirs(v.text, v.second)
			*to = &Set{Set: v.text, Dirs: dirs}
			return err
		}}
	}
	b.options = []option{
		of(&m.Add, "--add-set"), of(&m.Del, "--del-set"), flag(&m.Exist, "--exist"),
		{names: []string{"--timeout"}, arity: oneValue, set: func(v value) error {
			n, err := v.numberOf(0, math.MaxUint32-1)
			m.Timeout, m.HasTimeout = uint32(n), true
			return err
		}},
	}
	b.finish = func(*context) error {
		switch {
		case m.Add == nil && m.Del == nil:
			return errors.New("--add-set or --del-set must be specified")
		case m.Add == nil && (m.Exist || m.HasTimeout):
			return errors.New("--exist and --timeout need --add-set")
		}
		return nil
	}
	b.target = func() Target { return m }
	return b
}

// Name returns SET.
func (ModifySet) Name() string { return "SET" }

func (m ModifySet) String() string {
	text := func(name string, s *Set) string {
		if s == nil {
			return ""
		}
		return name + " " + s.Set + " " + strings.Join(s.Dirs, ",")
	}
	return joined(text("--add-set", m.Add), when(m.Exist, "--exist"),
		when(m.HasTimeout, "--timeout "+itoa(m.Timeout)), text("--del-set", m.Del))
}

func newNoTrack(Family) *builder { return noTrack("NOTRACK") }

func newCT(Family) *builder { return noTrack("CT") }

func noTrack(name string) *builder {
	m := NoTrack{CT: name == "CT"}
	b := &builder{name: name}
	if m.CT {
		b.required = "--notrack"
		b.options = []option{{names: []string{"--notrack"}, set: func(value) error { return nil }}}
	}
	b.finish = func(c *context) error {
		return firstOf(c.inTable("the target", "raw"), c.only("the target", "PREROUTING", "OUTPUT"))
	}
	b.target = func() Target { return m }
	return b
}

// Name returns NOTRACK or CT.
func (m NoTrack) Name() string {
	if m.CT {
		return "CT"
	}
	return "NOTRACK"
}

func (m NoTrack) String() string { return when(m.CT, "--notrack") }

func (Verdict) target()   {}
func (Jump) target()      {}
func (Reject) target()    {}
func (Log) target()       {}
func (NFLog) target()     {}
func (SetMark) target()   {}
func (ModifySet) target() {}
func (NoTrack) target()   {}

// verdicts are the targets without options.
var verdicts = []string{"ACCEPT", "DROP", "RETURN"}

func isVerdict(name string) bool { return slices.Contains(verdicts, name) }
