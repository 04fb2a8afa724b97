// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* A prototype, to be measured: packets of flows that are known cross a whole chain of cubes by one
 * lookup. An entry has what the chain has done with a packet of the flow: the bytes that it changed
 * and the output. docs/adr/0059-one-lookup-for-a-chain.md says what a product would need. */
#define PCN_CONNTRACK_OWN 4
#include <pcn/cube.h>
#include <pcn/conntrack.h>
#include <pcn/csum.h>
#include <linux/tcp.h>

/* What a whole chain counts for a packet: the ports where it enters and leaves, and a verdict of each
 * of three cubes. */
struct onelookup_counts {
	struct pcn_count ports[2];
	__u64 verdicts[3];
};
PCN_MAP(counts, BPF_MAP_TYPE_PERCPU_ARRAY, __u32, struct onelookup_counts, 1);

/* What is read of a packet: too large for the stack. */
struct onelookup_work {
	struct pcn_flow flow;
	struct pcn_conntrack_key key;
	struct pcn_ct_segment segment;
	struct pcn_ct_state next;
};
PCN_MAP(work, BPF_MAP_TYPE_PERCPU_ARRAY, __u32, struct onelookup_work, 1);

/* What the chain does with a packet of a flow, in the members of an entry that belong to its user:
 * `state`, `user`, and `mark`, the output. The entry's generation is that of all configuration. */
struct onelookup_action {
	__u8 macs[12];
	__be32 source, destination;
	__be16 ports[2];
	__u32 addresses; /* how their words have changed, for checksums */
	__u32 covered;	 /* the same of ports */
	__u32 header;	 /* the same of the IP header: addresses and TTL */
	__u32 tracked; /* 1 + the index of its TCP connection in `states`, with the sender's side in bit 31; 0: none */
};
_Static_assert(sizeof(struct onelookup_action) <= sizeof(struct pcn_ct_state),
	       "it fits into an entry");

/* States of TCP connections, as the firewall in the chain has them. */
PCN_MAP(states, BPF_MAP_TYPE_ARRAY, __u32, struct pcn_ct_state, 65536);

/* Reads the segment of a TCP packet that needs no more than its headers. -1: the chain decides. */
PCN_INLINE int read_segment(struct CTXTYPE *ctx, struct onelookup_work *w)
{
	void *data = pcn_data(ctx), *end = pcn_data_end(ctx);
	struct iphdr *ip = data + sizeof(struct ethhdr);
	struct tcphdr *tcp = (void *)(ip + 1);

	if ((void *)(tcp + 1) > end || (w->flow.tcp_flags & PCN_CT_SYN))
		return -1;
	w->segment.seq = bpf_ntohl(tcp->seq);
	w->segment.ack = bpf_ntohl(tcp->ack_seq);
	w->segment.length = bpf_ntohs(ip->tot_len) - sizeof(*ip) - tcp->doff * 4;
	w->segment.window = bpf_ntohs(tcp->window);
	w->segment.flags = w->flow.tcp_flags;
	w->segment.scale = PCN_CT_NO_SCALE;
	return 0;
}

/* The segment fits the connection, whose state becomes that after it. 0: the chain decides. */
PCN_INLINE int track(struct CTXTYPE *ctx, struct onelookup_work *w,
		     const struct onelookup_action *a)
{
	__u32 at = (a->tracked & 0x7fffffff) - 1, side = a->tracked >> 31, mine = side * 2;
	struct pcn_ct_state *s = bpf_map_lookup_elem(&states, &at);
	__u64 *state = (void *)s, *next = (void *)&w->next, was;

	if (!s || read_segment(ctx, w))
		return 0;
	w->next = *s;
	was = next[5];
	if (pcn_ct_tcp(&w->next, side, &w->segment, 0) != PCN_CT_ESTABLISHED)
		return 0;
	if (next[5] != was && __sync_val_compare_and_swap(&state[5], was, next[5]) != was)
		return 0;
	state[mine] = next[mine];
	state[mine + 1] = next[mine + 1];
	return 1;
}

/* Makes the packet what the chain would make of it. -1 if the chain has to. */
PCN_INLINE int rewrite(struct CTXTYPE *ctx, const struct onelookup_action *a)
{
	void *data = pcn_data(ctx), *end = pcn_data_end(ctx);
	struct ethhdr *eth = data;
	struct iphdr *ip = (void *)(eth + 1);
	struct pcn_ports *ports = (void *)(ip + 1);

	if ((void *)ports + 18 > end || ip->ttl <= 1)
		return -1;
	__builtin_memcpy(eth, a->macs, sizeof(a->macs));
	ip->ttl--;
	ip->saddr = a->source;
	ip->daddr = a->destination;
	pcn_csum_ipv4(ip, a->header);
	ports->source = a->ports[0];
	ports->destination = a->ports[1];
	if (ip->protocol == IPPROTO_TCP)
		pcn_csum_l4(ctx, ports, (void *)ports + 16, a->addresses, a->covered, 0);
	else
		pcn_csum_l4(ctx, ports, (void *)ports + 6, a->addresses, a->covered, PCN_CSUM_UDP);
	return 0;
}

PCN_INGRESS
{
	__u32 zero = 0, number;
	struct onelookup_work *w = bpf_map_lookup_elem(&work, &zero);
	struct onelookup_counts *n = bpf_map_lookup_elem(&counts, &zero);
	struct pcn_conntrack_entry *e;
	__u64 now;

	if (!w || !n || pcn_flow_read(ctx, &w->flow))
		return pcn_pkt_pass(ctx, md);
	/* In a product, the zone is the netdev where the packet came from. */
	if (pcn_conntrack_key(&w->key, &w->flow, 1) < 0)
		return pcn_pkt_pass(ctx, md);
	number = pcn_conntrack_find(&w->key);
	e = pcn_conntrack_entry(number);
	if (!e || e->generation != pcn_conntrack_generation(1))
		return pcn_pkt_pass(ctx, md);
	const struct onelookup_action *a = (void *)&e->state;
	if (a->tracked && !track(ctx, w, a))
		return pcn_pkt_pass(ctx, md);
	if (rewrite(ctx, a))
		return pcn_pkt_pass(ctx, md);
	now = pcn_time_coarse();
	if (e->seen != now)
		e->seen = now;
	n->ports[0].packets++;
	n->ports[0].bytes += md->packet_len;
	n->ports[1].packets++;
	n->ports[1].bytes += md->packet_len;
	n->verdicts[0]++;
	n->verdicts[1]++;
	n->verdicts[2]++;
	return pcn_pkt_redirect(ctx, md, e->mark);
}

PCN_EGRESS
{
	return pcn_pkt_pass(ctx, md);
}

PCN_LICENSE;
