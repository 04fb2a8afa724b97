// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Half-open connections, in a small table of their own. Its entries are a ring: a new one takes the place of the
 * oldest, so a flood of SYNs makes half-open connections give way, and takes nothing of the table of
 * <pcn/conntrack.h>. Include <pcn/conntrack_packet.h>, which moves a connection there once it is open.
 *
 * Entries are reused without waiting for a grace period. So each entry has a ticket, its number in the order of
 * arrival, and the words that refer to it contain the same ticket. Only the CPU that has claimed an entry writes
 * to it. Readers copy an entry and then check that its ticket is unchanged: docs/adr/0048-connection-table.md. */
#ifndef PCN_CONNTRACK_EMBRYO_H
#define PCN_CONNTRACK_EMBRYO_H

#include <pcn/conntrack.h>
#include <pcn/time.h>

/* Internal: the status of an entry: its ticket in the upper 24 bits, then the number of changes modulo 16, then
 * one of these. */
enum pcn_embryo_status {
	PCN_EMBRYO_NONE,
	PCN_EMBRYO_OPEN,
	PCN_EMBRYO_MOVED,   /* it is in the large table */
	PCN_EMBRYO_DEAD,    /* it ended, or was opened twice */
	PCN_EMBRYO_BUSY,    /* of states from here on the owner writes: the members but the key */
	PCN_EMBRYO_WRITTEN, /* all of it */
};

/* Internal: masks of a status, and one change. */
#define PCN_EMBRYO_STATUS 0xf
#define PCN_EMBRYO_CHANGE 0x10
#define PCN_EMBRYO_CHANGES 0xf0
#define PCN_EMBRYO_TICKET 0xffffff

/* What a cube knows about a packet and its connection. It is not on the stack, of which Linux 6.1 has 512 bytes for
 * all functions that call each other. */
struct pcn_conntrack_work {
	struct pcn_flow flow;		  /* from pcn_flow_read */
	struct pcn_conntrack_entry fresh; /* a connection that is not open: set mark, rule and user
					   * before you accept it */
	__u32 number;			  /* of an open connection in the table, else 0 */
	__s32 refusal;	  /* enum pcn_conntrack_refusal: why a reply is INVALID; else 0 */
	__u8 class;	  /* enum pcn_ct_class */
	__u8 reply;	  /* the packet is from the side that did not open the connection */
	__u8 accepted;	  /* the rules have accepted the connection since they last changed */
	__u8 side;	  /* Internal, like the rest */
	__u32 embryo;	  /* status of the half-open connection that `fresh` is a copy of, or 0 */
	__u32 generation; /* of the zone */
	__u32 change; /* status of the half-open connection that the packet has opened (WRITTEN), or that it
		       * was of before others changed or moved that (OPEN); else 0 */
	struct pcn_flow inner; /* the packet in an ICMP error */
	struct pcn_ct_segment segment;
	__u32 header;		  /* bytes of the segment before its payload */
	struct pcn_ct_state next; /* the state after the packet */
	__u64 was;		  /* what pcn_ct_store replaces */
	__u64 hash;		  /* of the key */
};

/* Internal: the ring. */
PCN_INLINE struct pcn_conntrack_embryo_ring *pcn_embryo_ring(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&ct_embryo_ring, &zero);
}

/* Internal: the entry of a ticket. */
PCN_INLINE struct pcn_conntrack_entry *pcn_embryo_at(const struct pcn_conntrack_embryo_ring *ring,
						     __u32 ticket)
{
	__u32 at = ticket & ring->embryos;

	return bpf_map_lookup_elem(&ct_embryos, &at);
}

/* Internal: the line for a hash. */
PCN_INLINE struct pcn_conntrack_embryo_line *
pcn_embryo_line(const struct pcn_conntrack_embryo_ring *ring, __u64 hash)
{
	__u32 at = hash & ring->lines;

	return bpf_map_lookup_elem(&ct_embryo_lines, &at);
}

/* Internal: reads a status. What is read before and after it is read in this order, also on arm64. */
PCN_INLINE __u32 pcn_embryo_status(struct pcn_conntrack_entry *e)
{
	return __sync_fetch_and_add(&e->status, 0);
}

/* Internal: replaces a status. 0 if it is another one meanwhile. */
PCN_INLINE int pcn_embryo_become(struct pcn_conntrack_entry *e, __u32 was, __u32 is)
{
	return __sync_val_compare_and_swap(&e->status, was, is) == was;
}

/* Internal: true if an entry has a key. */
PCN_INLINE int pcn_embryo_has(const struct pcn_conntrack_entry *e,
			      const struct pcn_conntrack_key *key)
{
	__u64 differs = 0;

#pragma unroll
	for (int i = 0; i < 5; i++)
		differs |= pcn_conntrack_word(&e->key, i) ^ pcn_conntrack_word(key, i);
	return !differs;
}

/* Internal: copies what belongs to a connection, except its key. */
PCN_INLINE void pcn_embryo_copy(struct pcn_conntrack_entry *to,
				const struct pcn_conntrack_entry *from)
{
	to->generation = from->generation;
	to->seen = from->seen;
	to->mark = from->mark;
	to->rule = from->rule;
	to->state = from->state;
	to->user[0] = from->user[0];
	to->user[1] = from->user[1];
}

