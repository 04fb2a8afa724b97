// SPDX-License-Identifier: Apache-2.0

// A real daemon in a namespace, with its own directories and pins.

package lab

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/cilium/ebpf"

	"github.com/polycube/polycube/test/netns"
)

// Daemon is a polycubed, or the place where one runs.
type Daemon struct {
	rig  *Rig
	ns   *netns.Namespace
	bin  string
	dir  string
	pins string
	http *http.Client

	cmd *exec.Cmd
	out bytes.Buffer // read when the process has ended
}

// answerWithin is how long the daemon may take to start.
const answerWithin = time.Minute

// NewDaemon prepares a place for a daemon; bin is the directory of the programs.
func (r *Rig) NewDaemon(ns *netns.Namespace, bin string) (*Daemon, error) {
	abs, err := filepath.Abs(bin)
	if err == nil {
		_, err = os.Stat(filepath.Join(abs, "polycubed"))
	}
	if err != nil {
		return nil, fmt.Errorf("the daemon's program: %w (run make build)", err)
	}
	d := &Daemon{rig: r, ns: ns, bin: abs, dir: r.TempDir(), pins: filepath.Join(netns.Bpffs(r), "pins")}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		var dialer net.Dialer
		return dialer.DialContext(ctx, "unix", d.socket())
	}
	d.http = &http.Client{Timeout: longest, Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}
	r.Cleanup(func() {
		if err := d.end(); err != nil {
			r.Error(err)
		}
	})
	return d, nil
}

func (d *Daemon) socket() string { return filepath.Join(d.dir, "run", "polycubed.sock") }

func (d *Daemon) options() []string {
	return []string{"--configfile", "/dev/null", "--instance", fmt.Sprintf("bench%d", os.Getpid()), "--run-dir", filepath.Join(d.dir, "run"),
		"--state-dir", filepath.Join(d.dir, "state"), "--bpffs", d.pins, "--rate-limit", "0"}
}

// Start runs the daemon and returns how long it took to answer.
func (d *Daemon) Start() (time.Duration, error) {
	d.out.Reset()
	d.cmd = d.ns.Command(filepath.Join(d.bin, "polycubed"), d.options()...)
	d.cmd.Stdout, d.cmd.Stderr = &d.out, &d.out
	start := time.Now()
	if err := d.cmd.Start(); err != nil {
		d.cmd = nil
		return 0, fmt.Errorf("starting the daemon: %w", err)
	}
	for {
		err := d.answers()
		took := time.Since(start)
		if err == nil {
			return took, nil
		}
		if took > answerWithin {
			return 0, errors.Join(fmt.Errorf("the daemon does not answer: %w", err), d.Kill())
		}
		time.Sleep(time.Millisecond)
	}
}

func (d *Daemon) answers() error {
	resp, err := d.http.Get("http://polycubed/polycube/v1/version")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusOK {
		return errors.Join(err, fmt.Errorf("status %s", resp.Status))
	}
	return nil
}

// Kill ends the daemon without a chance to clean up.
func (d *Daemon) Kill() error {
	if d.cmd == nil {
		return nil
	}
	err := d.cmd.Process.Kill()
	_ = d.cmd.Wait() // its output says that the process was killed
	d.cmd = nil
	return err
}

// end kills the daemon and removes what it left in the kernel.
func (d *Daemon) end() error {
	err := d.Kill()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(d.rig.Context()), answerWithin)
	defer cancel()
	args := append([]string{"--net=" + d.ns.Path(), "--", filepath.Join(d.bin, "polycubed"), "cleanup"}, d.options()...)
	if out, cerr := exec.CommandContext(ctx, "nsenter", args...).CombinedOutput(); cerr != nil {
		err = errors.Join(err, fmt.Errorf("cleaning up after the daemon: %w\n%s", cerr, out))
	}
	return err
}

