// SPDX-License-Identifier: Apache-2.0

package health

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pace"
	"github.com/polycube/polycube/test/pki"
)

// serversVariable makes this program serve that many ports instead of running tests, so that the CPU time of the tests'
// process is that of the checks.
const (
	serversVariable = "POLYCUBE_HEALTH_SERVERS"
	firstPort       = 10_000
	// certVariable and keyVariable, if set, are the files with which these servers speak TLS. They then close each
	// connection after one answer.
	certVariable = "POLYCUBE_HEALTH_CERT"
	keyVariable  = "POLYCUBE_HEALTH_KEY"
)

func serveMany(count string) int {
	n, err := strconv.Atoi(count)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	var secure *tls.Config
	if file := os.Getenv(certVariable); file != "" {
		cert, err := tls.LoadX509KeyPair(file, os.Getenv(keyVariable))
		if err != nil {
			fmt.Println(err)
			return 1
		}
		secure = &tls.Config{Certificates: []tls.Certificate{cert}}
	}
	for i := range n {
		is, err := net.Listen("tcp", net.JoinHostPort("", strconv.Itoa(firstPort+i)))
		if err != nil {
			fmt.Println(err)
			return 1
		}
		accept(is, func(c net.Conn) {
			for b := make([]byte, 1<<10); ; {
				if secure != nil {
					c = tls.Server(c, secure)
				}
				if _, err := c.Read(b); err != nil {
					return
				}
				if secure != nil {
					send(c, "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
					c.Close()
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
func (l *lab) many(n int, environment ...string) {
	cmd := l.far.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), fmt.Sprint(serversVariable, "=", n)), environment...)
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
	if pace.Slow() {
		t.Skip("the CPU is emulated, so its time says nothing")
	}
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

// TestTimedHandshakesDelayNoOtherChecks: servers close their TLS connection after each answer, so there are hundreds of
// handshakes each second, of which only one computes at a time. Checks without TLS continue, and those with TLS succeed, too:
// the time that they wait does not count.
func TestTimedHandshakesDelayNoOtherChecks(t *testing.T) {
	l := newLabAlone(t)
	l.start(Options{Handshakes: 1})
	cert, key := pki.Authority(t, "authority").Server(t).Write(t, t.TempDir(), "server")
	l.many(1, certVariable+"="+cert, keyVariable+"="+key)
	closing := netip.AddrPortFrom(netip.MustParseAddr(serverIP), firstPort)
	plain := l.web(text("ok"))
	const each = 200
	for i := range each {
		l.set(fmt.Sprint("tls", i), Check{Kind: HTTPS, Target: closing, SkipVerify: true, Interval: 850 * time.Millisecond, Timeout: 400 * time.Millisecond, Fall: 1})
	}
	for i, kind := range []Kind{TCP, HTTP, ICMP} {
		for j := range each {
			l.set(fmt.Sprint("plain", i, j), Check{Kind: kind, Target: plain.to, Interval: 2100 * time.Millisecond, Timeout: time.Second, Fall: 1})
		}
	}
	netns.Eventually(t, patience, func() error {
		if s := l.checker.Stats(); s.Handshakes < 10*each || s.Checks < 20*each || s.Unknown > 0 {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
	s := l.checker.Stats()
	t.Logf("%d handshakes, which waited %v for others, with %d checks, of which %d were late", s.Handshakes, s.HandshakesWaited, s.Checks, s.Late)
	for i := range 3 {
		for j := range each {
			if is, _ := l.checker.State(fmt.Sprint("plain", i, j)); is.Failed > 0 || is.Status != Up {
				t.Fatalf("a check without TLS failed: %+v", is)
			}
		}
	}
	if s.Failed > 0 || s.HandshakesWaited == 0 {
		t.Errorf("%+v", s)
	}
}

// TestTimedTooManyOpenFiles: the servers that cannot be checked do not go down for it, and are checked when there are
// descriptors again. It is not run with others, as the limit is that of the process.
func TestTimedTooManyOpenFiles(t *testing.T) {
	const servers = 40
	l := newLabAlone(t)
	w := l.web(text("ok"))
	var was unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &was))
	restore := func() { must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &was)) }
	defer restore()
	must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(openFiles(t) + servers/2), Max: was.Max}))
	for i := range servers {
		l.set(fmt.Sprint(i), quick(TCP, w.to))
	}
	netns.Eventually(t, patience, func() error {
		if s := l.checker.Stats(); s.Up == 0 || s.Unknown == 0 || s.Up+s.Unknown < servers || s.Skipped < 5*uint64(s.Unknown) {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
	last, _ := l.checker.State(fmt.Sprint(servers - 1))
	restore()
	if last.Status != Unknown || last.Error != "cannot check: open a socket: too many open files" || last.Checks > 0 {
		t.Errorf("%+v", last)
	}
	for i := range servers {
		l.becomes(fmt.Sprint(i), Up, "")
	}
}

// TestTimedTenThousandChecks: as many can be set, and what a change costs does not depend on how many there are.
func TestTimedTenThousandChecks(t *testing.T) {
	const servers, checks, some = 500, 10_000, 500
	l := newLabAlone(t)
	l.many(servers)
	heap := heapSize()
	to := func(i int) netip.AddrPort {
		return netip.AddrPortFrom(netip.MustParseAddr(serverIP), uint16(firstPort+i%servers))
	}
	cost := func(what string) time.Duration {
		best := time.Hour
		for range 5 {
			begin := time.Now()
			for i := range some {
				l.set(fmt.Sprint("other", i), Check{Kind: API})
			}
			for i := range some {
				l.set(fmt.Sprint("other", i), Check{Kind: TCP, Target: to(i), Interval: time.Minute})
			}
			for i := range some {
				l.checker.Remove(fmt.Sprint("other", i))
			}
			best = min(best, time.Since(begin)/(3*some))
		}
		t.Logf("%s: %v for each change", what, best)
		return best
	}
	few := cost("without others")
	kinds := []Kind{TCP, HTTP, ICMP}
	for i := range checks {
		l.set(fmt.Sprint(i), Check{Kind: kinds[i%len(kinds)], Target: to(i), Interval: 10 * time.Second, Jitter: 10, Rise: 1})
	}
	netns.Eventually(t, pace.Stretch(time.Minute), func() error {
		if s := l.checker.Stats(); s.Up != checks || s.Checks < 2*checks {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
	t.Logf("%d bytes of heap for each check", (heapSize()-heap)/checks)
	if many := cost("with 10,000 others"); many > 4*few {
		t.Errorf("a change takes %v with 10,000 others, %v without", many, few)
	}
	share := l.share(t, 4*checks/10, checks/10)
	t.Logf("%.2f %% of a core", share)
	if s := l.checker.Stats(); s.Up != checks {
		t.Errorf("%+v", s)
	}
}

func heapSize() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
