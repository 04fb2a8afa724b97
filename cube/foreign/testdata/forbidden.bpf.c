// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* Everything that an external service must not contain, each in its own program or map; the test
 * uses them one by one. */
#include <pcn/cube.h>

struct word {
	__u64 value;
};

/* Maps. */
PCN_MAP(good, BPF_MAP_TYPE_LRU_HASH, __u32, struct word, 1024);
PCN_MAP(programs, BPF_MAP_TYPE_PROG_ARRAY, __u32, __u32, 4);
PCN_MAP(devices, BPF_MAP_TYPE_DEVMAP, __u32, __u32, 4);
PCN_MAP(sockets, BPF_MAP_TYPE_SOCKHASH, __u32, __u32, 4);
PCN_MAP(many, BPF_MAP_TYPE_ARRAY, __u32, __u64, 1 << 21);
PCN_MAP(
	fat, BPF_MAP_TYPE_HASH, __u32, struct { char bytes[4096]; }, 1 << 20);
PCN_MAP_FLAGS(mapped, BPF_MAP_TYPE_ARRAY, __u32, __u64, 4, BPF_F_MMAPABLE);
PCN_MAP_FLAGS(mapped_hash, BPF_MAP_TYPE_HASH, __u32, __u64, 4, BPF_F_MMAPABLE);
PCN_MAP_SHARED(space, common, BPF_MAP_TYPE_HASH, __u32, __u32, 4);
PCN_MAP_EXTERN(bridge, theirs, BPF_MAP_TYPE_HASH, __u32, __u32);
PCN_MAP_PUBLIC(ours, BPF_MAP_TYPE_HASH, __u32, __u32, 4);
PCN_MAP_OF_MAPS(sets, BPF_MAP_TYPE_ARRAY_OF_MAPS, __u32, 64, BPF_MAP_TYPE_ARRAY, __u32, __u32, 16,
		0);
PCN_MAP_OF_MAPS(fat_sets, BPF_MAP_TYPE_HASH_OF_MAPS, __u32, 4096, BPF_MAP_TYPE_HASH, __u32,
		struct word, 65536, 0);
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} ring SEC(".maps");
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} pinned SEC(".maps");

__u64 variable;

extern int bpf_kernel_function(struct CTXTYPE *ctx) __attribute__((section(".ksyms")));

/* Programs. */
PCN_PROGRAM(fine)
{
	__u32 key = md->in_port;
	struct word *w = bpf_map_lookup_elem(&good, &key);

	pcn_log(ctx, LOG_INFO, "at %d", key);
	if (w)
		__sync_fetch_and_add(&w->value, pcn_time());
	return pcn_pkt_copy(ctx, md, 0) ? PCN_DROP : PCN_PASS;
}

PCN_PROGRAM(redirects_to_host)
{
	return pcn_pkt_redirect_neigh(ctx, md, 1);
}

PCN_PROGRAM(redirects)
{
	(void)ctx;
	(void)md;
	return bpf_redirect(1, 0);
}

PCN_PROGRAM(prints)
{
	static const char text[] = "hello";

	(void)ctx;
	(void)md;
	bpf_trace_printk(text, sizeof(text));
	return PCN_PASS;
}

PCN_PROGRAM(tail_calls)
{
	(void)md;
	bpf_tail_call(ctx, &programs, 0);
	return PCN_PASS;
}

PCN_PROGRAM(reads_the_kernel)
{
	__u64 word = 0;

	(void)ctx;
	bpf_probe_read_kernel(&word, sizeof(word), md);
	return word != 0;
}

PCN_PROGRAM(writes_to_processes)
{
	__u64 word = 0;

	(void)ctx;
	(void)md;
	return bpf_probe_write_user((void *)4096, &word, sizeof(word)) != 0;
}

PCN_PROGRAM(signals)
{
	(void)ctx;
	(void)md;
	return bpf_send_signal(9) != 0;
}

PCN_PROGRAM(asks_who)
{
	(void)ctx;
	(void)md;
	return bpf_get_current_pid_tgid() != 0;
}

PCN_PROGRAM(emits)
{
	(void)ctx;
	(void)md;
	return bpf_ringbuf_output(&ring, &(__u64){ 0 }, 8, 0) != 0;
}

static long step(__u32 index, void *data)
{
	(void)data;
	return index > 3;
}

PCN_PROGRAM(calls_back)
{
	(void)ctx;
	(void)md;
	bpf_loop(8, step, NULL, 0);
	return PCN_PASS;
}

PCN_PROGRAM(calls_the_kernel)
{
	(void)md;
	return bpf_kernel_function(ctx);
}

PCN_PROGRAM(keeps_variables)
{
	(void)ctx;
	variable += md->in_port;
	return PCN_PASS;
}

PCN_PROGRAM(calls_by_number)
{
	int result;

	(void)ctx;
	(void)md;
	asm volatile("call 166\n%0 = r0" : "=r"(result) : : "r0", "r1", "r2", "r3", "r4", "r5");
	return result;
}

#ifdef PCN_TC
PCN_PROGRAM(one_hook)
{
	(void)md;
	return bpf_skb_load_bytes(ctx, 0, &(__u64){ 0 }, 8) != 0;
}
#else
PCN_PROGRAM(one_hook)
{
	(void)md;
	return bpf_xdp_adjust_tail(ctx, 1) != 0;
}
#endif

SEC("kprobe/do_exit") int elsewhere(void *ctx)
{
	return ctx != NULL;
}

PCN_LICENSE;
