// SPDX-License-Identifier: Apache-2.0

package haproxy

// Values: addresses with ports, and times.

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// Ports are a port, or a range of ports. 0 is no port.
type Ports struct{ First, Last uint16 }

// endpoint is an address as `bind` and `server` have it.
type endpoint struct {
	addr  netip.Addr // invalid: any
	ports Ports
	// relative says that the port is that of the client's connection plus offset; so it is without a port.
	relative bool
	offset   int
}

// families are the prefixes of addresses, with the family that they ask for; 0: either.
var families = map[string]int{"ipv4@": 4, "ipv6@": 6, "tcp@": 0, "tcp4@": 4, "tcp6@": 6}

// parseEndpoint parses an address of TCP that does not depend on anything else. The error says why one does.
func parseEndpoint(text string) (e endpoint, err error) {
	family := 0
	if at := strings.Index(text, "@"); at >= 0 {
		is, ok := families[text[:at+1]]
		if !ok {
			return e, fmt.Errorf("%q is not a TCP address", printable(text[:at+1]))
		}
		family, text = is, text[at+1:]
	}
	if strings.HasPrefix(text, "/") {
		return e, errors.New("a UNIX socket is not a TCP address")
	}
	host, port := text, ""
	if colon := strings.LastIndex(text, ":"); colon >= 0 && !strings.HasSuffix(text, "]") {
		host, port = text[:colon], text[colon+1:]
	}
	if err := e.parsePort(port); err != nil {
		return e, err
	}
	if inner, ok := strings.CutPrefix(host, "["); ok {
		if host, ok = strings.CutSuffix(inner, "]"); !ok {
			return e, fmt.Errorf("address %q has no closing bracket", printable(text))
		}
	}
	if host == "" || host == "*" {
		return e, nil
	}
	if e.addr, err = netip.ParseAddr(host); err != nil {
		return e, fmt.Errorf("%q is not an IP address, and the address of a host name may change", printable(host))
	}
	if e.addr.Zone() != "" {
		return e, fmt.Errorf("address %q has a zone", printable(host))
	}
	if family == 4 && !e.addr.Is4() || family == 6 && !e.addr.Is6() {
		return e, fmt.Errorf("address %s is not an IPv%d address", e.addr, family)
	}
	if e.addr = e.addr.Unmap(); e.addr.IsUnspecified() {
		e.addr = netip.Addr{}
	}
	return e, nil
}

// parsePort parses a port, a range, or a port relative to that of the client's connection.
func (e *endpoint) parsePort(text string) error {
	if text == "" || text[0] == '+' || text[0] == '-' {
		e.relative = true
		if text == "" {
			return nil
		}
		offset, err := strconv.Atoi(text)
		if err != nil || offset < -65535 || offset > 65535 {
			return fmt.Errorf("%q is not a port", printable(text))
		}
		e.offset = offset
		return nil
	}
	first, last, isRange := strings.Cut(text, "-")
	if !isRange {
		last = first
	}
	a, errA := strconv.ParseUint(first, 10, 16)
	b, errB := strconv.ParseUint(last, 10, 16)
	if errA != nil || errB != nil || a == 0 || b < a {
		return fmt.Errorf("%q is neither a port nor a port range", printable(text))
	}
	e.ports = Ports{uint16(a), uint16(b)}
	return nil
}

// units are those of times.
var units = []struct {
	name string
	is   time.Duration
}{{"us", time.Microsecond}, {"ms", time.Millisecond}, {"s", time.Second}, {"m", time.Minute}, {"h", time.Hour}, {"d", 24 * time.Hour}, {"", time.Millisecond}}

// parseTime parses a time: a number with a unit, milliseconds by default.
func parseTime(text string) (time.Duration, error) {
	for _, unit := range units {
		number, ok := strings.CutSuffix(text, unit.name)
		if !ok {
			continue
		}
		n, err := strconv.ParseUint(number, 10, 63)
		if err != nil {
			break
		}
		if most := time.Duration(math.MaxInt32) * time.Millisecond; n > uint64(most/unit.is) {
			return 0, fmt.Errorf("time %q is too long", printable(text))
		}
		return time.Duration(n) * unit.is, nil
	}
	return 0, fmt.Errorf("%q is not a time", printable(text))
}

// parseCount parses a number within limits.
func parseCount(text string, least, most int) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > most {
		return 0, fmt.Errorf("%q is not a number from %d to %d", printable(text), least, most)
	}
	return n, nil
}
