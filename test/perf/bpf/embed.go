// SPDX-License-Identifier: Apache-2.0

// Package bpf contains the eBPF programs that only benchmarks need: the baselines that our data plane is compared with,
// the generator, the sink and the harnesses. `make objects` compiles them.
package bpf

import (
	"bytes"
	"embed"
	"fmt"

	"github.com/cilium/ebpf"

	"github.com/polycube/polycube/cube"
)

//go:embed *.o
var objects embed.FS

// Object returns the compiled file of a source for a hook.
func Object(name string, hook cube.Hook) ([]byte, error) {
	data, err := objects.ReadFile(name + "." + hook.String() + ".o")
	if err != nil {
		return nil, fmt.Errorf("program %s for %s: %w (run make objects)", name, hook, err)
	}
	return data, nil
}

// Spec parses the compiled file of a source for a hook.
func Spec(name string, hook cube.Hook) (*ebpf.CollectionSpec, error) {
	data, err := Object(name, hook)
	if err != nil {
		return nil, err
	}
	spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("program %s for %s: %w", name, hook, err)
	}
	return spec, nil
}