// Ctl runs polycubectl with a body on its standard input and returns its output.
func (d *Daemon) Ctl(body string, args ...string) (string, error) {
	cmd := exec.CommandContext(d.rig.Context(), filepath.Join(d.bin, "polycubectl"), args...)
	cmd.Env = append(os.Environ(), "POLYCUBECTL_SOCKET="+d.socket(), "POLYCUBECTL_URL=", "HOME="+d.dir)
	if body != "" {
		cmd.Stdin = strings.NewReader(body)
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("polycubectl %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return string(out), nil
}

// PinsOf is the directory of the pins of a cube's own maps.
func (d *Daemon) PinsOf(service, cube string) (string, error) {
	_, answer, _, err := d.Client().Do(http.MethodGet, "/"+service+"/"+cube+"/uuid", "")
	if err != nil {
		return "", err
	}
	var uuid string
	if err := json.Unmarshal(answer, &uuid); err != nil {
		return "", fmt.Errorf("UUID of cube %s: %w", cube, err)
	}
	return filepath.Join(d.pins, "cubes", uuid), nil
}

// Request sends a body to a path of the API.
func (d *Daemon) Request(method, path, body string) error {
	req, err := http.NewRequestWithContext(d.rig.Context(), method, "http://polycubed/polycube/v1"+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := d.http.Do(req)
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode >= http.StatusBadRequest {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 4096)) // the status is sufficient
		return fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, text)
	}
	return nil
}

// Inlined waits until cubes run inlined, as they do a moment after a change.
func (d *Daemon) Inlined(names ...string) error {
	for _, name := range names {
		if reason, err := d.linked(name, func(string) bool { return false }); err != nil {
			return err
		} else if reason != "" {
			return fmt.Errorf("cube %s does not run inlined: %s", name, reason) //nolint:err113 // the daemon's words
		}
	}
	return nil
}

// Linked waits until a cube runs as it will, and returns why that is not inlined, or "".
func (d *Daemon) Linked(name string) (reason string, err error) {
	return d.linked(name, func(reason string) bool { return strings.Contains(reason, "verifier refuses") })
}

// linked waits until a cube runs inlined, or final says that it never will. It returns the reason why it does not.
func (d *Daemon) linked(name string, final func(reason string) bool) (reason string, err error) {
	c := d.Client()
	for start := time.Now(); ; time.Sleep(time.Millisecond) {
		_, answer, _, err := c.Do(http.MethodGet, "/cubes/"+name+"/stats", "")
		if err != nil {
			return "", err
		}
		var stats struct {
			Mode   string `json:"mode"`
			Reason string `json:"mode-reason"`
		}
		if err := json.Unmarshal(answer, &stats); err != nil {
			return "", fmt.Errorf("how %s runs: %w", name, err)
		}
		if stats.Mode == "inline" {
			return "", nil
		}
		if time.Since(start) > answerWithin || final(stats.Reason) {
			return stats.Reason, nil
		}
	}
}

// Memory is the memory of a daemon, in bytes.
type Memory struct {
	// Resident is the process's memory, Private the part that is no file's.
	Resident, Private uint64
	// Maps is the kernel memory of the maps that the process holds, Programs of its programs, with their translated code.
	Maps, Programs uint64
}

// Memory reads it.
func (d *Daemon) Memory() (Memory, error) { return MemoryOf(d.cmd.Process.Pid) }

// MemoryOf reads the memory of a process that is a daemon, or does the same.
func MemoryOf(pid int) (Memory, error) {
	var m Memory
	proc := filepath.Join("/proc", strconv.Itoa(pid))
	status, err := fields(filepath.Join(proc, "status"))
	if err != nil {
		return m, fmt.Errorf("memory of the daemon: %w", err)
	}
	m.Resident, m.Private = status["VmRSS"]*1024, status["RssAnon"]*1024
	entries, err := os.ReadDir(filepath.Join(proc, "fdinfo"))
	if err != nil {
		return m, fmt.Errorf("memory of the daemon: %w", err)
	}
	maps, programs := map[uint64]uint64{}, map[uint64]uint64{} // by ID
	for _, e := range entries {
		info, err := fields(filepath.Join(proc, "fdinfo", e.Name()))
		if err != nil {
			continue // closed meanwhile
		}
		if id, ok := info["map_id"]; ok {
			if err := addMap(maps, ebpf.MapID(id)); err != nil {
				return m, err
			}
		} else if id, ok := info["prog_id"]; ok {
			code, err := translated(ebpf.ProgramID(id))
			if err != nil {
				return m, err
			}
			programs[id] = info["memlock"] + code
		}
	}
	for _, n := range maps {
		m.Maps += n
	}
	for _, n := range programs {
		m.Programs += n
	}
	return m, nil
}

