// SPDX-License-Identifier: Apache-2.0

package haproxy

// The lines `server` and `default-server`.

import (
	"fmt"
	"net/netip"
	"strings"
	"time"
)

// serverConf is what a line `server` says, with what `default-server` said before.
type serverConf struct {
	at       Position
	name     string
	endpoint endpoint
	weight   int
	disabled bool
	checks   bool
	check    checkConf
	agent    bool
	agents   agentConf
	// effects are parameters in effect that are not read, by their names.
	effects map[string]Reason
}

// checkConf is how a server is checked.
type checkConf struct {
	inter      time.Duration
	rise, fall int
	port       int
	addr       string
}

// agentConf is how the agent of a server is asked.
type agentConf struct {
	port  int
	inter time.Duration
	addr  netip.Addr
}

// newServerConf is a server before any line says otherwise: with HAProxy's defaults.
func newServerConf() serverConf {
	return serverConf{
		weight: 1, check: checkConf{inter: 2 * time.Second, rise: 2, fall: 3}, agents: agentConf{inter: 2 * time.Second}, effects: map[string]Reason{},
	}
}

// clone returns a server that inherits what default-server said.
func (s *serverConf) clone() serverConf {
	is := *s
	is.effects = map[string]Reason{}
	for name, r := range s.effects {
		is.effects[name] = r
	}
	return is
}

// parseServer reads a line `server`, after what default-server said.
func parseServer(l *line, base *serverConf) (s serverConf, err error) {
	s = base.clone()
	s.at, s.name = l.at, l.arg(1)
	if len(l.words) < 3 {
		return s, fmt.Errorf("server needs a name and an address")
	}
	if s.endpoint, err = parseEndpoint(l.arg(2)); err != nil {
		return s, fmt.Errorf("server %s: %w", printable(s.name), err)
	}
	switch {
	case !s.endpoint.addr.IsValid():
		return s, fmt.Errorf("server %s has no address", printable(s.name))
	case s.endpoint.ports.First != s.endpoint.ports.Last:
		return s, fmt.Errorf("server %s has several ports", printable(s.name))
	}
	return s, s.parameters(l, 3)
}

// parameters reads the parameters of a line, from a word on.
func (s *serverConf) parameters(l *line, n int) error {
	for n < len(l.words) {
		name := l.arg(n)
		n++
		taken, known, err := s.read(l, name, n)
		if err != nil {
			return fmt.Errorf("%s: %w", printable(name), err)
		}
		if known {
			n += taken
			continue
		}
		if s.negated(name) {
			continue
		}
		p, ok := serverParams[name]
		if !ok {
			return fmt.Errorf("%s: unknown server parameter", printable(name))
		}
		if n+p.values > len(l.words) {
			return fmt.Errorf("%s needs a value", name)
		}
		s.effects[name] = Reason{Position: l.at, Text: name + ": " + p.why, note: p.verdict != prevents, silent: p.verdict == harmless || p.verdict == onlyHTTP}
		n += p.values
	}
	return nil
}

// negated takes `no-NAME`, which ends what default-server began.
func (s *serverConf) negated(name string) bool {
	rest, ok := strings.CutPrefix(name, "no-")
	if !ok {
		return false
	}
	switch p, known := serverParams[rest]; {
	case rest == "check":
		s.checks = false
	case rest == "agent-check":
		s.agent = false
	case rest == "verifyhost", rest == "tls-tickets", strings.HasPrefix(rest, "ssl") || strings.HasPrefix(rest, "tlsv"):
		delete(s.effects, rest) // of TLS alone
	case known && p.values == 0:
		delete(s.effects, rest)
	default:
		return false
	}
	return true
}

// read reads a parameter that a takeover needs: its value, or values, begin at word n.
func (s *serverConf) read(l *line, name string, n int) (taken int, known bool, err error) {
	value := l.arg(n)
	taken, known = 1, true
	switch name {
	case "weight":
		s.weight, err = parseCount(value, 0, 256)
	case "inter":
		s.check.inter, err = parseInterval(value)
	case "rise":
		s.check.rise, err = parseCount(value, 1, 100)
	case "fall":
		s.check.fall, err = parseCount(value, 1, 100)
	case "port":
		s.check.port, err = parseCount(value, 1, 65535)
	case "addr":
		s.check.addr = value
	case "agent-port":
		s.agents.port, err = parseCount(value, 1, 65535)
	case "agent-inter":
		s.agents.inter, err = parseInterval(value)
	case "agent-addr":
		s.agents.addr, err = netip.ParseAddr(value)
	case "check", "agent-check", "disabled", "enabled":
		taken = 0
		switch name {
		case "check":
			s.checks = true
		case "agent-check":
			s.agent = true
		case "disabled", "enabled":
			s.disabled = name == "disabled"
		}
	default:
		return 0, false, nil
	}
	return taken, known, err
}

// parseInterval parses a time that is not 0.
func parseInterval(text string) (time.Duration, error) {
	d, err := parseTime(text)
	if err == nil && d == 0 {
		err = fmt.Errorf("time %q is 0", printable(text))
	}
	return d, err
}
