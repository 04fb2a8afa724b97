// SPDX-License-Identifier: Apache-2.0

// trace, capture and events report when they listen, and print a summary when they are interrupted.

package e2e

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gopacket/gopacket/pcapgo"

	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/output"
)

// listen runs polycubectl until it reports that it listens, and returns how long that took. It does not poll, so the
// test continues right after the line.
func (m *machine) listen(args ...string) (*watcher, time.Duration) {
	m.t.Helper()
	from, to, err := os.Pipe()
	if err != nil {
		m.t.Fatal(err)
	}
	w := &watcher{out: &output.Buffer{}, errors: &output.Buffer{}, ended: make(chan struct{})}
	w.cmd = exec.CommandContext(m.t.Context(), program(m.t, "polycubectl"), args...)
	w.cmd.Env, w.cmd.Stdout, w.cmd.Stderr = m.environment(), w.out, to
	begin := time.Now()
	err = w.cmd.Start()
	to.Close()
	if err != nil {
		from.Close()
		m.t.Fatal(err)
	}
	said, read := bufio.NewReader(io.TeeReader(from, w.errors)), make(chan struct{})
	m.t.Cleanup(func() {
		_ = w.cmd.Process.Kill() // it may have ended
		<-w.ended
	})
	if err := from.SetReadDeadline(begin.Add(patience)); err != nil {
		m.t.Fatal(err)
	}
	line, err := said.ReadString('\n')
	took := time.Since(begin)
	go func() {
		defer close(read)
		_ = from.SetReadDeadline(time.Time{}) // it was set before
		_, _ = io.Copy(io.Discard, said)      // until the program has ended
		from.Close()
	}()
	go func() {
		<-read
		_ = w.cmd.Wait() // cmd returns how it ended
		close(w.ended)
	}()
	if err != nil || !regexp.MustCompile(`^listening .*, Ctrl-C to stop\n$`).MatchString(line) {
		m.t.Fatalf("%v: the first line is %q, %v", args, line, err)
	}
	return w, took
}

// interrupt sends a signal and waits for the end, which must be success.
func (w *watcher) interrupt(t *testing.T, signal os.Signal) {
	t.Helper()
	if err := w.cmd.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
	select {
	case <-w.ended:
	case <-time.After(patience):
		t.Fatalf("%v does not end it:\n%s", signal, w.errors.String())
	}
	if state := w.cmd.ProcessState; state.ExitCode() != 0 {
		t.Errorf("after %v: %v: %s", signal, state, w.errors.String())
	}
}

// shows waits until the output matches.
func (w *watcher) shows(t *testing.T, what string) {
	t.Helper()
	pattern := regexp.MustCompile(what)
	netns.Eventually(t, patience, func() error {
		if text := w.out.String(); !pattern.MatchString(text) {
			return fmt.Errorf("%v: no %q in\n%s%s", w.cmd.Args[1:], what, text, w.errors.String())
		}
		return nil
	})
}

// TestWhatComesAfterTheLineIsReported: a single packet, or change, right after the line, with a new watcher each time.
func TestWhatComesAfterTheLineIsReported(t *testing.T) {
	rounds := 3
	if soak {
		rounds *= 50
	}
	onEachHook(t, func(t *testing.T, _ string, d *daemon, hosts [3]*netns.Node) {
		in := netns.OpenRaw(t, hosts[0], netns.Inner)
		frame := probe(hosts[0].MAC, 100)
		send := func() {
			t.Helper()
			if err := in.Send(frame); err != nil {
				t.Fatal(err)
			}
		}
		filter := []string{"ether", "proto", fmt.Sprint(streamType)}
		for round := range rounds {
			for _, c := range []struct {
				args  []string
				after func()
				shows string
			}{
				{append([]string{"trace"}, filter...), send, ` br1:p1 +in +(flood|send)`},
				{append([]string{"trace", "--cube", "br1", "-json"}, filter...), send, `"cube":"br1","port":"p1"`},
				{append([]string{"capture", "br1:p1"}, filter...), send, ` br1:p1 +in +(flood|send)`},
				{append([]string{"capture", "br1:p2", "-json"}, filter...), send, `"verdict":"sent"`},
				{[]string{"events"}, func() { d.Do(fmt.Sprintf("br1 set fdb.aging-time=%d", 100+round)) }, `br1 changed: fdb/aging-time`},
			} {
				w, _ := d.listen(c.args...)
				c.after()
				w.shows(t, c.shows)
				w.interrupt(t, syscall.SIGINT)
			}
		}
	})
}

// TestTimedListeningIsSaidSoon limits the time to the line to 300 ms from the start of the program.
func TestTimedListeningIsSaidSoon(t *testing.T) {
	d := start(t)
	threeHosts(d.machine, v4)
	d.twoBridges("TC")
	d.calm("br1")
	for _, args := range [][]string{{"trace"}, {"trace", "icmp"}, {"capture", "br1:p1"}, {"capture", "br1:p1", "-w", "-"}, {"events"}} {
		w, took := d.listen(args...)
		if took > 300*time.Millisecond {
			t.Errorf("%v listens after %v, want 300 ms at most", args, took)
		}
		w.interrupt(t, syscall.SIGINT)
	}
}