/* Internal: finds the half-open connection with the key of w->fresh, and copies it there; else what is there is zeros.
 * Returns PCN_EMBRYO_OPEN; or NONE, MOVED, if it was, or BUSY, if it is about to change. */
PCN_GLOBAL int pcn_embryo_find(struct pcn_conntrack_work *w PCN_NONNULL)
{
	struct pcn_conntrack_control *control = pcn_conntrack_control();
	struct pcn_conntrack_embryo_ring *ring = pcn_embryo_ring();
	struct pcn_conntrack_embryo_line *line;
	int result = PCN_EMBRYO_NONE;
	__u32 tag;

	w->embryo = 0;
	__builtin_memset(&w->fresh.mark, 0,
			 sizeof(w->fresh) - __builtin_offsetof(struct pcn_conntrack_entry, mark));
	if (!control || !ring)
		return result;
	w->hash = pcn_conntrack_hash(control, &w->fresh.key);
	tag = pcn_conntrack_tag(w->hash);
	line = pcn_embryo_line(ring, w->hash);
	if (!line)
		return result;
#pragma clang loop unroll(disable)
	for (int i = 0; i < PCN_CONNTRACK_EMBRYO_WORDS; i++) {
		__u32 word = PCN_CONNTRACK_ONCE(line->word[i]), status;

		if (word >> 24 != tag)
			continue;
		struct pcn_conntrack_entry *e = pcn_embryo_at(ring, word);
		if (!e)
			continue;
		status = pcn_embryo_status(e);
		if (status >> 8 != (word & PCN_EMBRYO_TICKET) || !pcn_embryo_has(e, &w->fresh.key))
			continue;
		__u32 is = status & PCN_EMBRYO_STATUS;
		if (is == PCN_EMBRYO_MOVED || is == PCN_EMBRYO_BUSY)
			result = is;
		if (is != PCN_EMBRYO_OPEN)
			continue;
		pcn_embryo_copy(&w->fresh, e);
		if (pcn_embryo_status(e) != status)
			return PCN_EMBRYO_BUSY;
		w->embryo = status;
		return PCN_EMBRYO_OPEN;
	}
	return result;
}

/* Internal: the entry that w->fresh is a copy of. Others may have changed it since. */
PCN_INLINE struct pcn_conntrack_entry *pcn_embryo_of(const struct pcn_conntrack_work *w)
{
	struct pcn_conntrack_embryo_ring *ring = w->embryo ? pcn_embryo_ring() : NULL;

	return ring ? pcn_embryo_at(ring, w->embryo >> 8) : NULL;
}

/* Internal: writes w->fresh back to the entry that it is a copy of. 0 if that has changed since. */
PCN_INLINE int pcn_embryo_update(struct pcn_conntrack_work *w)
{
	struct pcn_conntrack_entry *e = pcn_embryo_of(w);
	__u32 was = w->embryo, same = was & ~PCN_EMBRYO_STATUS;
	__u32 changed = (was & ~(PCN_EMBRYO_CHANGES | PCN_EMBRYO_STATUS)) |
			((was + PCN_EMBRYO_CHANGE) & PCN_EMBRYO_CHANGES) | PCN_EMBRYO_OPEN;

	if (!e || !pcn_embryo_become(e, was, same | PCN_EMBRYO_BUSY))
		return 0;
	w->fresh.seen = pcn_time_coarse();
	pcn_embryo_copy(e, &w->fresh);
	pcn_embryo_become(e, same | PCN_EMBRYO_BUSY, changed);
	w->embryo = changed;
	return 1;
}

/* Internal: ends the half-open connection, or says that it has moved. */
PCN_INLINE void pcn_embryo_leave(struct pcn_conntrack_work *w, __u32 status)
{
	struct pcn_conntrack_entry *e = pcn_embryo_of(w);

	if (e)
		pcn_embryo_become(e, w->embryo, (w->embryo & ~PCN_EMBRYO_STATUS) | status);
}

/* Internal: claims the entry of the next ticket; NULL if the next four are being written. */
PCN_INLINE struct pcn_conntrack_entry *pcn_embryo_claim(struct pcn_conntrack_embryo_ring *ring,
							__u32 *ticket)
{
#pragma clang loop unroll(disable)
	for (int i = 0; i < 4; i++) {
		__u32 at = __sync_fetch_and_add(&ring->head, 1) & PCN_EMBRYO_TICKET, was;
		struct pcn_conntrack_entry *e = pcn_embryo_at(ring, at);

		if (!e)
			return NULL;
		was = PCN_CONNTRACK_ONCE(e->status);
		/* Its owner may be on a CPU that stands still for as long as the ring takes to go round. */
		if ((was & PCN_EMBRYO_STATUS) >= PCN_EMBRYO_BUSY ||
		    !pcn_embryo_become(e, was, at << 8 | PCN_EMBRYO_WRITTEN))
			continue;
		*ticket = at;
		return e;
	}
	return NULL;
}

