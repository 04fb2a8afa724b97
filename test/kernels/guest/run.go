// SPDX-License-Identifier: Apache-2.0

package guest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Run runs the plan that is on the disk, in the machine.
func Run() error {
	if err := modprobe("virtio_console"); err != nil {
		return err
	}
	port, err := waitForPort()
	if err != nil {
		return err
	}
	defer port.Close()
	data, err := os.ReadFile(PlanFile)
	if err != nil {
		return err
	}
	var p Plan
	if err := json.Unmarshal(data, &p); err != nil {
		return fmt.Errorf("%s: %w", PlanFile, err)
	}
	return p.Run(port)
}

// portWithin is how long the host may take to tell the driver of the port. An emulated machine is slow.
const portWithin = 30 * time.Second

// waitForPort opens the serial port once it is there: the driver learns of ports after it has been loaded.
func waitForPort() (*os.File, error) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(portWithin); ; <-tick.C {
		port, err := openPort()
		if err == nil || time.Now().After(end) {
			return port, err
		}
	}
}

// openPort finds the serial port by its name: its number depends on the kernel's mood.
func openPort() (*os.File, error) {
	names, err := filepath.Glob("/sys/class/virtio-ports/*/name")
	if err != nil {
		return nil, err
	}
	for _, file := range names {
		name, err := os.ReadFile(file)
		if err == nil && strings.TrimSpace(string(name)) == Port {
			return os.OpenFile(filepath.Join("/dev", filepath.Base(filepath.Dir(file))), os.O_WRONLY, 0)
		}
	}
	return nil, fmt.Errorf("the serial port %s is missing; found %v", Port, names)
}

// Run loads the modules and runs the steps; events are written to out, one frame per line.
func (p Plan) Run(out io.Writer) error {
	w := &writer{to: out}
	stop := w.heartbeat()
	defer stop()
	for _, m := range p.Modules {
		if err := modprobe(m); err != nil {
			w.frame(Frame{Kind: Note, Text: err.Error()})
		}
	}
	for _, s := range p.Steps {
		w.frame(Frame{Kind: Begin, Step: s.Name})
		code, err := s.run(p.Env, w)
		end := Frame{Kind: End, Step: s.Name, Code: code}
		if err != nil {
			end.Text = err.Error()
		}
		w.frame(end)
	}
	w.frame(Frame{Kind: Done})
	return w.err
}

// run runs a step to its end, and returns its exit status, or -1 and the reason why there is none.
func (s Step) run(env []string, w *writer) (int, error) {
	ctx, cancel := context.WithTimeout(context.Background(), s.Within)
	defer cancel()
	cmd := exec.CommandContext(ctx, s.Args[0], s.Args[1:]...)
	cmd.Dir = s.Dir
	cmd.Env = append(append(os.Environ(), env...), s.Env...)
	cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGKILL) }
	cmd.WaitDelay = 10 * time.Second // a daemon left behind may keep the output open
	out := stepWriter{w, s.Name}
	cmd.Stdout, cmd.Stderr = out, out
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return -1, fmt.Errorf("killed after %v", s.Within)
	case errors.As(err, &exit) && exit.Exited():
		return exit.ExitCode(), nil
	case errors.Is(err, exec.ErrWaitDelay):
		return -1, errors.New("ended, but left a process behind that holds its output open")
	case err != nil:
		return -1, err
	}
	return 0, nil
}

// writer writes frames, whole ones, from several goroutines.
type writer struct {
	mu  sync.Mutex
	to  io.Writer
	err error
}

func (w *writer) frame(f Frame) {
	line, err := json.Marshal(f)
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil {
		_, err = w.to.Write(append(line, '\n'))
	}
	if w.err == nil {
		w.err = err
	}
}

// heartbeat writes a frame every few seconds, until the returned function is called.
func (w *writer) heartbeat() (stop func()) {
	done := make(chan struct{})
	go func() {
		tick := time.NewTicker(Heartbeat)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				w.frame(Frame{Kind: Alive})
			case <-done:
				return
			}
		}
	}()
	return func() { close(done) }
}

type stepWriter struct {
	w    *writer
	step string
}

func (s stepWriter) Write(p []byte) (int, error) {
	s.w.frame(Frame{Kind: Output, Step: s.step, Data: p})
	return len(p), nil
}
