// SPDX-License-Identifier: Apache-2.0

// An operator watches packets: live, hop by hop, selected by a filter, and nothing of it stays behind.

package e2e

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/output"
	"github.com/polycube/polycube/test/pkt"
)

// watcher is a polycubectl that shows packets.
type watcher struct {
	cmd         *exec.Cmd
	out, errors *output.Buffer
	ended       chan struct{}
}

// watch runs polycubectl until the test ends it, or it ends by itself.
func (m *machine) watch(args ...string) *watcher {
	m.t.Helper()
	w := &watcher{out: &output.Buffer{}, errors: &output.Buffer{}, ended: make(chan struct{})}
	w.cmd = exec.CommandContext(m.t.Context(), program(m.t, "polycubectl"), args...)
	w.cmd.Env = m.environment()
	w.cmd.Stdout, w.cmd.Stderr = w.out, w.errors
	if err := w.cmd.Start(); err != nil {
		m.t.Fatal(err)
	}
	go func() {
		_ = w.cmd.Wait() // cmd returns how it ended
		close(w.ended)
	}()
	m.t.Cleanup(func() {
		_ = w.cmd.Process.Kill() // it may have ended
		<-w.ended
	})
	return w
}

// instructions reports whether a cube's programs are traced: they are longer then.
func (m *machine) instructions(cube string) int {
	m.t.Helper()
	return m.Stats(cube).Instructions
}

// calm waits until the cube's program is inlined, and returns how long it is.
func (m *machine) calm(cube string) int {
	m.t.Helper()
	var n int
	netns.Eventually(m.t, patience, func() error {
		s := m.Stats(cube)
		if n = s.Instructions; s.Mode != "inline" {
			return fmt.Errorf("%s is in mode %s: %s", cube, s.Mode, s.Reason)
		}
		return nil
	})
	return n
}

// story is the trace of a ping from veth1 to veth3, in order.
var story = []string{
	`^\d\d:\d\d:\d\d\.\d{6} [0-9a-f]{4} br1:p1 +in +(send up|flood) +10\.0\.0\.1 > 10\.0\.0\.3: ICMP echo request, id \d+, seq \d+, length 98$`,
	` br2:up +in +(send p3|flood) +10\.0\.0\.1 > 10\.0\.0\.3: ICMP echo request`,
	` br2:p3 +in +send up +10\.0\.0\.3 > 10\.0\.0\.1: ICMP echo reply`,
	` br1:up +in +send p1 +10\.0\.0\.3 > 10\.0\.0\.1: ICMP echo reply`,
	` br1 +leave veth1 +10\.0\.0\.3 > 10\.0\.0\.1: ICMP echo reply`,
}

// tells returns what is missing in a story.
func tells(text string, lines []string) error {
	rest := strings.Split(text, "\n")
	for _, want := range lines {
		found := regexp.MustCompile(want)
		for len(rest) > 0 && !found.MatchString(rest[0]) {
			rest = rest[1:]
		}
		if len(rest) == 0 {
			return fmt.Errorf("%q is not in its place in:\n%s", want, text)
		}
	}
	return nil
}

