// SPDX-License-Identifier: Apache-2.0

package health

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/netns"
)

func newChecker(t *testing.T, o Options) *Checker {
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func TestStatesThatAnAPISets(t *testing.T) {
	var log changes
	c := newChecker(t, Options{Changed: log.changed})
	if err := c.Report("s", true, ""); !errors.Is(err, cube.ErrNotFound) || !errors.Is(err, ErrUnknown) {
		t.Error(err)
	}
	if err := c.Set("s", Check{Kind: API, Initial: Up}); err != nil {
		t.Fatal(err)
	}
	begin, _ := c.State("s")
	if begin.Status != Up || begin.Since.IsZero() {
		t.Errorf("%+v", begin)
	}
	for _, up := range []bool{true, false, false, true} {
		if err := c.Report("s", up, map[bool]string{false: "maintenance"}[up]); err != nil {
			t.Error(err)
		}
		is, _ := c.State("s")
		if (is.Status == Up) != up || (is.Error == "maintenance") == up {
			t.Errorf("reported %v: %+v", up, is)
		}
	}
	if is, _ := c.State("s"); is.Checks != 4 || is.Failed != 2 || is.Since == begin.Since {
		t.Errorf("%+v", is)
	}
	if err := c.Set("s", Check{Kind: TCP, Target: netip.MustParseAddrPort("127.0.0.1:1")}); err != nil {
		t.Error(err)
	}
	if err := c.Report("s", true, ""); !errors.Is(err, cube.ErrInvalid) {
		t.Error(err)
	}
}

// TestACallbackThatIsSlow: no change of an id is reported out of order, the last call has the last state, and none
// follows Remove.
func TestACallbackThatIsSlow(t *testing.T) {
	var log changes
	enter, leave := make(chan string), make(chan bool)
	c := newChecker(t, Options{Changed: func(id string, is State) {
		enter <- id
		<-leave
		log.changed(id, is)
	}})
	for _, id := range []string{"a", "b", "c"} {
		if err := c.Set(id, Check{Kind: API}); err != nil {
			t.Fatal(err)
		}
	}
	must(t, c.Report("a", true, ""))
	<-enter
	for i := range 5 {
		must(t, c.Report("a", i%2 == 1, ""))
		must(t, c.Report("b", i%2 == 0, ""))
		must(t, c.Report("c", true, ""))
	}
	c.Remove("c")
	if _, ok := c.State("c"); ok {
		t.Error("a removed id has a state")
	}
	for range 2 {
		leave <- true
		<-enter
	}
	leave <- true
	want := []string{"a UP", "a DOWN", "b UP"}
	netns.Eventually(t, patience, func() error {
		if got := log.list(); !slices.Equal(got, want) {
			return fmt.Errorf("%q, want %q", got, want)
		}
		return nil
	})
}

func TestAClosedChecker(t *testing.T) {
	c := newChecker(t, Options{})
	must(t, c.Set("s", Check{Kind: API}))
	if err := errors.Join(c.Close(), c.Close()); err != nil {
		t.Error(err)
	}
	if err := c.Set("s", Check{Kind: API}); !errors.Is(err, errClosed) {
		t.Error(err)
	}
	if err := c.Report("s", true, ""); !errors.Is(err, errClosed) {
		t.Error(err)
	}
	c.Remove("s")
}

func TestNamespacesThatCannotBeEntered(t *testing.T) {
	for path, why := range map[string]string{"/nonexistent": "no such file", "/dev/null": "enter the network namespace /dev/null"} {
		if c, err := New(Options{Namespace: path}); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v, %v", path, c, err)
		}
	}
}

// TestTheThreadLeavesItsNamespace: after Close, no thread is in another namespace than the process.
func TestTheThreadLeavesItsNamespace(t *testing.T) {
	ns := netns.New(t)
	own, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	link := fmt.Sprintf("net:[%d]", inode(t, ns.Path()))
	for range 10 {
		c := newChecker(t, Options{Namespace: fmt.Sprintf("/proc/self/fd/%d", ns.Fd())})
		if got, _ := os.Readlink("/proc/self/ns/net"); got != own {
			t.Errorf("the process seems to be in %s", got)
		}
		if !slices.Contains(threadNamespaces(), link) {
			t.Error("no thread is in the namespace")
		}
		c.Close()
	}
	if slices.Contains(threadNamespaces(), link) {
		t.Error("a thread is still in the namespace")
	}
}

func inode(t *testing.T, path string) uint64 {
	var is unix.Stat_t
	if err := unix.Stat(path, &is); err != nil {
		t.Fatal(err)
	}
	return is.Ino
}

func threadNamespaces() (out []string) {
	paths, _ := filepath.Glob("/proc/self/task/*/ns/net")
	for _, p := range paths {
		if l, err := os.Readlink(p); err == nil {
			out = append(out, l)
		}
	}
	return out
}

