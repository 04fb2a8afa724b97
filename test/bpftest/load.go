// SPDX-License-Identifier: Apache-2.0

package bpftest

import (
	"bytes"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/polycube/polycube/test/netns"
)

// Load loads the maps and programs of a compiled object until the test ends: without the framework, for headers whose
// functions a test runs by themselves. It needs root.
func Load(t testing.TB, object []byte) *ebpf.Collection {
	t.Helper()
	netns.NeedRoot(t)
	spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(object))
	if err != nil {
		t.Fatal(err)
	}
	c, err := ebpf.NewCollection(spec)
	if err != nil {
		t.Fatalf("%+v", err)
	}
	t.Cleanup(c.Close)
	return c
}
