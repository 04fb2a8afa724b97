// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* A standard cube for tests with mistakes that the verifier refuses, each in its own function and
 * marked by its name in a comment, so that a test can look up the line. The constant `mistake`
 * selects one; 0: forward. */
#include <pcn/cube.h>

enum refused_mistake {
	NONE,
	STACK,
	NULL_ENTRY,
	NULL_NUMBER,
	ZERO_SIZE,
	NEGATIVE_SIZE,
	UNBOUNDED_SIZE,
	PACKET_END,
	PACKET_MOVED,
	BEYOND_VALUE,
	MANY_PATHS,
	NO_HELPER,
	ENDLESS,
	NOT_SET,
	NOT_RELEASED,
	STACK_INDEX,
	AFTER_CHECKSUM,
};

PCN_CONFIG(__u32, mistake) = NONE;
/* Names the enum for tests. */
const volatile enum refused_mistake named __attribute__((used)) = NONE;

PCN_MAP(table, BPF_MAP_TYPE_HASH, __u32, __u64, 16);

/* A value that the compiler does not know. */
PCN_INLINE __u64 unknown(struct pcn_md *md)
{
	return *(volatile __u32 *)&md->packet_len;
}

#ifdef PCN_TC
#define BYTES(to, n) bpf_skb_load_bytes(ctx, 0, to, n)
#else
#define BYTES(to, n) bpf_xdp_load_bytes(ctx, 0, to, n)
#endif

PCN_NOINLINE __u64 large_leaf(struct pcn_md *md)
{
	volatile __u64 room[36] = {};

	room[unknown(md) & 31] = 1;
	return room[unknown(md) & 15];
}

PCN_NOINLINE __u64 large(struct pcn_md *md) /* STACK */
{
	volatile __u64 room[40] = {};

	room[unknown(md) & 31] = large_leaf(md);
	return room[unknown(md) & 15];
}

PCN_NOINLINE __u64 null_entry(struct pcn_md *md)
{
	__u32 key = unknown(md);
	__u64 *entry = bpf_map_lookup_elem(&table, &key);

	return *entry; /* NULL_ENTRY */
}

PCN_NOINLINE __u64 null_number(struct pcn_md *md)
{
	return *(__u64 *)unknown(md); /* NULL_NUMBER */
}

PCN_NOINLINE __u64 zero_size(struct CTXTYPE *ctx, struct pcn_md *md)
{
	__u8 room[16] = {};
	__u32 n = unknown(md);

	if (n > sizeof(room))
		return 0;
	BYTES(room, n); /* ZERO_SIZE */
	return room[3];
}

PCN_NOINLINE __u64 negative_size(struct CTXTYPE *ctx, struct pcn_md *md)
{
	__u8 room[16] = {};
	__s64 n = (__s64)(unknown(md) << 32) >> 32;

	if (n > 16)
		return 0;
	asm volatile("" : "+r"(n));
	BYTES(room, n); /* NEGATIVE_SIZE */
	return room[3];
}

PCN_NOINLINE __u64 unbounded_size(struct CTXTYPE *ctx, struct pcn_md *md)
{
	__u8 room[16] = {};
	__u32 n = unknown(md) | 1; /* older kernels take no lower bound from n != 0 */

	BYTES(room, n); /* UNBOUNDED_SIZE */
	return room[3];
}

PCN_NOINLINE __u64 packet_end(struct CTXTYPE *ctx)
{
	__u8 *data = pcn_data(ctx);

	return data[20]; /* PACKET_END */
}

PCN_NOINLINE __u64 packet_moved(struct CTXTYPE *ctx)
{
	struct pcn_cursor c;

	pcn_cursor_open(&c, ctx, sizeof(struct ethhdr));
	struct ethhdr *eth = pcn_parse_eth(&c);

	if (!eth)
		return 0;
#ifdef PCN_TC
	bpf_skb_pull_data(ctx, 64);
#else
	bpf_xdp_adjust_head(ctx, 0);
#endif
	return eth->h_proto; /* PACKET_MOVED */
}

