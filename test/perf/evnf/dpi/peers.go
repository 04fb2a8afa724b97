// SPDX-License-Identifier: Apache-2.0

package dpi

// The peers of edpi: programs in C that classify with the same library. They are compiled when they are needed.

import (
	"embed"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/perf/contest"
	"github.com/polycube/polycube/test/perf/lab"
)

//go:embed peers
var sources embed.FS

// Programs of the peers, and the libraries that each needs.
const (
	queueProgram  = "nfqueue"
	packetProgram = "packet"
)

var libraries = map[string][]string{queueProgram: {"-lnetfilter_queue"}, packetProgram: nil}

// compile compiles a peer into a directory.
func compile(dir, program string) (path string, err error) {
	if err := os.CopyFS(dir, sources); err != nil && !errors.Is(err, os.ErrExist) {
		return "", fmt.Errorf("sources of %s: %w", program, err)
	}
	flags, err := exec.Command("pkg-config", "--cflags", "--libs", "libndpi").Output()
	if err != nil {
		return "", fmt.Errorf("pkg-config libndpi: %w (run scripts/deps.sh build)", err)
	}
	path = filepath.Join(dir, program)
	from := filepath.Join(dir, "peers")
	args := append([]string{"-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-o", path, filepath.Join(from, program+".c"), filepath.Join(from, "flows.c")},
		strings.Fields(string(flags))...)
	if out, err := exec.Command("gcc", append(args, libraries[program]...)...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("gcc %s.c: %w (run scripts/deps.sh bench)\n%.2000s", program, err, out)
	}
	return path, nil
}

// peerCounts is struct counts of peers/flows.h.
type peerCounts struct{ Packets, Bytes, Inspected, Flows, Classified, Unknown, Lost, Ready uint64 }

// peer is a running program.
type peer struct {
	cmd  *exec.Cmd
	file *os.File // its counters
}

// run runs a peer on a machine, on the last CPU, until the rig closes.
func run(rig *lab.Rig, machine *netns.Namespace, program string, args ...string) (*peer, error) {
	dir := rig.TempDir()
	path, err := compile(dir, program)
	if err != nil {
		return nil, err
	}
	p := &peer{}
	counters := filepath.Join(dir, "counters")
	if p.file, err = os.OpenFile(counters, os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return nil, fmt.Errorf("counters of %s: %w", program, err)
	}
	rig.Closing(p.file)
	if err := p.file.Truncate(int64(binary.Size(peerCounts{}))); err != nil {
		return nil, fmt.Errorf("counters of %s: %w", program, err)
	}
	p.cmd = machine.Command("taskset", append([]string{"-c", strconv.Itoa(runtime.NumCPU() - 1), path, counters}, args...)...)
	said := &strings.Builder{}
	p.cmd.Stdout, p.cmd.Stderr = said, said
	end, err := p.cmd.StdinPipe() // when it is closed, the program ends
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", program, err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = p.cmd.Wait() // what it was, said says
	}()
	rig.Cleanup(func() {
		_ = end.Close() // it may have ended
		<-ended
		if said.Len() > 0 {
			rig.Error(fmt.Errorf("%s: %s: %w", program, said, contest.ErrLost))
		}
	})
	return p, p.ready(ended)
}

// ready waits until the program reads packets.
func (p *peer) ready(ended chan struct{}) error {
	for start := time.Now(); ; time.Sleep(time.Millisecond) {
		c, err := p.counts()
		if err != nil || c.Ready > 0 {
			return err
		}
		select {
		case <-ended:
			return errors.New("it has ended")
		default:
		}
		if time.Since(start) > time.Minute {
			return errors.New("it does not get ready")
		}
	}
}

func (p *peer) counts() (c peerCounts, err error) {
	err = binary.Read(io.NewSectionReader(p.file, 0, int64(binary.Size(c))), binary.NativeEndian, &c)
	if err != nil {
		return c, fmt.Errorf("counters: %w", err)
	}
	return c, nil
}

// settled waits until it has counted so many packets.
func (p *peer) settled(until uint64) error {
	return lab.Arriving(until, func() (uint64, error) {
		c, err := p.counts()
		return c.Packets, err
	})
}

func (p *peer) pids() []int { return []int{p.cmd.Process.Pid} }

func (p *peer) seen() (seen, error) {
	c, err := p.counts()
	return seen{packets: c.Packets, inspected: c.Inspected, flows: c.Flows, classified: c.Classified}, err
}
