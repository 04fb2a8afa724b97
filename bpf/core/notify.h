// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Messages of cubes to their control plane, which share the ring with packets. */
#ifndef PCN_CORE_NOTIFY_H
#define PCN_CORE_NOTIFY_H

/* Writes a message to the ring: 0, or -1 if there was no room. */
PCN_GLOBAL int pcn_core_notify_for(struct CTXTYPE *ctx, const struct pcn_notice *n PCN_NONNULL,
				   __u32 who)
{
	__u32 cube = CUBE(caller(who)), len = n->size;
	struct pcn_share *share = bpf_map_lookup_elem(&pcn_shares, &cube);
	struct pcn_record *r = NULL;
	const __u32 size = sizeof(*r) + sizeof(n->data);

	(void)ctx;
	if (share && admit(share, size))
		r = bpf_ringbuf_reserve(&pcn_ring, size, 0);
	if (!share || !r) {
		pcn_count_fate(cube, PCN_REASON_NOTIFY_SHED);
		return -1;
	}
	__sync_fetch_and_add(&share->produced, size);
	__builtin_memset(r, 0, sizeof(*r));
	r->kind = PCN_RECORD_NOTIFY;
	r->cube = cube;
	r->size = size;
	r->md[0] = n->kind;
	r->caplen = len <= sizeof(n->data) ? len : sizeof(n->data);
	__builtin_memcpy(r->data, n->data, sizeof(n->data));
	bpf_ringbuf_submit(r, wakeup());
	return 0;
}

#endif
