// SPDX-License-Identifier: Apache-2.0

// Echo requests of a host, none of which may be lost. The program ping does not wait longer for the last replies than
// for earlier ones, whatever its options: on a busy machine it would report late replies as lost.

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

// PingOptions are the options of Node.Ping; zero values are the defaults.
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

// Reaches repeats echo requests until they are answered, for a time. A neighbour may not be resolved in time for the
// first ones: a router gives up after three seconds, which is short on a busy machine.
func (n *Node) Reaches(t testing.TB, within time.Duration, ip string, opts ...PingOptions) {
	t.Helper()
	ping := Brief
	if len(opts) > 0 {
		ping = opts[0]
		ping.Timeout = max(ping.Timeout, time.Second)
	}
	Eventually(t, within, func() error { return n.Ping(ip, ping) })
}

// StartPing starts to send echo requests. The returned function waits for the end, and returns an error unless all were
// answered.
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

// busyInterval is the minimum interval between two requests on a machine with other load.
const busyInterval = 100 * time.Millisecond

// arguments returns the arguments of ping. A single request waits for its reply. With more, a limit of the total time
// makes the program continue until that many are answered: requests beyond Count mean that some replies are late, or
// lost.
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

// lost returns how many of the first Count requests have no reply.
func (o PingOptions) lost(out string) int {
	seen := map[int]bool{}
	for _, m := range answered.FindAllStringSubmatch(out, -1) {
		if seq, err := strconv.Atoi(m[1]); err == nil && seq <= o.Count {
			seen[seq] = true
		}
	}
	return o.Count - len(seen)
}