// TestInterruptedWatchersSayWhatTheySaw, with either signal, on standard error rather than in the stream.
func TestInterruptedWatchersSayWhatTheySaw(t *testing.T) {
	t.Parallel()
	d := start(t)
	host := d.lab.Host("veth1", "")
	d.Do("helloworld add h1")
	d.Do("h1 ports add p1 peer=veth1")
	in := netns.OpenRaw(t, host, netns.Inner)
	filter := []string{"ether", "proto", fmt.Sprint(streamType)}
	for signal, flag := range map[os.Signal]string{syscall.SIGINT: "", syscall.SIGTERM: "-json"} {
		args := func(words ...string) []string {
			if flag != "" {
				words = append(words, flag)
			}
			return words
		}
		steps, _ := d.listen(args(append([]string{"trace"}, filter...)...)...)
		packets, _ := d.listen(args(append([]string{"capture", "h1:p1"}, filter...)...)...)
		happens, _ := d.listen(args("events", "h1", "--type", "config")...)
		for range 3 {
			if err := in.Send(probe(host.MAC, 60)); err != nil {
				t.Fatal(err)
			}
		}
		d.Do("h1 set loglevel=DEBUG")
		d.Do("h1 set loglevel=INFO")
		steps.shows(t, `(?s)(action-drop.*){3}`)
		packets.shows(t, `(?s)(action-drop.*){3}`)
		happens.shows(t, `(?s)(h1 changed.*){2}`)
		for w, want := range map[*watcher]string{
			steps:   "listening on all cubes, Ctrl-C to stop\n3 steps, 0 lost\ndropped: h1 action-drop 3\n",
			packets: "listening on h1:p1, Ctrl-C to stop\n3 packets, 0 lost\ndropped: h1 action-drop 3\n",
			happens: "listening for events of type config about h1, Ctrl-C to stop\n2 events, 0 lost\nby type: config 2\n",
		} {
			w.interrupt(t, signal)
			if got := w.errors.String(); got != want {
				t.Errorf("%v says %q, want %q", w.cmd.Args[1:], got, want)
			}
			if flag == "" {
				continue
			}
			for line := range strings.Lines(w.out.String()) {
				if !json.Valid([]byte(line)) {
					t.Errorf("%v: the line is not JSON: %s", w.cmd.Args[1:], line)
				}
			}
		}
	}
}

// TestAnInterruptedCaptureIsComplete: during traffic, the file and the standard output end with a whole block, the one
// with the number of packets.
func TestAnInterruptedCaptureIsComplete(t *testing.T) {
	onEachHook(t, func(t *testing.T, _ string, d *daemon, hosts [3]*netns.Node) {
		reaches(t, hosts[0], "10.0.0.3")
		s := startStream(t, hosts[0], hosts[2])
		file := filepath.Join(d.dir, "up.pcapng")
		toFile, _ := d.listen("capture", "br1:up", "-w", file)
		toPipe, _ := d.listen("capture", "br1:p1", "-w", "-")
		s.Flowing(200)
		toFile.interrupt(t, syscall.SIGINT)
		toPipe.interrupt(t, syscall.SIGTERM)
		s.Stop()
		if err := os.WriteFile(file+".pipe", []byte(toPipe.out.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		for w, name := range map[*watcher]string{toFile: file, toPipe: file + ".pipe"} {
			n, counted := wholeCapture(t, name)
			if n == 0 || uint64(n) != counted {
				t.Errorf("%v: %d packets, its end says %d", w.cmd.Args[1:], n, counted)
			}
			want := fmt.Sprintf(`Ctrl-C to stop\n%d packets, \d+ lost`, n)
			if w == toFile {
				want += ", written to " + regexp.QuoteMeta(file)
			}
			if said := w.errors.String(); !regexp.MustCompile(want + "\n").MatchString(said) {
				t.Errorf("%v says %q, want %s", w.cmd.Args[1:], said, want)
			}
			readByOthers(t, name, n)
		}
	})
}

// wholeCapture counts the packets of a file, which must end with a complete block that contains their number.
func wholeCapture(t *testing.T, name string) (packets int, counted uint64) {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	opts := pcapgo.DefaultNgReaderOptions
	opts.StatisticsCallback = func(_ int, s pcapgo.NgInterfaceStatistics) { counted = s.PacketsReceived }
	r, err := pcapgo.NewNgReader(f, opts)
	for err == nil {
		if _, _, err = r.ReadPacketData(); err == nil {
			packets++
		}
	}
	if !errors.Is(err, io.EOF) {
		t.Errorf("%s: %v", name, err)
	}
	return packets, counted
}

// TestAnInterruptBeforeItListens kills the program like any other: there is nothing to summarize.
func TestAnInterruptBeforeItListens(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	if err := os.MkdirAll(filepath.Dir(m.socket()), 0o700); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", m.socket())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	w := m.watch("trace")
	asked, err := l.Accept() // and nobody answers
	if err != nil {
		t.Fatal(err)
	}
	defer asked.Close()
	if err := w.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	<-w.ended
	if status, ok := w.cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGINT || w.errors.String() != "" {
		t.Errorf("%v, %q", w.cmd.ProcessState, w.errors.String())
	}
}
