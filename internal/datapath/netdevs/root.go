// SPDX-License-Identifier: Apache-2.0

package netdevs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath/bpfmap"
	"github.com/polycube/polycube/internal/datapath/framework"
	"github.com/polycube/polycube/internal/datapath/link"
)

// kind is an attachment point of a netdev for a root program.
type kind string

// The kinds.
const (
	kindXDP     kind = "xdp"
	kindGeneric kind = "xdpskb" // generic XDP, which shares the attachment point with native
	kindIngress kind = "tcin"
	kindEgress  kind = "tcout"
	// Between a netdev and the host's stack: behind kindIngress, and in front of kindEgress.
	kindHostIn  kind = "hostin"
	kindHostOut kind = "hostout"
)

func (k kind) hook() cube.Hook {
	if k.place() == kindXDP {
		return cube.XDP
	}
	return cube.TC
}

// place is an attachment point that takes only one program.
func (k kind) place() kind {
	if k == kindGeneric {
		return kindXDP
	}
	return k
}

// mode is the type of cubes for which the kind is attached, "" at TC.
func (k kind) mode() cube.Type {
	switch k {
	case kindXDP:
		return cube.TypeXDPDRV
	case kindGeneric:
		return cube.TypeXDPSKB
	case kindIngress, kindEgress, kindHostIn, kindHostOut:
	}
	return ""
}

// outward reports whether the kind gets what the host sends.
func (k kind) outward() bool { return k == kindEgress || k == kindHostOut }

// atHost reports whether the kind is between the netdev and the host's stack.
func (k kind) atHost() bool { return k == kindHostIn || k == kindHostOut }

// constants are those of the root program of the kind.
func (k kind) constants(secret uint64) map[string]any {
	out := map[string]any{}
	if k == kindGeneric {
		out["pcn_secret"] = secret
	}
	if k.atHost() {
		out["pcn_at_host"] = uint32(1)
	}
	if k == kindIngress || k == kindHostOut {
		out["pcn_before"] = uint32(1)
	}
	return out
}

// programs are those of a segment.
type programs interface {
	// Program returns the program of a hook that has a role, nil if there is none.
	Program(h cube.Hook, r link.Role) *ebpf.Program
}

// of returns the program of a segment that the kind leads to, nil if there is none.
func (k kind) of(p programs) *ebpf.Program {
	if k.outward() {
		return p.Program(cube.TC, link.OnEgress)
	}
	return p.Program(k.hook(), link.OnIngress)
}

// root is a root program, shared by netdevs of one component, with the slot it enters.
type root struct {
	id   int
	kind kind
	prog *ebpf.Program
	slot *ebpf.Map
	dir  string
	into programs // the program in the slot; nil: that of a previous daemon
}

// newRoot loads and pins a root program. Its slot is filled before it is attached anywhere.
func (n *Netdevs) newRoot(k kind, into *ebpf.Program) (*root, error) {
	n.lastRoot++
	r := &root{id: n.lastRoot, kind: k}
	r.dir = filepath.Join(n.dir, "roots", fmt.Sprintf("%d-%s", r.id, k))
	if err := bpfmap.EnsureDir(r.dir); err != nil {
		return nil, err
	}
	err := r.load(n.fw)
	if err == nil {
		err = r.slot.Put(uint32(0), into)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("root program: %w", err), n.collect.OrLater(r.remove))
	}
	return r, nil
}

func (r *root) load(fw *framework.Framework) (err error) {
	spec := fw.Roots[r.kind.hook()]
	if r.slot, err = bpfmap.Open(filepath.Join(r.dir, "slot"), spec.Maps["pcn_slot"]); err != nil {
		return err
	}
	r.prog, err = fw.LoadOne(spec, "pcn_root", map[string]*ebpf.Map{"pcn_slot": r.slot}, r.kind.constants(fw.Secret))
	if err != nil {
		return err
	}
	return r.prog.Pin(filepath.Join(r.dir, "prog"))
}

// remove removes the root; nothing may be attached to it.
func (r *root) remove() error {
	if r.prog != nil {
		_ = r.prog.Close()
	}
	if r.slot != nil {
		_ = r.slot.Close()
	}
	if err := os.RemoveAll(r.dir); err != nil {
		return fmt.Errorf("remove root program: %w", err)
	}
	return nil
}

func (r *root) close() {
	_ = r.prog.Close()
	_ = r.slot.Close()
}

// openRoots reopens the roots of a previous daemon, by program ID.
func (n *Netdevs) openRoots() (map[ebpf.ProgramID]*root, error) {
	entries, err := os.ReadDir(filepath.Join(n.dir, "roots"))
	if err != nil {
		return nil, fmt.Errorf("read roots: %w", err)
	}
	out := map[ebpf.ProgramID]*root{}
	for _, e := range entries {
		number, k, _ := strings.Cut(e.Name(), "-")
		id, err := strconv.Atoi(number)
		if err != nil {
			continue
		}
		n.lastRoot = max(n.lastRoot, id)
		r := &root{id: id, kind: kind(k), dir: filepath.Join(n.dir, "roots", e.Name())}
		progID, err := r.reopen()
		if err != nil {
			n.log.Warn("remove a root program that cannot be reopened", "root", e.Name(), "err", err)
			if err := os.RemoveAll(r.dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, fmt.Errorf("remove root %s: %w", e.Name(), err)
			}
			continue
		}
		out[progID] = r
	}
	return out, nil
}

func (r *root) reopen() (ebpf.ProgramID, error) {
	var err error
	if r.slot, err = ebpf.LoadPinnedMap(filepath.Join(r.dir, "slot"), nil); err != nil {
		return 0, err
	}
	if r.prog, err = ebpf.LoadPinnedProgram(filepath.Join(r.dir, "prog"), nil); err != nil {
		_ = r.slot.Close()
		return 0, err
	}
	info, err := r.prog.Info()
	if err != nil {
		r.close()
		return 0, err
	}
	id, _ := info.ID()
	return id, nil
}
