// SPDX-License-Identifier: Apache-2.0

package link

import (
	"bytes"
	"os"
	"regexp"
	"strconv"
	"testing"

	"github.com/cilium/ebpf/btf"

	"github.com/polycube/polycube/cube"
)

// structOf returns a C struct as the framework's programs were compiled with it.
func structOf(t *testing.T, hook cube.Hook, name string) *btf.Struct {
	t.Helper()
	types, err := btf.LoadSpecFromReader(bytes.NewReader(coreBytes(t, hook)))
	if err != nil {
		t.Fatal(err)
	}
	var s *btf.Struct
	if err := types.TypeByName(name, &s); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return s
}

func TestOffsetsAreThoseOfTheStructs(t *testing.T) {
	offsets := map[string]map[string]int{
		"pcn_md": {
			"in_port": mdInPort - offMD, "out_port": mdOutPort - offMD, "reason": mdReason - offMD,
			"hops": mdHops - offMD, "packet_len": mdLen - offMD, "traffic_class": mdTrafficClass - offMD,
			"md": mdWords - offMD, "pass_ifindex": mdPassIfindex - offMD, "cube": mdCube - offMD,
		},
		"pcn_entry":  {"cube": 0, "port": 2, "page": 4, "slot": 6},
		"pcn_exit":   {"ifindex": 0, "page": 4, "slot": 6},
		"pcn_slot":   {"rx_packets": 0, "rx_bytes": 8, "tx_packets": slotTx, "tx_bytes": slotTx + 8},
		"pcn_resume": {"md": 0, "cube": mdSize, "target": mdSize + 2},
	}
	sizes := map[string]int{"pcn_md": mdSize, "pcn_slot": slotSize, "pcn_entry": 8, "pcn_exit": 8, "pcn_resume": 72}
	for _, hook := range []cube.Hook{cube.TC, cube.XDP} {
		for name, members := range offsets {
			s := structOf(t, hook, name)
			if want, ok := sizes[name]; ok && int(s.Size) != want {
				t.Errorf("%s: %s has %d bytes, the linker takes it for %d", hook, name, s.Size, want)
			}
			found := map[string]int{}
			for _, m := range s.Members {
				found[m.Name] = int(m.Offset.Bytes())
			}
			for member, want := range members {
				if got, ok := found[member]; !ok || got != want {
					t.Errorf("%s: %s.%s is at %d (there: %t), the linker takes it for %d", hook, name, member, got, ok, want)
				}
			}
		}
	}
	whose := map[string]effects{
		"in_port": 0, "out_port": 0, "reason": 0, "traffic_class": 0, "flow_hash": 0, "tenant": 0,
		"hops": writesFramework, "packet_len": writesFramework, "pass_ifindex": writesFramework,
		"reserved": writesFramework, "turns": writesFramework, "trace_id": writesFramework, "notes": 0, "cube": writesFramework, "pad2": writesFramework, "flags": writesFramework, "md": writesWords,
	}
	for _, m := range structOf(t, cube.TC, "pcn_md").Members {
		size, err := btf.Sizeof(m.Type)
		want, known := whose[m.Name]
		if got := on(int(m.Offset.Bytes()), size); err != nil || !known || got != want {
			t.Errorf("a write to md.%s has effects %d, want %d (%t, %v)", m.Name, got, want, known, err)
		}
	}
}

// TestContextOffsetsAreTheKernels holds the fields of the contexts to the headers' types.
func TestContextOffsetsAreTheKernels(t *testing.T) {
	for name, members := range map[string]map[string]int{
		"__sk_buff": {"len": skbLen, "mark": skbMark, "ifindex": skbIfindex, "tc_index": skbTCIndex},
		"xdp_md":    {"data": xdpData, "data_end": xdpDataEnd, "ingress_ifindex": xdpIngressIfindex},
	} {
		hook := cube.TC
		if name == "xdp_md" {
			hook = cube.XDP
		}
		for _, m := range structOf(t, hook, name).Members {
			if want, ok := members[m.Name]; ok && int(m.Offset.Bytes()) != want {
				t.Errorf("%s.%s is at %d, the linker takes it for %d", name, m.Name, m.Offset.Bytes(), want)
			}
		}
	}
}