// translated returns the size of a program's machine code.
func translated(id ebpf.ProgramID) (uint64, error) {
	p, err := ebpf.NewProgramFromID(id)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil // it is gone
	}
	if err != nil {
		return 0, fmt.Errorf("memory of program %d: %w", id, err)
	}
	defer func() { _ = p.Close() }()
	info, err := p.Info()
	if err != nil {
		return 0, fmt.Errorf("memory of program %d: %w", id, err)
	}
	size, err := info.JitedSize()
	if err != nil {
		return 0, fmt.Errorf("memory of program %d: %w", id, err)
	}
	return uint64(size), nil
}

// addMap adds the kernel memory of a map, and of its inner maps.
func addMap(sizes map[uint64]uint64, id ebpf.MapID) error {
	if _, ok := sizes[uint64(id)]; ok {
		return nil
	}
	m, err := ebpf.NewMapFromID(id)
	if errors.Is(err, os.ErrNotExist) {
		return nil // it is gone
	}
	if err != nil {
		return fmt.Errorf("memory of map %d: %w", id, err)
	}
	defer func() { _ = m.Close() }()
	info, err := m.Info()
	if err != nil {
		return fmt.Errorf("memory of map %d: %w", id, err)
	}
	size, _ := info.Memlock()
	sizes[uint64(id)] = size
	if m.Type() != ebpf.ArrayOfMaps && m.Type() != ebpf.HashOfMaps {
		return nil
	}
	var key []byte
	var inner ebpf.MapID
	all := m.Iterate()
	for all.Next(&key, &inner) {
		if err := addMap(sizes, inner); err != nil {
			return err
		}
	}
	if err := all.Err(); err != nil {
		return fmt.Errorf("maps inside map %d: %w", id, err)
	}
	return nil
}

// fields reads the "name: number" lines of a file of /proc.
func fields(path string) (map[string]uint64, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	out := map[string]uint64{}
	for s := bufio.NewScanner(f); s.Scan(); {
		name, rest, _ := strings.Cut(s.Text(), ":")
		words := strings.Fields(rest)
		if len(words) == 0 {
			continue
		}
		if n, err := strconv.ParseUint(words[0], 10, 64); err == nil {
			out[name] = n
		}
	}
	return out, nil
}

// CPU is the time that the daemon's threads have used so far.
func (d *Daemon) CPU() (time.Duration, error) {
	ns, err := threadsTime(d.cmd.Process.Pid)
	return time.Duration(ns), err
}

// threadsTime is the CPU time in ns that the threads of a process have used so far.
func threadsTime(pid int) (int64, error) {
	tasks, err := filepath.Glob(filepath.Join("/proc", strconv.Itoa(pid), "task", "*", "schedstat"))
	if err != nil {
		return 0, fmt.Errorf("time of process %d: %w", pid, err)
	}
	var sum int64
	for _, task := range tasks {
		text, err := os.ReadFile(task)
		if err != nil {
			continue // the thread has ended
		}
		var ns int64
		if _, err := fmt.Sscan(string(text), &ns); err != nil {
			return 0, fmt.Errorf("time of process %d: %s: %w", pid, task, err)
		}
		sum += ns
	}
	return sum, nil
}

// ProcessTime is the CPU time in ns that the threads of a process have used so far.
func ProcessTime(pid int) (int64, error) { return threadsTime(pid) }
