// SPDX-License-Identifier: Apache-2.0

// Package capture measures the cube packetcapture beside tcpdump: both write the first bytes of each packet that a netdev
// receives to a file, from the same generator, with a buffer of the same size.
package capture

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/perf/lab"
	"github.com/polycube/polycube/test/perf/report"
)

// Bench is how it is measured.
type Bench struct {
	// Root is the directory of the repository, where bin/ contains the daemon.
	Root string
	// Rounds chooses the number of rounds from the usual number and that of a quick look.
	Rounds func(full, quick int) int
	Quick  bool
	// Progress writes a line.
	Progress func(format string, args ...any)
}

const (
	snap = 128
	// frame is the length of the frames of the generator.
	frame = 256
	// recordSize is that of a packet in a file, headerSize that of a file's header.
	recordSize, headerSize = 16 + snap, 24
	// bufferKB is the size of the ring of the cube, in KB.
	bufferKB = 16384
	// period is the time between two bursts of the generator.
	period = 50 * time.Millisecond
	// rest is the time in which tcpdump gets the last packets: the kernel keeps a block that is not full for up to a second.
	rest = 1500 * time.Millisecond
	// wait is the time that a capture may take to write what it has.
	wait = 20 * time.Second
)

// goal is the rate in Mpps at which nothing may be lost.
const goal = 0.5

// result is one run of one program.
type result struct {
	sent, written uint64
	// said is how many packets the program says that it has lost.
	said uint64
	took time.Duration
}

func (r result) mpps() float64 { return float64(r.sent) / r.took.Seconds() / 1e6 }
func (r result) lost() float64 { return 100 * (1 - float64(r.written)/float64(max(1, r.sent))) }

// Rates measures both programs at several rates.
func Rates(ctx context.Context, b *Bench) (*report.Table, []report.Check, error) {
	t := &report.Table{
		Title:   fmt.Sprintf("Captures to a file: frames of %d bytes, snap length %d", frame, snap),
		Columns: []string{"Mpps wanted", "program", "Mpps", "lost %", "it says that it lost"},
		Notes: []string{fmt.Sprintf("The generator sends bursts every %v, on another CPU. Both programs have a buffer of %d MB. "+
			"Lost are packets that are not in the file.", period, bufferKB>>10)},
	}
	var checks []report.Check
	for _, rate := range []float64{goal, 2 * goal, 4 * goal} {
		lost := map[string]report.Sample{}
		rates, says := map[string]report.Sample{}, map[string]report.Sample{}
		programs := map[string]func(context.Context, *Bench, float64) (result, error){"packetcapture": cubeRun, "tcpdump": tcpdumpRun}
		for round := range b.Rounds(5, 1) {
			b.Progress("capture: %.1f Mpps, round %d", rate, round+1)
			for name, run := range programs {
				r, err := run(ctx, b, rate)
				if err != nil {
					return nil, nil, fmt.Errorf("%s: %w", name, err)
				}
				lost[name], rates[name] = append(lost[name], r.lost()), append(rates[name], r.mpps())
				says[name] = append(says[name], float64(r.said))
			}
		}
		for _, name := range []string{"packetcapture", "tcpdump"} {
			t.Add(fmt.Sprintf("%.1f", rate), name, rates[name].Spread(2), lost[name].Spread(2), says[name].Spread(0))
		}
		if rate == goal {
			checks = append(checks, report.AtMost("capture to a file at 0.5 Mpps, lost", "%.2f %%", lost["packetcapture"].Median(), 0),
				report.AtLeast("rate of that", "%.2f Mpps", rates["packetcapture"].Median(), 0.95*goal))
		}
	}
	return t, checks, nil
}