PCN_NOINLINE __u64 beyond_value(struct pcn_md *md)
{
	__u32 key = unknown(md);
	__u64 *entry = bpf_map_lookup_elem(&table, &key);

	return entry ? entry[unknown(md) & 3] : 0; /* BEYOND_VALUE */
}

PCN_NOINLINE __u64 many_paths(struct pcn_md *md)
{
	__u64 sum = 0;

	for (__u32 i = 0; i < 100000; i++) {
		asm volatile("" : "+r"(i));
		if (unknown(md) & 1) /* MANY_PATHS */
			sum += i ^ unknown(md);
		else
			sum ^= i + unknown(md);
	}
	return sum;
}

static __u64 (*no_such_helper)(void *) = (void *)4711;

PCN_NOINLINE __u64 no_helper(struct pcn_md *md)
{
	return no_such_helper(md); /* NO_HELPER */
}

PCN_NOINLINE __u64 endless(struct pcn_md *md)
{
	volatile __u32 *len = &md->packet_len;

	for (;;)
		if (*len == 0x12345678) /* ENDLESS */
			return 1;
}

PCN_NOINLINE __u64 not_set(void)
{
	__u64 v;

	asm volatile("%0 = r9" : "=r"(v)); /* NOT_SET */
	return v;
}

PCN_NOINLINE __u64 not_released(struct CTXTYPE *ctx, struct pcn_md *md)
{
	struct bpf_sock_tuple tuple = {};
	struct bpf_sock *sk;

	tuple.ipv4.daddr = unknown(md);
	sk = bpf_sk_lookup_udp(ctx, &tuple, sizeof(tuple.ipv4), -1, 0); /* NOT_RELEASED */
	return sk ? sk->family : 0;
}

PCN_NOINLINE __u64 stack_index(struct pcn_md *md)
{
	volatile __u8 room[16] = {};
	__u32 n = unknown(md);

	if (n > 32)
		return 0;
	room[n] = 1; /* STACK_INDEX */
	return room[3];
}

/* At TC with a function and types of the kernel. */
PCN_NOINLINE __u64 after_checksum(struct CTXTYPE *ctx, struct pcn_md *md)
{
	__u32 key = unknown(md);
	struct pcn_cursor c;
	__u16 *l4;

	pcn_cursor_open(&c, ctx, 64);
	l4 = pcn_cursor_take(&c, 64);
	if (!l4)
		return 0;
	pcn_csum_l4(ctx, l4, &l4[8], key, 0, 0);
	return *(__u64 *)bpf_map_lookup_elem(&table, &key); /* AFTER_CHECKSUM */
}

PCN_INLINE __u64 make(struct CTXTYPE *ctx, struct pcn_md *md)
{
	switch (mistake) {
	case STACK:
		return large(md);
	case NULL_ENTRY:
		return null_entry(md);
	case NULL_NUMBER:
		return null_number(md);
	case ZERO_SIZE:
		return zero_size(ctx, md);
	case NEGATIVE_SIZE:
		return negative_size(ctx, md);
	case UNBOUNDED_SIZE:
		return unbounded_size(ctx, md);
	case PACKET_END:
		return packet_end(ctx);
	case PACKET_MOVED:
		return packet_moved(ctx);
	case BEYOND_VALUE:
		return beyond_value(md);
	case MANY_PATHS:
		return many_paths(md);
	case NO_HELPER:
		return no_helper(md);
	case ENDLESS:
		return endless(md);
	case NOT_SET:
		return not_set();
	case NOT_RELEASED:
		return not_released(ctx, md);
	case STACK_INDEX:
		return stack_index(md);
	case AFTER_CHECKSUM:
		return after_checksum(ctx, md);
	}
	return 0;
}

PCN_INGRESS
{
	md->md[0] = make(ctx, md);
	return pcn_pkt_send(ctx, md, 1 - md->in_port);
}

PCN_LICENSE;
