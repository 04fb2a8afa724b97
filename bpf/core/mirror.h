// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Copies for the outputs of transparent cubes, which a cube makes while the packet itself continues. XDP cannot copy a
 * packet to a netdev and keep it. */
#ifndef PCN_MIRROR_H
#define PCN_MIRROR_H

#ifdef PCN_TC
/* Sends a copy to the netdev of an output. 0, or -1 if there is no such netdev, the kernel could not make the copy, or the
 * packet has been copied and redirected too often. The copy counts hops as a redirect does. It may pass programs before
 * this returns, so what they have left in pcn_running and in the skb is restored. */
PCN_GLOBAL int pcn_core_mirror_for(struct CTXTYPE *ctx, struct pcn_md *md PCN_NONNULL, __u32 output,
				   __u32 who)
{
	__u32 zero = 0, hops = md->hops + (EGRESS(who) ? PCN_MAX_HOPS / 4 : 1);
	__u32 cube = CUBE(caller(who)), key = cube * PCN_MAX_PORTS + output;
	__u32 mark = ctx->mark, index = ctx->tc_index, *running;
	struct pcn_exit *e = bpf_map_lookup_elem(&pcn_exits, &key);
	long err;

	if (output >= PCN_EXIT_OWN || !e || !e->ifindex || e->ifindex & PCN_EXIT_CUBE ||
	    hops >= PCN_MAX_HOPS)
		return -1;
	ctx->mark = md->traffic_class;
	ctx->tc_index = PCN_REDIRECTED << 8 | hops;
	err = bpf_clone_redirect(ctx, e->ifindex, e->page & PCN_OUTPUT_RECEIVED);
	ctx->mark = mark;
	ctx->tc_index = index;
	running = bpf_map_lookup_elem(&pcn_running, &zero);
	if (running)
		*running = cube;
	return err < 0 ? -1 : 0; /* positive: the netdev's own egress dropped or consumed it */
}
#endif

#endif
