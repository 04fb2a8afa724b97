// SPDX-License-Identifier: Apache-2.0

// The classifier of a cube `edpi`.

package lab

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/cilium/ebpf"

	"github.com/polycube/polycube/dpi"
	"github.com/polycube/polycube/ring"
)

// NDPI is a running polycube-ndpi.
type NDPI struct {
	d      *Daemon
	name   string
	cmd    *exec.Cmd
	client *Client
	table  *ebpf.Map // what it tells the fast path
	reader *ebpf.Map // the page of the ring's reader
}

// Classify runs polycube-ndpi for a cube.
func (d *Daemon) Classify(name string) (*NDPI, error) {
	pins, err := d.PinsOf("edpi", name)
	if err != nil {
		return nil, err
	}
	n := &NDPI{d: d, name: name, client: d.Client()}
	if n.table, err = ebpf.LoadPinnedMap(filepath.Join(pins, "classifier"), nil); err != nil {
		return nil, fmt.Errorf("cube %s: %w", name, err)
	}
	d.rig.Closing(n.table)
	if n.reader, err = ebpf.LoadPinnedMap(filepath.Join(pins, "packets"+ring.ReaderSuffix), nil); err != nil {
		return nil, fmt.Errorf("cube %s: %w", name, err)
	}
	d.rig.Closing(n.reader)
	n.cmd = d.ns.Command(filepath.Join(d.bin, "polycube-ndpi"),
		"--cube", name, "--socket", d.socket(), "--bpffs", d.pins, "--control", n.control())
	if err := n.cmd.Start(); err != nil {
		return nil, fmt.Errorf("polycube-ndpi: %w", err)
	}
	d.rig.Cleanup(func() {
		_ = n.cmd.Process.Kill() // it may have ended
		_ = n.cmd.Wait()
	})
	return n, errors.Join(n.until("has no names", n.named), n.Settled())
}

func (n *NDPI) control() string { return filepath.Join(n.d.dir, "ndpi.sock") }

// PIDs are those of the processes that have work with packets: the program and the daemon.
func (n *NDPI) PIDs() []int { return []int{n.cmd.Process.Pid, n.d.cmd.Process.Pid} }

// Settled waits until the program sleeps: it has inspected all packets for which the fast path wakes it. Samples of flows that are
// classified wait in the ring until it wakes up the next time.
func (n *NDPI) Settled() error { return n.until("does not keep pace", n.sleeps) }

// sleeps reads the first word of the reader's page (struct pcn_ring_reader).
func (n *NDPI) sleeps() (bool, error) {
	page := make([]byte, n.reader.ValueSize())
	err := n.reader.Lookup(uint32(0), page)
	return err == nil && binary.NativeEndian.Uint32(page) != 0, err
}

// named is whether the daemon knows the program's names.
func (n *NDPI) named() (bool, error) {
	var c dpi.Classifier
	err := n.table.Lookup(uint32(0), &c)
	return c.Names != 0 && c.Accepted == c.Names, err
}

// until waits for the program.
func (n *NDPI) until(otherwise string, is func() (bool, error)) error {
	for start := time.Now(); ; time.Sleep(500 * time.Microsecond) {
		if ok, err := is(); ok || err != nil {
			return err
		}
		if time.Since(start) > answerWithin {
			return fmt.Errorf("polycube-ndpi %s: %w", otherwise, context.DeadlineExceeded)
		}
	}
}

// NDPIStatus is what the program and its cube have counted.
type NDPIStatus struct {
	// Packets were inspected, of Started flows, of which Decided are classified, Unknown of them in vain.
	Packets, Started, Decided, Unknown uint64
	// Lost packets found the ring full.
	Lost uint64
}

// Status asks for it.
func (n *NDPI) Status() (s NDPIStatus, err error) {
	cmd := exec.CommandContext(n.d.rig.Context(), filepath.Join(n.d.bin, "polycube-ndpi"), "status", "--json", "--control", n.control())
	text, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	if err != nil {
		return s, fmt.Errorf("polycube-ndpi status: %w", err)
	}
	return s, n.read("statistics/not-inspected", &s.Lost)
}

// Accounted is the number of all packets that the cube has counted by protocol.
func (n *NDPI) Accounted() (sum uint64, err error) {
	var rows []struct {
		Packets uint64 `json:"packets"`
	}
	err = n.read("protocol", &rows)
	for _, r := range rows {
		sum += r.Packets
	}
	return sum, err
}

// read reads state of the cube.
func (n *NDPI) read(path string, into any) error {
	_, answer, _, err := n.client.Do(http.MethodGet, "/edpi/"+n.name+"/"+path, "")
	if err == nil {
		err = json.Unmarshal(bytes.Trim(answer, "\"\n"), into)
	}
	if err != nil {
		return fmt.Errorf("%s of %s: %w", path, n.name, err)
	}
	return nil
}
