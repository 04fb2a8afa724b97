// SPDX-License-Identifier: Apache-2.0

package feedback

// The agent-check protocol of HAProxy: a TCP connection on which the agent sends one line of words.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// maxLine is how long the line of an agent may be.
const maxLine = 512

// Demand is the line of an agent: what it does not say stays as it was said before.
type Demand struct {
	// Percent of the configured weight; negative if it says none.
	Percent float64
	// Admin is ready, drain or maint; Up is up, down, failed or stopped; empty if it says none.
	Admin, Up string
	// Reason is what follows a #.
	Reason string
}

// demands is what an agent has said so far.
type demands struct {
	percent   float64
	hasWeight bool
	admin, up string
	why       string
}

func (d *demands) add(says *Demand) {
	if says.Percent >= 0 {
		d.percent, d.hasWeight = says.Percent, true
	}
	if says.Admin != "" {
		d.admin = says.Admin
	}
	if says.Up != "" {
		d.up = says.Up
	}
	d.why = says.Reason
}

// refuses reports the word that says that the server wants no new sessions.
func (d *demands) refuses() string {
	switch {
	case d.admin == "drain", d.admin == "maint":
		return d.admin
	case d.up != "" && d.up != "up":
		return d.up
	}
	return ""
}

// share returns the share of the configured weight that the server is to have.
func (d *demands) share() float64 {
	if d.refuses() != "" {
		return 0
	}
	if !d.hasWeight {
		return 1
	}
	return d.percent / 100
}

// reason says why a server gets no new sessions; empty if it does.
func (d *demands) reason() string {
	word := d.refuses()
	if word == "" {
		return ""
	}
	if d.why == "" {
		return "the agent says " + word
	}
	return fmt.Sprintf("the agent says %s: %s", word, d.why)
}

// agent is a collector.
type agent struct{ at netip.AddrPort }

func (a *agent) poll(ctx context.Context) (Reading, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", a.at.String())
	if err != nil {
		return Reading{}, plain(err)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })() // it ends readLine
	line, err := readLine(conn)
	switch {
	case ctx.Err() != nil:
		return Reading{}, errLate
	case err != nil:
		return Reading{}, err
	}
	says, err := ParseAgent(line)
	return Reading{Says: says}, err
}

// readLine reads up to the end of the line or of the connection.
func readLine(from io.Reader) (string, error) {
	var line []byte
	buffer := make([]byte, maxLine+1)
	for {
		n, err := from.Read(buffer[:maxLine+1-len(line)])
		line = append(line, buffer[:n]...)
		if end := bytes.IndexAny(line, "\r\n\x00"); end >= 0 {
			return string(line[:end]), nil
		}
		switch {
		case len(line) > maxLine:
			return "", fmt.Errorf("the line of the agent is longer than %d bytes", maxLine)
		case errors.Is(err, io.EOF):
			return string(line), nil
		case err != nil:
			return "", plain(err)
		}
	}
}

// ParseAgent parses the line of an agent: words separated by blanks, tabs or commas, in any case. Connection limits (maxconn:N)
// are accepted and have no effect.
func ParseAgent(line string) (*Demand, error) {
	line, why, _ := strings.Cut(line, "#")
	says := &Demand{Percent: -1, Reason: printable(strings.TrimSpace(why))}
	words := strings.FieldsFunc(line, func(r rune) bool { return r == ' ' || r == '\t' || r == ',' })
	if len(words) == 0 {
		return nil, errors.New("the agent's line has no word")
	}
	for _, word := range words {
		word = strings.ToLower(word)
		number, isPercent := strings.CutSuffix(word, "%")
		limit, isLimit := strings.CutPrefix(word, "maxconn:")
		switch {
		case isPercent:
			percent, err := strconv.ParseUint(number, 10, 16)
			if err != nil || percent > 10000 {
				return nil, fmt.Errorf("the agent's line has the weight %q: want 0%% to 10000%%", printable(word))
			}
			says.Percent = float64(percent)
		case isLimit:
			if _, err := strconv.ParseUint(limit, 10, 31); err != nil {
				return nil, fmt.Errorf("the agent's line has %q: want maxconn:NUMBER", printable(word))
			}
		case word == "ready", word == "drain", word == "maint":
			says.Admin = word
		case word == "up", word == "down", word == "stopped":
			says.Up = word
		case word == "fail", word == "failed":
			says.Up = "failed"
		default:
			return nil, fmt.Errorf("the agent's line has the unknown word %q", printable(word))
		}
	}
	return says, nil
}

// printable is a text from outside, for a log or a terminal.
func printable(text string) string {
	const most = 80
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, text)
	return text[:min(len(text), most)]
}

// errLate is for agents that do not answer within the timeout.
var errLate = errors.New("no answer in time")

// plain is an error of the network without its addresses, which the state already has, and with a word for a deadline.
func plain(err error) error {
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return errLate
	}
	var op *net.OpError
	if errors.As(err, &op) && op.Err != nil {
		return op.Err
	}
	return err
}