// TestAPanicIsAFailureOfTheServer: the checks of others continue.
func TestAPanicIsAFailureOfTheServer(t *testing.T) {
	l := newLab(t)
	_, cert := certificates(t)
	w, secure := l.web(text("ok")), l.webTLS(cert, text("ok"))
	// Checks that no Set would accept.
	for id, change := range map[string]func(*prepared){
		"when it starts":     func(p *prepared) { p.SourcePorts.First, p.SourcePorts.Last = 9, 8 },
		"when the answer is": func(p *prepared) { p.pattern = &regexp.Regexp{} },
		"in another goroutine": func(p *prepared) {
			p.Kind, p.Target, p.SkipVerify, p.pattern = HTTPS, secure.to, true, &regexp.Regexp{}
		},
	} {
		p, err := quick(HTTP, w.to).prepare()
		if err != nil {
			t.Fatal(err)
		}
		change(p)
		l.checker.mu.Lock()
		e := &entry{id: id, owner: l.checker, want: p}
		l.checker.entries[id] = e
		l.checker.enqueue(e)
		l.checker.mu.Unlock()
		l.becomes(id, Down, "internal error while checking: ")
	}
	l.set("good", quick(HTTP, w.to))
	l.becomes("good", Up, "")
	if s := l.moreChecks("good", 3); l.failed(s) || l.checker.Stats().Panics < 3 {
		t.Errorf("%+v, %+v", s, l.checker.Stats())
	}
}

// TestNothingIsLeftBehind: descriptors and goroutines are those of before, whatever is in progress at the end.
func TestNothingIsLeftBehind(t *testing.T) {
	l := newLabAlone(t)
	l.checker.Close()
	silent := l.serve(func(c net.Conn) { drain(c) })
	w := l.web(text("ok"))
	before, goroutines := openFiles(t), runtime.NumGoroutine()
	l.start(Options{})
	for i, kind := range []Kind{TCP, HTTP, HTTPS, GRPC, ICMP} {
		for j, to := range []netip.AddrPort{silent, w.to, netip.MustParseAddrPort("10.0.0.77:80")} {
			for k := range 5 {
				l.set(fmt.Sprint(i, j, k), Check{Kind: kind, Target: to, Interval: 500 * time.Millisecond})
			}
		}
	}
	netns.Eventually(t, patience, func() error {
		if s := l.checker.Stats(); s.Unknown > 0 || s.Checks < 200 {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
	for k := range 5 {
		l.checker.Remove(fmt.Sprint(2, 0, k))
		l.checker.Remove(fmt.Sprint(1, 1, k))
	}
	l.checker.Close()
	netns.Eventually(t, patience, func() error {
		// What serves the checks ends with their connections.
		if now, n := openFiles(t), runtime.NumGoroutine(); now > before || n > goroutines {
			return fmt.Errorf("%d descriptors were open, %d are; %d goroutines ran, %d do", before, now, goroutines, n)
		}
		return nil
	})
}

func openFiles(t *testing.T) int {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// TestChecksAreSetAndRemovedUnderWay: many callers at once, with servers that answer, refuse and stay silent.
func TestChecksAreSetAndRemovedUnderWay(t *testing.T) {
	l := newLab(t)
	w := l.web(text("ok"))
	silent := l.serve(func(c net.Conn) { drain(c) })
	refused := netip.MustParseAddrPort(serverIP + ":1")
	var calls atomic.Int32
	stop := make(chan struct{})
	done := make(chan struct{})
	for worker := range 4 {
		go func() {
			defer func() { done <- struct{}{} }()
			often := time.NewTicker(200 * time.Microsecond)
			defer often.Stop()
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				case <-often.C:
				}
				id := fmt.Sprint(worker, i%50)
				c := quick([]Kind{TCP, HTTP, HTTPS, GRPC, ICMP, API}[i%6], []netip.AddrPort{w.to, silent, refused}[i%3])
				if err := l.checker.Set(id, c); err != nil {
					t.Error(err)
				}
				l.checker.State(id)
				if i%3 == 0 {
					l.checker.Remove(fmt.Sprint(worker, i*7%50))
				}
				calls.Add(1)
			}
		}()
	}
	netns.Eventually(t, patience, func() error {
		if s := l.checker.Stats(); s.Checks < 2000 || calls.Load() < 5000 {
			return fmt.Errorf("%d calls, %+v", calls.Load(), s)
		}
		return nil
	})
	close(stop)
	for range 4 {
		<-done
	}
	for worker := range 4 {
		for i := range 50 {
			l.checker.Remove(fmt.Sprint(worker, i))
		}
	}
	l.set("after", quick(HTTP, w.to))
	l.becomes("after", Up, "")
	if s := l.checker.Stats(); s.Panics > 0 || s.Up != 1 || s.Down+s.Unknown > 0 {
		t.Errorf("%+v", s)
	}
}
