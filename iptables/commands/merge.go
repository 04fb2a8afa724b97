// SPDX-License-Identifier: Apache-2.0

package commands

// What -L -v has printed elsewhere, with packets that were counted here.

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// The lines of -L -v -x: the head of a chain, with its policy or not, and a rule.
var (
	headLine   = regexp.MustCompile(`^Chain (\S+) \((policy \S+ )?(\d+) (packets|references)(, (\d+) bytes)?\)$`)
	columnLine = regexp.MustCompile(`^ *pkts +bytes (target .*)$`)
	ruleLine   = regexp.MustCompile(`^ *(\d+) +(\d+) (.*)$`)
)

// errListing is about text that -L -v -x does not print.
var errListing = errors.New("this is not what -L -v -x prints")

// Listing is what -L -v -n prints.
type Listing struct {
	// Text is the listing, Exact what it is with -x.
	Text, Exact string
	// Rules is the number of rules by chain.
	Rules map[string]int
}

// Merge reads what the iptables of a host has printed for -L -v -n -x, and returns the listings with further counters: those of a rule
// by its chain and its number from 1, and of a policy by 0.
func Merge(listing string, further func(chain string, number int) Counts) (Listing, error) {
	out := Listing{Rules: map[string]int{}}
	var text, exact strings.Builder
	chain := ""
	for _, line := range strings.Split(strings.TrimRight(listing, "\n"), "\n") {
		both, short, err := out.line(line, &chain, further)
		if err != nil {
			return Listing{}, err
		}
		fmt.Fprintln(&exact, both)
		fmt.Fprintln(&text, short)
	}
	out.Text, out.Exact = text.String(), exact.String()
	return out, nil
}

// line returns a line, with exact numbers and without.
func (l *Listing) line(line string, chain *string, further func(chain string, number int) Counts) (exact, short string, err error) {
	if line == "" {
		return "", "", nil
	}
	if m := headLine.FindStringSubmatch(line); m != nil {
		*chain = m[1]
		l.Rules[m[1]] = 0
		if m[2] == "" || m[6] == "" {
			return line, line, nil
		}
		n, err := sum(m[3], m[6], further(m[1], 0))
		head := func(exact bool) string {
			return fmt.Sprintf("Chain %s (%s%s packets, %s bytes)", m[1], m[2], number(n.Packets, exact), number(n.Bytes, exact))
		}
		return head(true), head(false), err
	}
	if *chain == "" {
		return "", "", fmt.Errorf("%w: %.100q", errListing, line)
	}
	if m := columnLine.FindStringSubmatch(line); m != nil {
		return fmt.Sprintf("%8s %10s %s", "pkts", "bytes", m[1]), fmt.Sprintf("%5s %5s %s", "pkts", "bytes", m[1]), nil
	}
	m := ruleLine.FindStringSubmatch(line)
	if m == nil {
		return "", "", fmt.Errorf("%w: %.100q", errListing, line)
	}
	l.Rules[*chain]++
	n, err := sum(m[1], m[2], further(*chain, l.Rules[*chain]))
	return fmt.Sprintf("%8d %8d %s", n.Packets, n.Bytes, m[3]), fmt.Sprintf("%5s %5s %s", number(n.Packets, false), number(n.Bytes, false), m[3]), err
}

// sum adds counters to those of a text.
func sum(packets, bytes string, further Counts) (Counts, error) {
	p, errPackets := strconv.ParseUint(packets, 10, 64)
	b, errBytes := strconv.ParseUint(bytes, 10, 64)
	if err := errors.Join(errPackets, errBytes); err != nil {
		return Counts{}, fmt.Errorf("%w: %w", errListing, err)
	}
	return Counts{p + further.Packets, b + further.Bytes}, nil
}
