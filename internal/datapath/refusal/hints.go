// SPDX-License-Identifier: Apache-2.0

package refusal

import "regexp"

// The verifier's messages are about registers. An author's remedies are about C, and always the same.

// Classes of reasons for which more details are determined.
var (
	stackReason = regexp.MustCompile(`combined stack size|call stack of previous frames|call stack of \d+ frames|^stack limit|stack frames`)
	sizeReason  = regexp.MustCompile(`BPF program is too large|too complex`)
)

func aboutStack(sentence string) bool { return stackReason.MatchString(sentence) }
func tooMuch(sentence string) bool    { return sizeReason.MatchString(sentence) }

// hint is a possible remedy, "" if none is known.
func hint(sentence string) string {
	for _, h := range hints {
		if h.says.MatchString(sentence) {
			return h.hint
		}
	}
	return ""
}

// hints are checked in order: specific ones precede general ones.
var hints = []struct {
	says *regexp.Regexp
	hint string
}{
	{regexp.MustCompile(`combined stack size`),
		"the functions of a chain of calls share 512 bytes of stack, of which the framework takes a hundred at the top. Keep large " +
			"variables in a PCN_MAP (a per-CPU array of one entry), or let large functions be called one after the other rather " +
			"than from each other: locals of a PCN_NOINLINE or PCN_GLOBAL function take stack only while it runs."},
	{regexp.MustCompile(`tail_calls are not allowed when call stack`),
		"a function that is called when much stack is in use must not make a tail call: return from it first, or make its caller's variables smaller."},
	{regexp.MustCompile(`call stack of \d+ frames`),
		"calls may be nested eight deep, the framework's included: make small functions PCN_INLINE."},
	{regexp.MustCompile(`invalid (?:write to|read from|indirect access to|indirect read from|indirect write to)? ?(?:variable-offset )?(?:write to |read from )?stack|invalid indirect.* stack`),
		"a variable on the stack is accessed outside its bounds, or read where not all of its bytes have been set: bound the " +
			"index before it is used, and set the whole variable first ({} leaves the padding of a struct as it was: use __builtin_memset)."},
	{regexp.MustCompile(`'mem_or_null'`),
		"a function that the kernel verifies by itself (PCN_GLOBAL) cannot know that its argument is not NULL: mark the argument " +
			"PCN_NONNULL, or test it for NULL at the head of the function."},
	{regexp.MustCompile(`_or_null'?|[Pp]ossibly NULL pointer`),
		"the pointer may be NULL, as a lookup returns it where there is no entry: test it, and use it only where the test says it is not NULL."},
	{regexp.MustCompile(`invalid mem access '(?:scalar|inv)'`),
		"what is used as a pointer is only a number to the verifier. If it points into the packet, a helper since then may have moved the " +
			"packet's bytes (each says so in its reference): read the pointer again behind it. Else a test for NULL was left out or went the wrong way, or " +
			"the pointer was computed in a way that the verifier does not follow."},
	{regexp.MustCompile(`invalid access to (?:map value|memory)`),
		"the access is outside of the object that the pointer points to: bound the index by the number of elements, as a constant."},
	{regexp.MustCompile(`invalid access to packet|outside of the packet`),
		"nothing proves that these bytes are in the packet: take them with pcn_cursor_take, or compare with pcn_data_end directly before. " +
			"After a helper that moves the packet's bytes, compare again."},
	{regexp.MustCompile(`zero-sized read`),
		"the size may be 0: return before the call unless it is at least 1. If it is tested already, the compiler may have made one " +
			"comparison of two (n - 1 for n < 1 || n > max), whose bounds not every kernel carries over to n: make n signed, of 64 bits, and keep the two apart by " +
			"asm volatile(\"\" : \"+r\"(n)) in between."},
	{regexp.MustCompile(`cannot return stack pointer`),
		"no caller uses what the function returns, so the compiler leaves in the register what happens to be there, which is a " +
			"pointer to the stack: use the value in the caller, or make the function PCN_INLINE."},
	{regexp.MustCompile(`min value is negative|unbounded min value`),
		"the size or index may be negative: make the variable unsigned (__u32), and bound it directly before it is used (if (n > MAX) return ...)."},
	{regexp.MustCompile(`unbounded memory access|outside of the allowed memory range|unbounded (?:max )?value`),
		"the size or index has no upper bound that the verifier knows: compare it with a constant directly before it is used. If it is compared " +
			"already, the compiler may use a copy of it: asm volatile(\"\" : \"+r\"(n)) behind the comparison keeps it to one."},
	{regexp.MustCompile(`BPF program is too large|too complex`),
		"the verifier follows every path through the code and gives up after 1,000,000 instructions. A PCN_GLOBAL function is verified once instead of on each " +
			"path that leads there, the body of bpf_loop() a few times whatever the number of rounds; fewer branches inside of a loop, and a constant bound, help too."},
	{regexp.MustCompile(`infinite loop|back-edge|loop detected`),
		"the loop has no end that the verifier can see: count to a constant, or use bpf_loop()."},
	{regexp.MustCompile(`kernel function .* is not there|invalid func unknown#|unknown func|cannot use helper|not a kernel function`),
		"this kernel has no such function for programs of this hook: see in which version of Linux it came, and for which hooks, or do without it."},
	{regexp.MustCompile(`kernel function .* is not allowed`),
		"the kernel has this function, but not for programs of this hook."},
	{regexp.MustCompile(`Unreleased reference|reference leak`),
		"something that was taken (a socket, a record of a ring) is not given back on every path: release or submit it before each return, also those of errors."},
	{regexp.MustCompile(`!read_ok`),
		"a variable is used that is not set on every path that leads here, or a register that a call has overwritten: initialise the variable where it is declared."},
	{regexp.MustCompile(`same insn cannot be used with different pointers`),
		"one access is reached with pointers to different kinds of memory: access each in a branch of its own, with asm volatile(\"\") to keep the compiler from joining them."},
	{regexp.MustCompile(`dereference of modified ctx|invalid bpf_context access`),
		"the context can only be read by its members, each as a whole and with its own size: copy the member to a variable."},
	{regexp.MustCompile(`pointer arithmetic|pointer comparison|math between`),
		"this cannot be computed with a pointer: bound the number first, and only add it to or subtract it from the pointer."},
	{regexp.MustCompile(`expected pointer to ctx|[Cc]aller passes invalid args|type=\S+ expected=`),
		"the function does not take this kind of argument: a helper wants a pointer to the stack, a map or the packet, as its description says."},
}
