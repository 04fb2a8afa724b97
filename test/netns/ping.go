// SPDX-License-Identifier: Apache-2.0

// Echo requests of a host, none of which may be lost. The program ping waits for the last answers no longer than for the
// ones before, whatever it is told: on a busy machine it would call those lost that are late.

package netns

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/polycube/polycube/test/pace"
)

// PingOptions of Node.Ping; what is zero has the default.
type PingOptions struct {
	Count    int           // echo requests; 1
	Size     int           // payload bytes; 56
	Timeout  time.Duration // for the answer of the last one, in whole seconds; 10 s
	Interval time.Duration // between two requests; 10 ms
	// DontFragment sets the bit that forbids routers to fragment.
	DontFragment bool
}

// Brief is for one echo request that is not to be answered, or that is sent again until it is.
var Brief = PingOptions{Timeout: time.Second}

// Ping sends echo requests and returns an error unless all are answered.
func (n *Node) Ping(ip string, opts ...PingOptions) error {
	wait, err := n.StartPing(ip, opts...)
	if err != nil {
		return err
	}
	return wait()
}

// Reaches sends echo requests, again and again until they are answered, for a time. That a neighbour is there in time for
// the first ones cannot be relied on: a router gives up after three seconds, which is short on a busy machine.
func (n *Node) Reaches(t testing.TB, within time.Duration, ip string, opts ...PingOptions) {
	t.Helper()
	ping := Brief
	if len(opts) > 0 {
		ping = opts[0]
		ping.Timeout = max(ping.Timeout, time.Second)
	}
	Eventually(t, within, func() error { return n.Ping(ip, ping) })
}

// StartPing begins to send echo requests. The function that it returns waits for the end, and returns an error unless all
// were answered.
func (n *Node) StartPing(ip string, opts ...PingOptions) (wait func() error, err error) {
	var o PingOptions
	if len(opts) > 1 {
		return nil, errors.New("ping: give options once")
	}
	if len(opts) == 1 {
		o = opts[0]
	}
	o = o.filled()
	cmd := n.Command("ping", append(o.arguments(), ip)...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("ping %s from %s: %w", ip, n.Outer, err)
	}
	return func() error {
		err := cmd.Wait()
		if lost := o.lost(out.String()); lost > 0 {
			err = fmt.Errorf("answers are missing: %d of %d", lost, o.Count)
		}
		if err != nil {
			return fmt.Errorf("ping %s from %s: %w: %s", ip, n.Outer, err, strings.TrimSpace(out.String()))
		}
		return nil
	}, nil
}

// filled are the options with their defaults.
func (o PingOptions) filled() PingOptions {
	o.Count = max(o.Count, 1)
	if o.Timeout == 0 {
		o.Timeout = pace.Stretch(10 * time.Second)
	}
	if o.Interval == 0 {
		o.Interval = 10 * time.Millisecond
	}
	o.Timeout = max(o.Timeout, time.Second)
	return o
}

// busyInterval is what may pass between two requests on a machine that has other work, whatever was asked for.
const busyInterval = 100 * time.Millisecond

// arguments are those of the program. One request waits for its answer. Of more, a limit to the whole has the program go
// on until so many are answered: what it sends beyond Count tells that some are late, or lost.
func (o PingOptions) arguments() []string {
	limit, seconds := "-W", o.Timeout
	if o.Count > 1 {
		limit, seconds = "-w", o.Timeout+time.Duration(o.Count)*max(o.Interval, busyInterval)
	}
	args := []string{"-n", "-c", strconv.Itoa(o.Count), "-i", fmt.Sprint(o.Interval.Seconds()), limit, strconv.Itoa(int(seconds.Seconds()))}
	if o.Size > 0 {
		args = append(args, "-s", strconv.Itoa(o.Size))
	}
	if o.DontFragment {
		args = append(args, "-M", "do")
	}
	return args
}

var answered = regexp.MustCompile(`(?m)^\d+ bytes from .* icmp_seq=(\d+) `)

// lost is how many of the first Count requests have no answer.
func (o PingOptions) lost(out string) int {
	seen := map[int]bool{}
	for _, m := range answered.FindAllStringSubmatch(out, -1) {
		if seq, err := strconv.Atoi(m[1]); err == nil && seq <= o.Count {
			seen[seq] = true
		}
	}
	return o.Count - len(seen)
}
