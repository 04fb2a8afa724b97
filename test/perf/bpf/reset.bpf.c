// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* Times a program on many flows. The kernel repeats a program on the result of the last run; this
 * harness writes the addresses of the next flow to the frame and tail-calls the program under test.
 * Its own cost, measured with a program that does nothing, is subtracted. */
#include "frame.h"
#include <pcn/map.h>
#include <pcn/packet.h>

struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} reset_program SEC(".maps");

const volatile __u32 reset_flows = 1;
__u32 reset_next = 0;

SEC(PCN_SECTION) int reset(struct CTXTYPE *ctx)
{
	struct pcn_cursor c;

	pcn_cursor_open(&c, ctx, sizeof(struct ethhdr));
	__u16 *w = (void *)pcn_parse_eth(&c);
	__u32 i = reset_next;

	if (!w)
		return 0;
	/* Prime, so that consecutive flows are not adjacent in a table. */
	reset_next = i + 389 < reset_flows ? i + 389 : (i + 389) % reset_flows;
	address(w, i, LEFT);
	bpf_tail_call(ctx, &reset_program, 0);
	return 0;
}

SEC(PCN_SECTION) int nothing(struct CTXTYPE *ctx)
{
	(void)ctx;
	return 1;
}

char _license[] SEC("license") = "Dual BSD/GPL";
