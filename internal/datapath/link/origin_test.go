// SPDX-License-Identifier: Apache-2.0

package link

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"

	"github.com/polycube/polycube/cube"
)

// inlinedLabel is in the copy of a cube's body in the driver, placed that of what stands around it.
var (
	inlinedLabel = regexp.MustCompile(`^(?:in|out)\.(\d+)(?::\d+)?'?\.b\d*$`)
	functionCopy = regexp.MustCompile(`^c(\d+)[io]\d*_(\w+)$`)
)

func TestEachInstructionIsKnownByItsAuthor(t *testing.T) {
	g := new(graph).cubes(2)
	g.link(1, 2)
	for _, c := range g.Cubes {
		c.Name, c.Service = fmt.Sprintf("cube%d", c.ID), "scripted"
	}
	inBothModes(t, g, func(t *testing.T, m *machine) {
		for _, role := range []Role{OnIngress, OnResume} {
			insns := m.program(role)
			of, seen := Origin{Function: driverName}, map[Origin]int{}
			inBody := false
			for i, p := range Places(insns) {
				symbol := insns[i].Symbol()
				fn := btf.FuncMetadata(&insns[i])
				body, copied := inlinedLabel.FindStringSubmatch(symbol), functionCopy.FindStringSubmatch(symbol)
				switch {
				case copied != nil:
					of, inBody = Origin{"cube" + copied[1], "scripted", copied[2]}, false
				case fn != nil:
					of, inBody = Origin{Function: fn.Name}, false
				case body != nil:
					of, inBody = Origin{"cube" + body[1], "scripted", Ingress}, true
				case symbol != "" && inBody:
					of, inBody = Origin{Function: driverName}, false
				}
				seen[of]++
				if p.Origin != of {
					t.Fatalf("%s: instruction %d (%s) is taken for %+v, want %+v", role, i, symbol, p.Origin, of)
				}
			}
			for _, c := range g.Cubes {
				if seen[Origin{c.Name, "scripted", Ingress}] == 0 {
					t.Errorf("%s: nothing is of %s: %v", role, c.Name, seen)
				}
			}
			if seen[Origin{Function: driverName}] == 0 {
				t.Errorf("%s: nothing is the driver's: %v", role, seen)
			}
		}
	})
}

// The framework's functions are compiled from C, which says where its lines are; headers are told from the file itself.
func TestLinesOfCompiledCodeAreKept(t *testing.T) {
	for _, hook := range []cube.Hook{cube.TC, cube.XDP} {
		f := coreObject(t, hook).Functions["pcn_core_flood"]
		places := Places(f.Body)
		home, headers := 0, 0
		for i, p := range places {
			if p.Subprogram != 0 || p.Function != "pcn_core_flood" {
				t.Fatalf("instruction %d is in function %d, %s", i, p.Subprogram, p.Function)
			}
			switch {
			case strings.HasSuffix(p.Line.File, ".h"):
				headers++
				if p.Caller.File != "" && p.Caller.File != "bpf/core/core.bpf.c" {
					t.Errorf("%s is used by %s", p.Line, p.Caller)
				}
			case p.Line.File != "bpf/core/core.bpf.c" || p.Line.Number == 0 && p.Line.Text != "":
				t.Errorf("instruction %d is of %s", i, p.Line)
			default:
				home++
				if p.Caller.File != "" {
					t.Errorf("%s, which is no header, is used by %s", p.Line, p.Caller)
				}
			}
		}
		if home == 0 || headers == 0 {
			t.Errorf("%s: %d instructions of the file, %d of headers", hook, home, headers)
		}
	}
}
