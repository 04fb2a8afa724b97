// SPDX-License-Identifier: Apache-2.0

package bpftest

import (
	"bytes"
	"encoding/binary"
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

// Exchange runs a program on a struct, behind an Ethernet header and two bytes, and reads what it has become. value is a
// pointer to it. The program returns 0.
func Exchange(t testing.TB, prog *ebpf.Program, value any) {
	t.Helper()
	const header = 16
	data, err := binary.Append(make([]byte, header), binary.NativeEndian, value)
	if err != nil {
		t.Fatal(err)
	}
	opts := ebpf.RunOptions{Data: data, DataOut: make([]byte, len(data)+256)}
	if verdict, err := prog.Run(&opts); err != nil || verdict != 0 {
		t.Fatalf("run the program: %d, %v", int32(verdict), err)
	}
	if _, err := binary.Decode(opts.DataOut[header:], binary.NativeEndian, value); err != nil {
		t.Fatal(err)
	}
}
