// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* What the cube nat in front has done to connections. It translates what the host receives before this cube sees it, and what
 * leaves the host after that, so packets are as they are between the two. FORWARD is on the way out, where the metadata is
 * another packet's: what a packet was told on its way in is kept until then, by its connection. */
#ifndef IPTABLES_TRANSLATION_H
#define IPTABLES_TRANSLATION_H

#include <pcn/conntrack_packet.h>
#include <pcn/cube.h>

#include "rule.h"

/* By the side that sent a packet: PCN_MD_SNAT, PCN_MD_DNAT of the last one. */
struct iptables_translated {
	__u8 by[8];
};
PCN_MAP(translated, BPF_MAP_TYPE_LRU_HASH, struct pcn_conntrack_key, struct iptables_translated,
	16384);

/* The bits of a condition about states: those of the classes, and of the translations above them. */
#define IPTABLES_TRANSLATIONS 8

/* Notes what a received packet was told. A later packet of the same side may be told something else: then it is of another
 * connection between the same ports. */
PCN_GLOBAL int iptables_note(const struct pcn_md *md PCN_NONNULL)
{
	__u32 zero = 0, told = md->notes & (PCN_MD_SNAT | PCN_MD_DNAT);
	struct pcn_conntrack_work *w = bpf_map_lookup_elem(&ct_work, &zero);

	if (!w)
		return 0;
	struct pcn_conntrack_key *key = &w->fresh.key;
	int side = pcn_conntrack_key(key, &w->flow, pcn_instance(md));
	if (side < 0)
		return 0;
	struct iptables_translated *t = bpf_map_lookup_elem(&translated, key);
	if (!t && told) {
		struct iptables_translated none = {};

		bpf_map_update_elem(&translated, key, &none, BPF_NOEXIST);
		t = bpf_map_lookup_elem(&translated, key);
	}
	if (t && t->by[side & 1] != told)
		t->by[side & 1] = told;
	return 0;
}

/* Whether a packet is of a class, or of a connection with a translation, of (value). */
PCN_GLOBAL int iptables_is_in_state(const struct iptables_test *t PCN_NONNULL)
{
	__u32 zero = 0;
	struct pcn_conntrack_work *w = bpf_map_lookup_elem(&ct_work, &zero);

	if (!w)
		return 0;
	__u32 bits = 1 << (w->class & 7);
	if (w->class != PCN_CT_INVALID && w->class != PCN_CT_UNTRACKED) {
		const struct iptables_translated *is =
			bpf_map_lookup_elem(&translated, &w->fresh.key);

		if (is)
			bits |= (__u32)(is->by[0] | is->by[1]) << IPTABLES_TRANSLATIONS;
	}
	return !!(bits & t->value);
}

#endif
