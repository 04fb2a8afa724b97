// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* A malicious standard cube for tests: it writes where it must not and lies about what it did. The
 * kernel refuses to load some of the cases; the others must harm only the cube itself. */
#include <pcn/cube.h>

enum hostile_reason {
	HOSTILE_OWN = PCN_REASON_FIRST,
};
PCN_REASONS(hostile_reason);

/* See the cases below; 0: behave correctly. */
PCN_CONFIG(__u32, what) = 0;
PCN_CONFIG(__u16, out) = 1;
PCN_CONFIG(__u16, reason) = 0;
PCN_CONFIG(__u32, verdict) = PCN_SEND;

/* The metadata that the cube got. */
PCN_MAP(witness, BPF_MAP_TYPE_ARRAY, __u32, struct pcn_md, 1);

PCN_INLINE void testify(const struct pcn_md *md)
{
	__u32 key = 0;
	struct pcn_md *w = bpf_map_lookup_elem(&witness, &key);

	if (w)
		__builtin_memcpy(w, md, sizeof(*w));
}

/* Leaves junk on as much of the stack as it has, inlined on Linux 6.1. */
PCN_INLINE __u64 litter(__u32 n)
{
	volatile __u64 junk[28];

#pragma unroll
	for (int i = 0; i < 28; i++)
		junk[i] = 0xdeadbeef00000000ull + n;
	return junk[n & 15];
}

PCN_INGRESS
{
	(void)ctx;
	switch (what) {
	case 1: /* junk all over md */
		__builtin_memset(md, 0xff, sizeof(*md));
		break;
	case 2: /* beyond the end of md */
		md[1].md[0] = 1;
		break;
	case 3: /* before md */
		asm volatile("*(u32 *)(%[md] - 8) = %[md]\n" : : [md] "r"(md) : "memory");
		break;
	case 4: /* reads beyond the end of md */
		md->md[0] = md[1].in_port;
		break;
	case 5: /* only the words, through a pointer that the linker must follow */
		litter(md->packet_len);
		for (__u32 i = 0; i < 4; i++)
			*(volatile __u32 *)&md->md[i] = 0x11111111 * (i + 1);
		break;
	case 6: /* turns forever, and denies it */
		md->hops = 0;
		break;
	case 7: /* records what it gets */
		testify(md);
		break;
	case 8: /* claims that the packet came from elsewhere */
		md->in_port = 0x7fff;
		break;
	}
	md->reason = reason;
	md->out_port = out;
	return verdict;
}

PCN_LICENSE;
