// SPDX-License-Identifier: Apache-2.0

// One `go test`, recorded in two files: NAME.json has its events, NAME.run how it was called and how it ended.

package rerun

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
)

// Run is a call of `go test`.
type Run struct {
	Flags    []string // before the packages
	Packages []string
	Exit     int // 0 when everything passed; running until it ended
}

const running = -1

// Do runs the tests, prints what `go test` prints without -json, and records the run under a name. It returns the exit
// code.
func Do(dir, name string, run Run, out io.Writer) (int, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return 0, err
	}
	run.Exit = running
	if err := run.write(dir, name); err != nil {
		return 0, err
	}
	events, err := os.Create(filepath.Join(dir, name+".json"))
	if err != nil {
		return 0, err
	}
	defer events.Close()
	_, run.Exit, err = run.execute(events, out)
	return run.Exit, errors.Join(err, events.Close(), run.write(dir, name))
}

// execute runs `go test`, with additional environment variables, and returns its output and its exit code.
func (run Run) execute(events, out io.Writer, variables ...string) (*Record, int, error) {
	cmd := exec.Command("go", append(append([]string{"test", "-json"}, run.Flags...), run.Packages...)...)
	cmd.Env = append(os.Environ(), variables...)
	cmd.Stderr = out
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return nil, running, err
	}
	// A terminal interrupts `go test` as well; a signal to this process alone is meant for both.
	stops := make(chan os.Signal, 1)
	signal.Notify(stops, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(stops)
	if err := cmd.Start(); err != nil {
		return nil, running, err
	}
	done := make(chan struct{})
	defer close(done)
	go func() {
		select {
		case <-stops:
			_ = cmd.Process.Signal(os.Interrupt) // it has ended: nothing to stop
		case <-done:
		}
	}()
	record := &Record{Verbose: slices.Contains(run.Flags, "-v")}
	if err := record.Scan(io.TeeReader(pipe, events), out, func(p *Package) { fmt.Fprint(out, p.Text()) }); err != nil {
		return record, running, errors.Join(err, cmd.Wait())
	}
	if err := cmd.Wait(); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			return record, running, err
		}
		return record, max(exit.ExitCode(), 1), nil // -1: it was killed
	}
	return record, 0, nil
}

func (run Run) write(dir, name string) error {
	text, err := json.Marshal(run)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, name+".run"), append(text, '\n'), 0o644)
}

// read returns a recorded run.
func read(dir, name string) (Run, *Record, error) {
	var run Run
	text, err := os.ReadFile(filepath.Join(dir, name+".run"))
	if err == nil {
		err = json.Unmarshal(text, &run)
	}
	if err != nil {
		return run, nil, fmt.Errorf("%s: tests of this name were not run: %w", name, err)
	}
	events, err := os.Open(filepath.Join(dir, name+".json"))
	if err != nil {
		return run, nil, err
	}
	defer events.Close()
	record := &Record{}
	return run, record, record.Scan(events, io.Discard, nil)
}
