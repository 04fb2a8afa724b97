// SPDX-License-Identifier: Apache-2.0

// Package filter parses flow descriptions: the IPFilterRule of RFC 6733 4.3.1, as TS 29.212 5.4.2 restricts it. A flow
// description is always that of downlink packets: `permit out PROTOCOL from REMOTE [PORTS] to DEVICE [PORTS]`.
package filter

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/polycube/polycube/inet"
)

// ErrInvalid says that a text is not a flow description, or one that TS 29.212 5.4.2 excludes.
var ErrInvalid = errors.New("invalid flow description")

// MaxPorts is the maximum number of ports and ranges in a list.
const MaxPorts = 32

// Rule is a parsed flow description. A nil pointer and an empty list match all.
type Rule struct {
	Protocol *uint8
	// Remote is the other end of the device, Device the addresses of the device: nil if the text says any or assigned.
	Remote, Device           *netip.Prefix
	RemotePorts, DevicePorts []inet.Ports
}

// words reads a text word by word.
type words []string

func (w *words) next() string {
	if len(*w) == 0 {
		return ""
	}
	first := (*w)[0]
	*w = (*w)[1:]
	return first
}

func (w *words) expect(word string) error {
	if got := w.next(); !strings.EqualFold(got, word) {
		return fmt.Errorf("%q instead of %q: %w", got, word, ErrInvalid)
	}
	return nil
}

// Parse parses a flow description.
func Parse(text string) (Rule, error) {
	w := words(strings.Fields(text))
	var r Rule
	var err error
	for _, word := range []string{"permit", "out"} {
		if err := w.expect(word); err != nil {
			return Rule{}, err
		}
	}
	if r.Protocol, err = protocol(w.next()); err != nil {
		return Rule{}, err
	}
	if err := w.expect("from"); err != nil {
		return Rule{}, err
	}
	if r.Remote, r.RemotePorts, err = end(&w, false); err != nil {
		return Rule{}, err
	}
	if err := w.expect("to"); err != nil {
		return Rule{}, err
	}
	if r.Device, r.DevicePorts, err = end(&w, true); err != nil {
		return Rule{}, err
	}
	if len(w) > 0 {
		return Rule{}, fmt.Errorf("option %q: %w", w[0], ErrInvalid)
	}
	if r.Remote != nil && r.Device != nil && r.Remote.Addr().Is4() != r.Device.Addr().Is4() {
		return Rule{}, fmt.Errorf("addresses of two families: %w", ErrInvalid)
	}
	return r, nil
}

func protocol(word string) (*uint8, error) {
	if strings.EqualFold(word, "ip") {
		return nil, nil
	}
	number, err := strconv.ParseUint(word, 10, 8)
	if err != nil {
		return nil, fmt.Errorf("protocol %q: %w", word, ErrInvalid)
	}
	is := uint8(number)
	return &is, nil
}

// end parses an address and its ports. Only the device has assigned addresses.
func end(w *words, device bool) (*netip.Prefix, []inet.Ports, error) {
	is, err := address(w.next(), device)
	if err != nil {
		return nil, nil, err
	}
	// Ports begin with a digit; what may follow instead is `to`, or nothing.
	if len(*w) == 0 || (*w)[0][0] < '0' || (*w)[0][0] > '9' {
		return is, nil, nil
	}
	list, err := ports(w.next())
	return is, list, err
}

func address(word string, device bool) (*netip.Prefix, error) {
	if strings.EqualFold(word, "any") || device && strings.EqualFold(word, "assigned") {
		return nil, nil
	}
	if addr, err := netip.ParseAddr(word); err == nil && addr.Zone() == "" {
		is := netip.PrefixFrom(addr.Unmap(), addr.Unmap().BitLen())
		return &is, nil
	}
	is, err := netip.ParsePrefix(word)
	if err != nil || is.Addr().Is4In6() {
		return nil, fmt.Errorf("address %q: %w", word, ErrInvalid)
	}
	is = is.Masked()
	return &is, nil
}

func ports(word string) ([]inet.Ports, error) {
	parts := strings.Split(word, ",")
	if len(parts) > MaxPorts {
		return nil, fmt.Errorf("%d ports, the limit is %d: %w", len(parts), MaxPorts, ErrInvalid)
	}
	list := make([]inet.Ports, 0, len(parts))
	for _, part := range parts {
		first, last, ranged := strings.Cut(part, "-")
		if !ranged {
			last = first
		}
		from, ok := inet.ParsePort(first)
		to, also := inet.ParsePort(last)
		if !ok || !also || from > to {
			return nil, fmt.Errorf("ports %q: %w", part, ErrInvalid)
		}
		list = append(list, inet.Ports{First: from, Last: to})
	}
	return list, nil
}
