// SPDX-License-Identifier: Apache-2.0

package state

import (
	"bytes"
	"fmt"

	"github.com/cilium/ebpf/btf"

	"github.com/polycube/polycube/bpf/core"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath/bpfmap"
)

// Saved objects must have the same struct pcn_md as this framework.

// metadataOf returns the struct pcn_md with which an object was compiled.
func metadataOf(elf []byte) (*btf.Struct, error) {
	spec, err := btf.LoadSpecFromReader(bytes.NewReader(elf))
	if err != nil {
		return nil, fmt.Errorf("types of an object: %w", err)
	}
	var md *btf.Struct
	if err := spec.TypeByName("pcn_md", &md); err != nil {
		return nil, fmt.Errorf("types of an object: %w", err)
	}
	return md, nil
}

// sameMetadata refuses an object that was compiled with another struct pcn_md.
func sameMetadata(elf []byte) error {
	was, err := metadataOf(elf)
	if err != nil {
		return err
	}
	ours, err := core.Objects.ReadFile("core.tc.o")
	if err != nil {
		return fmt.Errorf("framework programs: %w (run make generate)", err)
	}
	is, err := metadataOf(ours)
	if err != nil {
		return err
	}
	return extends(was, is)
}

// extends reports whether a struct is an earlier one, some of whose reserved space is now used.
func extends(was, is *btf.Struct) error {
	if was.Size != is.Size {
		return fmt.Errorf("struct %s had %d bytes, and has %d: %w", was.Name, was.Size, is.Size, cube.ErrUnsupported)
	}
	there := map[string]bool{}
	for _, m := range is.Members {
		there[bpfmap.Members([]btf.Member{m})] = true
	}
	for _, m := range was.Members {
		if what := bpfmap.Members([]btf.Member{m}); m.Name != "reserved" && !there[what] {
			return fmt.Errorf("struct %s had %s: %w", was.Name, what, cube.ErrUnsupported)
		}
	}
	return nil
}