func TestTraceShowsEachStepLive(t *testing.T) {
	onEachHook(t, func(t *testing.T, _ string, d *daemon, hosts [3]*netns.Node) {
		reaches(t, hosts[0], "10.0.0.3")
		off := d.calm("br1")
		all, one := d.watch("trace", "icmp", "and", "host", "10.0.0.3"), d.watch("trace", "icmp", "--cube", "br2", "-json")
		netns.Eventually(t, patience, func() error {
			if err := hosts[0].Ping("10.0.0.3"); err != nil {
				return err
			}
			if text := one.out.String(); !strings.Contains(text, `"cube":"br2"`) {
				return fmt.Errorf("a trace of br2 tells:\n%s", text)
			}
			return tells(all.out.String(), story)
		})
		if text := one.out.String(); strings.Contains(text, `"br1"`) {
			t.Errorf("a trace of br2 tells:\n%s", text)
		}
		if n := d.instructions("br1"); n <= off {
			t.Errorf("%d instructions while packets are traced, %d before", n, off)
		}
		if err := one.cmd.Process.Signal(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if err := all.cmd.Process.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		netns.Eventually(t, patience, func() error {
			if n := d.instructions("br1"); d.Stats("br1").Mode != "inline" || n != off {
				return fmt.Errorf("%d instructions after the traces, %d before", n, off)
			}
			return nil
		})
		reaches(t, hosts[0], "10.0.0.3")
	})
}

func TestTraceTellsWhyPacketsAreDropped(t *testing.T) {
	t.Parallel()
	d := start(t)
	host := d.lab.Host("veth1", "")
	d.Do("helloworld add h1")
	d.Do("h1 ports add p1 peer=veth1")
	w := d.watch("trace", "-c", "2")
	in := netns.OpenRaw(t, host, netns.Inner)
	frame := pkt.EthernetFrame([]byte{255, 255, 255, 255, 255, 255}, host.MAC, streamType, make([]byte, 50))
	netns.Eventually(t, patience, func() error {
		if err := in.Send(frame); err != nil {
			return err
		}
		return tells(w.out.String(), []string{fmt.Sprintf(
			` h1:p1 +in +drop action-drop +%s > ff:ff:ff:ff:ff:ff, ethertype 0x%04x, length 64$`, host.MAC, streamType)})
	})
	netns.Eventually(t, patience, func() error {
		if err := in.Send(frame); err != nil {
			return err
		}
		select {
		case <-w.ended:
			return nil
		default:
			return fmt.Errorf("it does not end after 2 steps:\n%s", w.out.String())
		}
	})
	if lines := strings.Count(w.out.String(), "\n"); lines != 2 || !strings.Contains(w.errors.String(), "2 steps, 0 lost") {
		t.Errorf("%d lines, %q; want 2 and a summary", lines, w.errors.String())
	}
}

func TestTraceRefusesWhatMakesNoSense(t *testing.T) {
	t.Parallel()
	d := start(t)
	d.Do("helloworld add h1")
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"trace", "bogus", "foo"}, 2, "can't parse filter expression: syntax error"},
		{[]string{"trace", "--", "-w", "/tmp/x"}, 2, "syntax error"},
		{[]string{"trace", strings.Repeat("ip or ", 200) + "ip"}, 2, "the limit is 1024"},
		{[]string{"trace", "--cube", "nobody"}, 2, "not found"},
		{[]string{"trace", "-t", "100000"}, 2, "the maximum is 1h"},
		{[]string{"trace", "-c", "0"}, 64, "1 or greater"},
		{[]string{"trace", "--nonsense"}, 64, "unknown flag"},
	} {
		r := d.CLI(c.args...)
		if r.code != c.code || !strings.Contains(r.stderr, c.says) || r.stdout != "" {
			t.Errorf("want exit %d and %q: %v", c.code, c.says, r)
		}
	}
	var five []*watcher
	for range 5 {
		five = append(five, d.watch("trace", "arp"))
	}
	netns.Eventually(t, patience, func() error {
		refused := 0
		for _, w := range five {
			refused += strings.Count(w.errors.String(), "4 trace and capture sessions are already running, end one first")
		}
		if refused != 1 {
			return fmt.Errorf("%d of five sessions were refused, want one", refused)
		}
		return nil
	})
}

// TestASlowWatcherHindersNobody: its session is ended, and the daemon and the traffic continue.
func TestASlowWatcherHindersNobody(t *testing.T) {
	t.Parallel()
	d := start(t)
	hosts := threeHosts(d.machine, v4)
	d.twoBridges("TC")
	reaches(t, hosts[0], "10.0.0.3")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://polycubed"+base+"/trace", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := (&http.Client{Transport: &http.Transport{DialContext: d.dial}}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	first := bufio.NewReader(resp.Body)
	netns.Eventually(t, patience, func() error { return hosts[0].Ping("10.0.0.3", netns.Brief) })
	if _, err := first.ReadString('\n'); err != nil { // the session runs; from now on nobody reads
		t.Fatal(err)
	}
	took := transfer(t, hosts[0], hosts[2], 64<<20)
	t.Logf("64 MB beside a watcher that does not read: %v", took)
	d.Alive()
	reaches(t, hosts[0], "10.0.0.3")
	cancel()
	_, _ = io.Copy(io.Discard, resp.Body)
	d.calm("br1")
}