// cubeRun is one run of the cube on the netdev.
func cubeRun(ctx context.Context, b *Bench, rate float64) (out result, err error) {
	return with(ctx, func(rig *lab.Rig, w *lab.Wire, file string) (result, error) {
		d, err := rig.NewDaemon(w.Machine.Namespace, filepath.Join(b.Root, "bin"))
		if err != nil {
			return out, err
		}
		if _, err := d.Start(); err != nil {
			return out, err
		}
		_, err = d.Ctl("", "packetcapture", "add", "pc", "capture=INGRESS", "filter=udp", fmt.Sprintf("snaplen=%d", snap), "dump="+file)
		if err == nil {
			_, err = d.Ctl("", "attach", "pc", lab.In)
		}
		if err == nil {
			err = d.Inlined("pc")
		}
		if err != nil {
			return out, err
		}
		out, err := send(b, w, rate)
		if err != nil {
			return out, err
		}
		var s struct {
			Captured  uint64 `json:"captured"`
			Delivered uint64 `json:"delivered"`
			LostRing  uint64 `json:"lost-ring"`
			LostQueue uint64 `json:"lost-queue"`
			LostFile  uint64 `json:"lost-file"`
		}
		err = until(func() error {
			text, err := d.Ctl("", "pc", "show", "statistics", "-json")
			if err == nil {
				err = json.Unmarshal([]byte(text), &s)
			}
			if err == nil && s.Captured > s.Delivered+s.LostQueue+s.LostFile {
				err = fmt.Errorf("packets are not written yet: %+v", s)
			}
			return err
		})
		out.said = s.LostRing + s.LostQueue + s.LostFile
		return out, err
	})
}

// tcpdumpRun is one run of tcpdump on the netdev.
func tcpdumpRun(ctx context.Context, b *Bench, rate float64) (result, error) {
	return with(ctx, func(_ *lab.Rig, w *lab.Wire, file string) (out result, err error) {
		cmd := w.Machine.Command("tcpdump", "-n", "-i", lab.In, "-Q", "in", "-s", fmt.Sprint(snap), "-B", fmt.Sprint(bufferKB), "-w", file, "udp")
		var said strings.Builder
		cmd.Stderr = &said
		if err := cmd.Start(); err != nil {
			return out, err
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		err = until(func() error { _, err := os.Stat(file); return err }) // it writes the header when it listens
		if err == nil {
			out, err = send(b, w, rate)
			time.Sleep(rest)
		}
		err = errors.Join(err, cmd.Process.Signal(syscall.SIGINT), <-ended)
		var exit *exec.ExitError
		if err != nil || errors.As(err, &exit) {
			return out, fmt.Errorf("%w: %s", err, said.String())
		}
		_, text, _ := strings.Cut(said.String(), "received by filter\n")
		if _, err := fmt.Sscanf(text, "%d packets dropped by kernel", &out.said); err != nil {
			return out, fmt.Errorf("what tcpdump says: %q: %w", said.String(), err)
		}
		return out, nil
	})
}

// with runs fn with a wire whose frames end in the stack of the device under test, and counts what is in the file.
func with(ctx context.Context, fn func(*lab.Rig, *lab.Wire, string) (result, error)) (out result, err error) {
	dir, err := os.MkdirTemp("", "capture")
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	file := filepath.Join(dir, "out.pcap")
	err = lab.With(ctx, func(rig *lab.Rig) (err error) {
		w, err := rig.NewWire(16)
		if err != nil {
			return err
		}
		w.Resize(frame)
		out, err = fn(rig, w, file)
		return err
	})
	if err != nil {
		return out, err
	}
	st, err := os.Stat(file)
	if err != nil {
		return out, err
	}
	out.written = uint64(st.Size()-headerSize) / recordSize
	return out, nil
}

// send sends at a rate, in Mpps, for some seconds.
func send(b *Bench, w *lab.Wire, rate float64) (out result, err error) {
	seconds := 3 * time.Second
	if b.Quick {
		seconds = time.Second
	}
	burst := int(rate * 1e6 * period.Seconds())
	before, err := w.Counts()
	if err != nil {
		return out, err
	}
	begin := time.Now()
	err = netns.OnCPU(0, func() error {
		for due := begin; due.Before(begin.Add(seconds)); due = due.Add(period) {
			time.Sleep(time.Until(due))
			if err := w.Send(burst); err != nil {
				return err
			}
		}
		return nil
	})
	out.took = time.Since(begin)
	after, cerr := w.Counts()
	out.sent = after.Sent - before.Sent
	return out, errors.Join(err, cerr)
}

// until polls.
func until(fn func() error) error {
	for deadline := time.Now().Add(wait); ; time.Sleep(20 * time.Millisecond) {
		if err := fn(); err == nil || time.Now().After(deadline) {
			return err
		}
	}
}
