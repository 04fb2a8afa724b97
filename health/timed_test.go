// SPDX-License-Identifier: Apache-2.0

package health

import (
	"bufio"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pace"
)

// serversVariable makes this program serve that many ports instead of running tests, so that the CPU time of the tests'
// process is that of the checks.
const (
	serversVariable = "POLYCUBE_HEALTH_SERVERS"
	firstPort       = 10_000
)

func serveMany(count string) int {
	n, err := strconv.Atoi(count)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	for i := range n {
		is, err := net.Listen("tcp", net.JoinHostPort("", strconv.Itoa(firstPort+i)))
		if err != nil {
			fmt.Println(err)
			return 1
		}
		accept(is, func(c net.Conn) {
			for b := make([]byte, 1<<10); ; {
				if _, err := c.Read(b); err != nil {
					return
				}
				send(c, "HTTP/1.1 200 OK\r\nServer: test\r\nContent-Type: text/plain\r\nContent-Length: 3\r\n\r\nok\n")
			}
		})
	}
	fmt.Println("ready")
	drain(os.Stdin) // until the test ends
	return 0
}

// many starts servers in a process of their own.
func (l *lab) many(n int) {
	cmd := l.far.Command(os.Args[0])
	cmd.Env = append(os.Environ(), fmt.Sprint(serversVariable, "=", n))
	in, err := cmd.StdinPipe()
	if err != nil {
		l.t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		l.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() {
		in.Close()
		_ = cmd.Wait()
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		l.t.Fatalf("the servers say %q, %v", line, err)
	}
}

func processTime() time.Duration {
	var r unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &r); err != nil {
		panic(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// TestTimedAThousandServersEachSecond: checks of 1,000 servers each second take less than 5 % of a core. The thread's
// time includes what the kernel does for the packets, on both sides of a veth. Other load only makes the checks more
// expensive, so the cheapest of several periods counts.
func TestTimedAThousandServersEachSecond(t *testing.T) {
	const servers, limit = 1000, 5.0
	l := newLabAlone(t)
	l.many(servers)
	for _, kind := range []Kind{TCP, HTTP, ICMP} {
		t.Run(fmt.Sprint(kind), func(t *testing.T) {
			l.start(Options{})
			for i := range servers {
				to := netip.AddrPortFrom(netip.MustParseAddr(serverIP), uint16(firstPort+i))
				l.set(fmt.Sprint(i), Check{Kind: kind, Target: to, Interval: time.Second, Jitter: 10})
			}
			netns.Eventually(t, patience, func() error {
				if s := l.checker.Stats(); s.Up != servers || s.Checks < 2*servers {
					return fmt.Errorf("%+v", s)
				}
				return nil
			})
			best := 100.0
			for deadline := time.Now().Add(pace.Stretch(time.Minute)); best >= limit && time.Now().Before(deadline); {
				best = min(best, l.share(t, 4*servers, servers))
			}
			if s := l.checker.Stats(); best >= limit || s.Failed > 0 || s.Skipped > 0 {
				t.Errorf("%.2f %% of a core, limit %.1f %%: %+v", best, limit, s)
			}
		})
	}
}

// share measures how much of a core that many checks take, in percent, and prints it. rate is how many there must be in
// a second.
func (l *lab) share(t *testing.T, number, rate uint64) float64 {
	begin, process, s := time.Now(), processTime(), l.checker.Stats()
	var end Stats
	netns.Eventually(t, patience, func() error {
		if end = l.checker.Stats(); end.Checks < s.Checks+number {
			return fmt.Errorf("%+v", end)
		}
		return nil
	})
	took, cpu, checks := time.Since(begin), end.CPU-s.CPU, end.Checks-s.Checks
	if float64(checks) < 0.9*float64(rate)*took.Seconds() {
		t.Fatalf("%d checks in %v", checks, took)
	}
	t.Logf("%d checks in %v: %.2f %% of a core, %v for each; with the rest of the process %.2f %%, %d were late", checks,
		took.Round(time.Millisecond), 100*cpu.Seconds()/took.Seconds(), cpu/time.Duration(checks),
		100*(processTime()-process).Seconds()/took.Seconds(), end.Late-s.Late)
	return 100 * cpu.Seconds() / took.Seconds()
}