/* Internal: how much older a line's word is than the newest one; more than all tickets if it is unused, 0 if it is
 * newer. No branches, each of which the verifier would follow for each word. */
PCN_INLINE __u64 pcn_embryo_age(__u32 newest, __u64 word)
{
	__u64 age = (newest - word) & PCN_EMBRYO_TICKET, unused = (word - 1) >> 63;

	return age * (1 - (age >> 23)) + (unused << 24);
}

/* Internal: puts a word into a line, in place of the oldest, which may be of an entry that has changed hands. 0 if
 * other CPUs are always first. */
PCN_GLOBAL int pcn_embryo_link(struct pcn_conntrack_embryo_line *line PCN_NONNULL, __u32 word)
{
#pragma clang loop unroll(disable)
	for (int turn = 0; turn < 3; turn++) {
		__u64 best = 0;

#pragma unroll
		for (int i = 0; i < PCN_CONNTRACK_EMBRYO_WORDS; i++) {
			__u32 other = PCN_CONNTRACK_ONCE(line->word[i]);
			__u64 one = pcn_embryo_age(word, other) << 4 | i;
			__u64 older = (best - one) >> 63;

			asm volatile("" : "+r"(older)); /* else clang makes a branch of it */
			best += (one - best) * older;
		}
		__u32 *oldest = &line->word[best & (PCN_CONNTRACK_EMBRYO_WORDS - 1)];
		__u32 was = PCN_CONNTRACK_ONCE(*oldest);
		if (pcn_embryo_age(word, was) == best >> 4 &&
		    __sync_val_compare_and_swap(oldest, was, word) == was)
			return 1;
	}
	return 0;
}

/* Internal: of entries with the same key, all but the one with the lowest ticket end. All CPUs link before they look,
 * so of two, at least one sees the other. Both may remain if a packet on a third CPU changes one at that moment:
 * packets then find one of them, and only one connection comes of them. */
PCN_INLINE void pcn_embryo_contest(const struct pcn_conntrack_embryo_ring *ring,
				   struct pcn_conntrack_embryo_line *line,
				   struct pcn_conntrack_entry *mine, __u32 word,
				   const struct pcn_conntrack_key *key)
{
#pragma clang loop unroll(disable)
	for (int i = 0; i < PCN_CONNTRACK_EMBRYO_WORDS; i++) {
		__u32 other = PCN_CONNTRACK_ONCE(line->word[i]), status;

		if (other >> 24 != word >> 24 || other == word)
			continue;
		struct pcn_conntrack_entry *e = pcn_embryo_at(ring, other);
		if (!e)
			continue;
		status = pcn_embryo_status(e);
		if (status >> 8 != (other & PCN_EMBRYO_TICKET) ||
		    (status & PCN_EMBRYO_STATUS) != PCN_EMBRYO_OPEN || !pcn_embryo_has(e, key))
			continue;
		if (((word - other) & PCN_EMBRYO_TICKET) < PCN_EMBRYO_TICKET / 2) {
			pcn_embryo_become(mine, word << 8 | PCN_EMBRYO_OPEN,
					  word << 8 | PCN_EMBRYO_DEAD);
			return;
		}
		pcn_embryo_become(e, status, (status & ~PCN_EMBRYO_STATUS) | PCN_EMBRYO_DEAD);
	}
}

/* Internal: opens w->fresh as a half-open connection. Returns 0, or a negative enum pcn_conntrack_refusal: a zone
 * that has as many connections as it may have gets no half-open ones either. */
PCN_GLOBAL int pcn_embryo_open(struct pcn_conntrack_work *w PCN_NONNULL)
{
	struct pcn_conntrack_embryo_ring *ring = pcn_embryo_ring();
	__u32 at = w->fresh.key.zone, ticket = 0, word, limit;
	struct pcn_conntrack_zone *zone = bpf_map_lookup_elem(&ct_zones, &at);
	struct pcn_conntrack_embryo_line *line;
	struct pcn_conntrack_entry *e;

	if (!ring || !zone || !ring->embryos)
		return PCN_CONNTRACK_FULL;
	limit = PCN_CONNTRACK_ONCE(zone->limit);
	if (limit && PCN_CONNTRACK_ONCE(zone->count) >= limit)
		return PCN_CONNTRACK_LIMIT;
	line = pcn_embryo_line(ring, w->hash);
	e = line ? pcn_embryo_claim(ring, &ticket) : NULL;
	if (!e)
		return PCN_CONNTRACK_BUSY;
	e->key = w->fresh.key;
	pcn_embryo_copy(e, &w->fresh);
	pcn_embryo_become(e, ticket << 8 | PCN_EMBRYO_WRITTEN, ticket << 8 | PCN_EMBRYO_OPEN);
	word = pcn_conntrack_tag(w->hash) << 24 | ticket;
	if (!pcn_embryo_link(line, word))
		return PCN_CONNTRACK_BUSY;
	pcn_embryo_contest(ring, line, e, word, &w->fresh.key);
	w->change = ticket << 8 | PCN_EMBRYO_WRITTEN;
	return 0;
}

#endif
