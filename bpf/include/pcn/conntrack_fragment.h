// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Fragments: only the first one of a datagram has ports. It leaves the key of its connection for the others, which then
 * are packets of that connection. Included by <pcn/conntrack_packet.h>. */
#ifndef PCN_CONNTRACK_FRAGMENT_H
#define PCN_CONNTRACK_FRAGMENT_H

#include <pcn/conntrack_embryo.h>
#include <pcn/fragment.h>

/* Internal: how many datagrams, of all cubes. */
#define PCN_CT_FRAGMENTS 4096

/* Internal: the connection of a datagram. */
struct pcn_ct_fragment {
	struct pcn_conntrack_key key;
	__u64 seen; /* of the first fragment */
	__u32 side; /* that sent it */
	__u32 base; /* of TCP: the sequence number after a fragment, less its end in the segment */
};

/* Internal: where both are written: before Linux 6.2, memory of an argument can be neither. */
struct pcn_ct_fragment_work {
	struct pcn_fragment_key key;
	struct pcn_ct_fragment is;
};

PCN_MAP_SHARED(conntrack, ct_fragments, BPF_MAP_TYPE_LRU_HASH, struct pcn_fragment_key,
	       struct pcn_ct_fragment, PCN_CT_FRAGMENTS);
PCN_MAP_SHARED(conntrack, ct_fragment_work, BPF_MAP_TYPE_PERCPU_ARRAY, __u32,
	       struct pcn_ct_fragment_work, 1);

/* Internal: the key of a datagram. */
PCN_INLINE struct pcn_ct_fragment_work *pcn_ct_fragment_of(const struct pcn_flow *f, __u16 zone)
{
	__u32 zero = 0;
	struct pcn_ct_fragment_work *at = bpf_map_lookup_elem(&ct_fragment_work, &zero);

	if (at)
		pcn_fragment_key_of(&at->key, f, zone);
	return at;
}

/* Internal: the packet is a first fragment of a connection: notes its key, in w->fresh. */
PCN_GLOBAL int pcn_ct_note_fragment(struct pcn_conntrack_work *w PCN_NONNULL)
{
	struct pcn_ct_fragment_work *at = pcn_ct_fragment_of(&w->flow, w->fresh.key.zone);

	if (!at)
		return 0;
	at->is.key = w->fresh.key;
	at->is.seen = pcn_time_coarse();
	at->is.side = w->side;
	at->is.base = w->segment.seq - w->header + !!(w->segment.flags & PCN_CT_FIN);
	return bpf_map_update_elem(&ct_fragments, &at->key, &at->is, BPF_ANY);
}

/* Internal: the packet is a later fragment. Reads the key of its connection to w->fresh, and returns the side that sent
 * it, or -1 if the first one is not known. Of TCP, w->segment.seq is the sequence number after the
 * fragment. */
PCN_GLOBAL int pcn_ct_recall_fragment(struct CTXTYPE *ctx, struct pcn_conntrack_work *w PCN_NONNULL,
				      __u32 zone)
{
	struct pcn_ct_fragment_work *at = pcn_ct_fragment_of(&w->flow, zone);
	__u32 ipv6 = w->flow.has & PCN_FLOW_IPV6, l3 = w->flow.l3, l4 = w->flow.l4;
	struct pcn_ct_fragment *is;
	__be16 length;
	int from;

	if (!at)
		return -1;
	is = bpf_map_lookup_elem(&ct_fragments, &at->key);
	if (!is || pcn_aged(pcn_time_coarse(), is->seen, PCN_FRAGMENT_NS))
		return -1;
	w->fresh.key = is->key;
	from = pcn_fragment_offset(ctx, &w->flow);
	if (from < 0 || pcn_load_bytes(ctx, l3 + (ipv6 ? 4 : 2), &length, sizeof(length)) ||
	    pcn_fragment_overlaps(w->flow.protocol, from))
		return -1;
	w->segment.seq =
		is->base + bpf_ntohs(length) + l3 + (ipv6 ? sizeof(struct ipv6hdr) : 0) - l4 + from;
	return is->side & 1;
}

/* Internal: a later fragment of TCP extends what its side has sent. */
PCN_INLINE void pcn_ct_extend(struct pcn_conntrack_work *w, struct pcn_conntrack_entry *e)
{
	__u32 *end = &e->state.side[w->side & 1].end;

	if (w->flow.protocol == IPPROTO_TCP && pcn_ct_after(w->segment.seq, *end))
		*end = w->segment.seq;
}

#endif