func TestConstantsAreThoseOfTheHeaders(t *testing.T) {
	defines := map[string]int{}
	for _, header := range []string{"core/abi.h", "include/pcn/md.h"} {
		text, err := os.ReadFile("../../../bpf/" + header)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^#define (\w+) (\w+)`).FindAllSubmatch(text, -1) {
			if n, err := strconv.ParseInt(string(m[2]), 0, 64); err == nil {
				defines[string(m[1])] = int(n)
			}
		}
	}
	for name, want := range map[string]int{
		"PCN_MAX_CUBES": MaxCubes, "PCN_MAX_PORTS": MaxPorts, "PCN_PAGES": Pages, "PCN_SLOTS": Slots + 1,
		"PCN_ENTRIES": Entries, "PCN_MAX_HOPS": DefaultHops, "PCN_SKIP": skipMark, "PCN_SKIP_HOST": skipHost,
		"PCN_REDIRECTED": redirectMark, "PCN_EXIT_OWN": OwnExit, "PCN_OUTPUT_EGRESS": outputEgress,
	} {
		if got, ok := defines[name]; !ok || got != want {
			t.Errorf("%s is %d (there: %t), the linker takes it for %d", name, got, ok, want)
		}
	}
	if 1<<slotShift != slotSize {
		t.Errorf("slots have %d bytes, the linker shifts by %d", slotSize, slotShift)
	}
}

func TestEnumeratorsAreThoseOfTheHeaders(t *testing.T) {
	want := map[string]uint64{
		"PCN_REASON_UNSPECIFIED": reasonUnspecified, "PCN_REASON_PASS": reasonPass, "PCN_REASON_NO_PEER": reasonNoPeer,
		"PCN_REASON_BAD_PORT": reasonBadPort, "PCN_REASON_BAD_VERDICT": reasonBadVerdict,
		"PCN_REASON_HOP_LIMIT": reasonHopLimit, "PCN_REASON_NO_PROGRAM": reasonNoProgram,
		"PCN_REASON_REDIRECTED": reasonRedirected, "PCN_REASON_NO_OUTPUT": reasonNoOutput,
		"PCN_REASON_FIRST": reasonFirst, "PCN_REASON_MAX": reasonMax,
	}
	types, err := btf.LoadSpecFromReader(bytes.NewReader(coreBytes(t, cube.TC)))
	if err != nil {
		t.Fatal(err)
	}
	var e *btf.Enum
	if err := types.TypeByName("pcn_reason", &e); err != nil {
		t.Fatal(err)
	}
	for _, v := range e.Values {
		if n, ok := want[v.Name]; ok {
			if n != v.Value {
				t.Errorf("%s is %d, the linker takes it for %d", v.Name, v.Value, n)
			}
			delete(want, v.Name)
		}
	}
	for name := range want {
		t.Errorf("enum pcn_reason has no %s", name)
	}
	// No program of the framework uses these two enums, so they are not in its types.
	headers := map[string][]string{
		"../../../bpf/include/pcn/md.h": {"PCN_PASS", "PCN_SEND", "PCN_DROP", "PCN_FLOOD", "PCN_CONTROLLER"},
		"../../../bpf/core/abi.h":       {"PCN_TO_RX", "PCN_TO_TX", "PCN_TO_IN", "PCN_TO_IN_NEXT", "PCN_TO_OUT", "PCN_TO_OUT_NEXT"},
	}
	ours := map[string][]int{
		"../../../bpf/include/pcn/md.h": {verdictPass, verdictSend, verdictDrop, verdictFlood, verdictController},
		"../../../bpf/core/abi.h":       {targetRX, targetTX, targetIn, targetInNext, targetOut, targetOutNext},
	}
	for file, names := range headers {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for n, name := range names { // in this order, from 0, each on a line of its own
			at := regexp.MustCompile(`(?m)^\t` + name + `( =\s+` + strconv.Itoa(n) + `)?,`).FindIndex(text)
			if at == nil || ours[file][n] != n {
				t.Fatalf("%s: %s is not the enumerator %d, as the linker takes it (%d)", file, name, n, ours[file][n])
			}
			text = text[at[1]:]
		}
	}
}
