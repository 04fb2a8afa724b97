// SPDX-License-Identifier: Apache-2.0

package link

import (
	"slices"

	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"

	"github.com/polycube/polycube/internal/kernel"
)

// guard is Guard, if the kernel needs it.
func (cp copier) guard(body asm.Instructions) asm.Instructions {
	if cp.kernel.NonNullArgs {
		return body
	}
	return Guard(body)
}

// Guard inserts a NULL test of each argument tagged arg:nonnull at the start of a global function, for kernels whose
// verifier does not know the tag (kernel.Features): they verify such a function as if a caller could pass NULL. None
// does, so the test costs a comparison, and its return value is never used.
func Guard(body asm.Instructions) asm.Instructions {
	fn := btf.FuncMetadata(&body[0])
	if fn == nil || fn.Linkage != btf.GlobalFunc {
		return body
	}
	var tests asm.Instructions
	for i, tags := range fn.ParamTags {
		if slices.Contains(tags, kernel.NonNullTag) {
			present := asm.JNE.Imm(asm.R1+asm.Register(i), 0, "")
			present.Offset = 2
			tests = append(tests, present, asm.Mov.Imm(asm.R0, 0), asm.Return())
		}
	}
	if len(tests) == 0 {
		return body
	}
	tests[0] = btf.WithFuncMetadata(tests[0], fn).WithSymbol(body[0].Symbol())
	if source := body[0].Source(); source != nil {
		tests[0] = tests[0].WithSource(source)
	}
	if _, o := starts(&body[0]); o != nil {
		tests[0] = from(tests[0], *o)
	}
	rest := slices.Clone(body)
	rest[0] = btf.WithFuncMetadata(rest[0], nil).WithSymbol("")
	// A loop that begins at the start of the function stays after the tests: by then the registers contain other
	// values.
	head := body[0].Symbol() + ".head"
	for i := range rest {
		if rest[i].OpCode.Class().IsJump() && !isCall(&rest[i]) && rest[i].Reference() == body[0].Symbol() {
			rest[i] = rest[i].WithReference(head)
			rest[0] = rest[0].WithSymbol(head)
		}
	}
	return append(tests, rest...)
}