// TestTracingDoesNotOutliveTheDaemon: after a kill the next daemon links without it.
func TestTracingDoesNotOutliveTheDaemon(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	d := m.Start()
	hosts := threeHosts(m, v4)
	d.twoBridges("TC")
	reaches(t, hosts[0], "10.0.0.3")
	off := d.calm("br1")
	w := d.watch("trace")
	netns.Eventually(t, patience, func() error {
		if err := hosts[0].Ping("10.0.0.3"); err != nil {
			return err
		}
		if w.out.String() == "" {
			return fmt.Errorf("nothing is traced yet")
		}
		return nil
	})
	d.Kill9()
	reaches(t, hosts[0], "10.0.0.3")
	<-w.ended
	d = m.Start()
	if n := d.calm("br1"); n != off {
		t.Errorf("%d instructions after the restart, %d before", n, off)
	}
}

func TestTimedStopWithAWatcher(t *testing.T) {
	d := start(t)
	threeHosts(d.machine, v4)
	d.twoBridges("TC")
	d.watch("trace")
	begin := time.Now()
	d.Stop()
	if took := time.Since(begin); took > 10*time.Second {
		t.Errorf("stopping with a watcher took %v", took)
	}
}

// TestTraceFollowsPacketsThroughSegments: a line that no single program holds is traced and injected as a whole.
func TestTraceFollowsPacketsThroughSegments(t *testing.T) {
	t.Parallel()
	for _, kind := range sizeTypes {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			const n = 60
			d := newMachine(t).Start("--segment-cubes", "25")
			cubes := makeCubes("simplebridge", kind, n)
			for i := range cubes[1:] {
				wire(cubes[i], cubes[i+1])
			}
			a, z := d.plug(cubes[0], 1), d.plug(cubes[n-1], 2)
			d.create(cubes)
			reaches(t, a, "10.0.0.2")
			var line []string
			for i := range n {
				line = append(line, fmt.Sprintf(` c%d:\S+ +in +(send|flood)`, i))
			}
			w := d.watch("trace", "icmp[icmptype] == icmp-echo")
			netns.Eventually(t, patience, func() error {
				if err := a.Ping("10.0.0.2"); err != nil {
					return err
				}
				return tells(w.out.String(), line)
			})
			r := d.CLI("trace", "--inject", fmt.Sprintf("eth %s > %s / ip 10.0.0.1 > 10.0.0.2 / icmp echo", a.MAC, z.MAC), "c0:host")
			if err := tells(" "+strings.ReplaceAll(r.stdout, "\n", "\n "), append(line, ` leave veth2`)); err != nil {
				t.Error(err, r.stderr)
			}
		})
	}
}

// TestLookingAtPacketsLosesNone: sessions start, end by themselves and are killed while a stream flows, together with
// changes.
func TestLookingAtPacketsLosesNone(t *testing.T) {
	rounds := 4
	if soak {
		rounds *= 50
	}
	onEachHook(t, func(t *testing.T, _ string, d *daemon, hosts [3]*netns.Node) {
		reaches(t, hosts[0], "10.0.0.3")
		off := d.calm("br1")
		gone := func() {
			t.Helper()
			netns.Eventually(t, patience, func() error {
				if n := d.instructions("br1"); d.Stats("br1").Mode != "inline" || n != off {
					return fmt.Errorf("%d instructions after the sessions, %d before", n, off)
				}
				return nil
			})
		}
		s := startStream(t, hosts[0], hosts[2])
		for round := range rounds {
			counted := d.watch("trace", "-c", "50")
			captured := d.watch("capture", "br1:up", "-c", "20")
			cut := d.watch("trace", "ether", "proto", fmt.Sprint(streamType), "--cube", "br2")
			d.Do(fmt.Sprintf("br1 fdb set aging-time=%d", 100+round))
			d.Do("br2 set loglevel=DEBUG")
			d.Do("br2 set loglevel=INFO")
			for name, w := range map[string]*watcher{"trace -c 50": counted, "capture -c 20": captured} {
				select {
				case <-w.ended:
				case <-time.After(patience):
					t.Fatalf("round %d: %s does not end:\n%s%s", round, name, w.out.String(), w.errors.String())
				}
				if code := w.cmd.ProcessState.ExitCode(); code != 0 {
					t.Errorf("round %d: %s: exit %d: %s", round, name, code, w.errors.String())
				}
			}
			if err := cut.cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			s.Flowing(200)
			gone() // or there is no room for three more
		}
		sent := s.Stop()
		if t.Failed() {
			d.logDrops("br1", "br2")
		}
		t.Logf("24 sessions, %d frames", sent)
	})
}
