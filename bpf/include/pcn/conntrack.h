// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* The table of connections, one for all cubes. A program finds the connection of a packet, or opens it,
 * exactly once whatever the CPUs; Go package conntrack/table expires, lists and limits connections.
 *
 *	struct pcn_conntrack_entry new = {}, *e;
 *	int from = pcn_conntrack_key(&new.key, &flow, zone);
 *	int number = from < 0 ? 0 : pcn_conntrack_find(&new.key);
 *
 *	if (!number && from >= 0 && pcn_ct_udp(&new.state, from) == PCN_CT_NEW && accepted) {
 *		new.seen = pcn_time_coarse();
 *		new.generation = pcn_conntrack_generation(zone);
 *		number = pcn_conntrack_open(&new);
 *	}
 *	e = pcn_conntrack_entry(number);
 *
 * An entry that was found remains what it is until the program ends, even if it is removed meanwhile.
 * Cubes that must not see each other's connections have different zones. */
#ifndef PCN_CONNTRACK_H
#define PCN_CONNTRACK_H

#include <pcn/conntrack_table.h>
#include <pcn/flow.h>

/* Why a connection was not opened. */
enum pcn_conntrack_refusal {
	PCN_CONNTRACK_FULL = -1,    /* the table has no free entry */
	PCN_CONNTRACK_LIMIT = -2,   /* the zone has as many connections as it may have */
	PCN_CONNTRACK_CROWDED = -3, /* too many keys have a similar hash */
	PCN_CONNTRACK_BUSY = -4,    /* other CPUs are opening it; the next packet will find it */
};

/* Writes the key of a packet's connection. Returns the side that sent the packet, 0 or 1, as functions of
 * <pcn/conntrack_state.h> need it, or -1 if the packet has no key: later fragments, ICMP other than
 * queries and their replies. The ports of an ICMP query are its id at the side that asks and its type at
 * the other, so queries and replies have the same key. In Go: table.KeyOf. */
PCN_INLINE int pcn_conntrack_key(struct pcn_conntrack_key *key, const struct pcn_flow *flow,
				 __u16 zone)
{
	__u8 protocol = flow->protocol, ipv6 = !!(flow->has & PCN_FLOW_IPV6);
	__be16 from = flow->source_port, to = flow->destination_port;
	__u64 source[2], destination[2];

	if (!(flow->has & PCN_FLOW_L4) || flow->fragment == PCN_FRAGMENT_LATER)
		return -1;
	if (protocol == (ipv6 ? IPPROTO_ICMPV6 : IPPROTO_ICMP)) {
		__u8 type = flow->icmp_type, reply;

		if (!(flow->has & PCN_FLOW_ICMP) ||
		    !(ipv6 ? pcn_icmp6_has_id(type) : pcn_icmp_has_id(type)))
			return -1;
		/* The replies to 8 and 128 are 0 and 129, those to 13, 15 and 17 follow them. */
		reply = ipv6 ? type & 1 : !(type & 1) && type != 8;
		type = !type ? 8 : type - reply;
		from = reply ? bpf_htons(type) : from;
		to = reply ? to : bpf_htons(type);
	} else if (pcn_has_ports(protocol) && !(flow->has & PCN_FLOW_PORTS)) {
		return -1;
	}
	__builtin_memcpy(source, __builtin_assume_aligned(flow->source, 8), sizeof(source));
	__builtin_memcpy(destination, __builtin_assume_aligned(flow->destination, 8),
			 sizeof(destination));
	__u64 swap = destination[0] < source[0];
	if (destination[0] == source[0])
		swap = destination[1] < source[1] || (destination[1] == source[1] && to < from);
	swap = -(pcn_opaque(swap, source[1]) & 1); /* one path from here */
#pragma unroll
	for (int i = 0; i < 2; i++) {
		__u64 other = (source[i] ^ destination[i]) & swap;

		source[i] ^= other;
		destination[i] ^= other;
	}
	__builtin_memcpy(__builtin_assume_aligned(key->address[0], 8), source, sizeof(source));
	__builtin_memcpy(__builtin_assume_aligned(key->address[1], 8), destination,
			 sizeof(destination));
	key->port[0] = from ^ ((from ^ to) & swap);
	key->port[1] = to ^ ((from ^ to) & swap);
	key->zone = zone;
	key->protocol = protocol;
	key->ipv6 = ipv6;
	return swap & 1;
}

/* Returns an entry by its number, NULL for 0 and for a refusal. */
PCN_INLINE struct pcn_conntrack_entry *pcn_conntrack_entry(int number)
{
	__u32 at = number;

	return number > 0 ? bpf_map_lookup_elem(&ct_entries, &at) : NULL;
}

/* The generation of a zone's rules. If an entry has another one, the packet goes through the rules like
 * the first; if they accept it, set the entry's generation, else end it. */
PCN_INLINE __u32 pcn_conntrack_generation(__u16 zone)
{
	__u32 at = zone;
	struct pcn_conntrack_zone *z = bpf_map_lookup_elem(&ct_zones, &at);

	return z ? PCN_CONNTRACK_ONCE(z->generation) : 0;
}

/* Ends a connection: packets do not find it any more. Its memory is free after the next sweep. */
PCN_INLINE void pcn_conntrack_end(struct pcn_conntrack_entry *e)
{
	__sync_val_compare_and_swap(&e->status, PCN_CONNTRACK_IS_OPEN, PCN_CONNTRACK_IS_ENDED);
}

/* Internal: finds the open entry with a key in a line. It returns a pointer, of which the verifier knows whether
 * it is NULL: the number alone would have it continue with each number that it found. */
PCN_INLINE struct pcn_conntrack_entry *pcn_conntrack_search(struct pcn_conntrack_line *line,
							    __u32 tag,
							    const struct pcn_conntrack_key *key,
							    __u32 *number)
{
#pragma unroll
	for (int i = 0; i < PCN_CONNTRACK_WORDS; i++) {
		__u32 word = PCN_CONNTRACK_ONCE(line->word[i]);

		if (word >> 24 != tag)
			continue;
		struct pcn_conntrack_entry *e = pcn_conntrack_match(word, key);
		if (!e || PCN_CONNTRACK_ONCE(e->status) != PCN_CONNTRACK_IS_OPEN)
			continue;
		*number = word & PCN_CONNTRACK_NUMBER;
		return e;
	}
	return NULL;
}

/* Internal: the same in both lines where it may be: its number, or 0. */
PCN_INLINE int pcn_conntrack_look(const struct pcn_conntrack_control *control, __u64 hash,
				  const struct pcn_conntrack_key *key)
{
	struct pcn_conntrack_line *line = pcn_conntrack_line(control, hash, 0);
	__u32 tag = pcn_conntrack_tag(hash), number;

	if (!line)
		return 0;
	if (pcn_conntrack_search(line, tag, key, &number))
		return number;
	if (!PCN_CONNTRACK_ONCE(line->beyond))
		return 0;
	line = pcn_conntrack_line(control, hash, 1);
	return line && pcn_conntrack_search(line, tag, key, &number) ? number : 0;
}

/* Returns the number of the open connection with a key, 0 if there is none. In each program, the verifier
 * processes it once: 1,840 instructions on Linux 6.1, 1,839 on 6.18. */
PCN_GLOBAL int pcn_conntrack_find(const struct pcn_conntrack_key *key)
{
	struct pcn_conntrack_control *control = pcn_conntrack_control();

	if (!key || !control)
		return 0;
	return pcn_conntrack_look(control, pcn_conntrack_hash(control, key), key);
}

/* Internal: copies free numbers from the ring to a CPU's own. 0 if there are none. */
PCN_INLINE int pcn_conntrack_refill(struct pcn_conntrack_control *control,
				    struct pcn_conntrack_taken *taken)
{
#pragma clang loop unroll(disable)
	for (int i = 0; i < 4; i++) {
		__u32 head = PCN_CONNTRACK_ONCE(control->head);
		__u32 part = head / PCN_CONNTRACK_TAKES & control->ring;

		if ((__s32)(PCN_CONNTRACK_ONCE(control->tail) - head) < PCN_CONNTRACK_TAKES)
			return 0;
		if (__sync_val_compare_and_swap(&control->head, head, head + PCN_CONNTRACK_TAKES) !=
		    head)
			continue;
		struct pcn_conntrack_frees *frees = bpf_map_lookup_elem(&ct_ring, &part);
		if (!frees)
			return 0;
		__builtin_memcpy(taken->number, frees->number, sizeof(taken->number));
		taken->left = PCN_CONNTRACK_TAKES;
		return 1;
	}
	return 0;
}

/* Internal: takes a free number; 0 if there is none. */
PCN_INLINE __u32 pcn_conntrack_take(struct pcn_conntrack_control *control)
{
	__u32 zero = 0;
	struct pcn_conntrack_taken *taken = bpf_map_lookup_elem(&ct_taken, &zero);

	if (!taken || (!taken->left && !pcn_conntrack_refill(control, taken)))
		return 0;
	__u32 at = PCN_CONNTRACK_TAKES - taken->left--;
	return taken->number[at & (PCN_CONNTRACK_TAKES - 1)];
}

/* Internal: puts a word into a line. 0 if the line is full. */
PCN_INLINE int pcn_conntrack_claim(struct pcn_conntrack_line *line, __u32 word)
{
#pragma clang loop unroll(disable)
	for (int i = 0; i < PCN_CONNTRACK_WORDS; i++)
		if (!PCN_CONNTRACK_ONCE(line->word[i]) &&
		    !__sync_val_compare_and_swap(&line->word[i], 0, word))
			return 1;
	return 0;
}

/* Internal: removes a word from a line. 0 if it is not there. */
PCN_INLINE int pcn_conntrack_withdraw(struct pcn_conntrack_line *line, __u32 word)
{
#pragma clang loop unroll(disable)
	for (int i = 0; i < PCN_CONNTRACK_WORDS; i++)
		if (PCN_CONNTRACK_ONCE(line->word[i]) == word)
			return __sync_val_compare_and_swap(&line->word[i], word, 0) == word;
	return 0;
}

/* Internal: ends all tentative entries with the same key and a higher number than `mine`. Returns the first
 * that is open, or has a lower number, because of which `mine` must be withdrawn; NULL if there is none. */
PCN_INLINE struct pcn_conntrack_entry *pcn_conntrack_contest(struct pcn_conntrack_line *line,
							     __u32 mine,
							     const struct pcn_conntrack_key *key,
							     __u32 *number)
{
#pragma clang loop unroll(disable)
	for (int i = 0; i < PCN_CONNTRACK_WORDS; i++) {
		__u32 word = PCN_CONNTRACK_ONCE(line->word[i]), status;

		if (word >> 24 != mine >> 24 || word == mine)
			continue;
		struct pcn_conntrack_entry *e = pcn_conntrack_match(word, key);
		if (!e)
			continue;
		status = PCN_CONNTRACK_ONCE(e->status);
		if (status == PCN_CONNTRACK_IS_TENTATIVE && word > mine)
			status = __sync_val_compare_and_swap(&e->status, PCN_CONNTRACK_IS_TENTATIVE,
							     PCN_CONNTRACK_IS_OUTBID);
		else if (status == PCN_CONNTRACK_IS_TENTATIVE)
			status = PCN_CONNTRACK_IS_OPEN; /* as good as that */
		if (status != PCN_CONNTRACK_IS_OPEN)
			continue;
		*number = word & PCN_CONNTRACK_NUMBER;
		return e;
	}
	return NULL;
}

/* Internal: the number of the entry that another CPU opened instead of one that was withdrawn. */
PCN_INLINE int pcn_conntrack_other(const struct pcn_conntrack_control *control, __u64 hash,
				   struct pcn_conntrack_entry *winner, __u32 winner_number,
				   const struct pcn_conntrack_key *key)
{
	int number;

	/* It takes the other CPU less than a microsecond. */
#pragma clang loop unroll(disable)
	for (int i = 0; winner && i < 16; i++) {
		__u32 status = PCN_CONNTRACK_ONCE(winner->status);

		if (status == PCN_CONNTRACK_IS_OPEN)
			return winner_number;
		if (status != PCN_CONNTRACK_IS_TENTATIVE)
			break;
	}
	number = pcn_conntrack_look(control, hash, key);
	return number ? number : PCN_CONNTRACK_BUSY;
}

/* Internal: publishes a tentative entry and confirms it, or withdraws it. */
PCN_INLINE int pcn_conntrack_publish(struct pcn_conntrack_control *control,
				     struct pcn_conntrack_entry *e, __u32 number,
				     const struct pcn_conntrack_key *key)
{
	__u64 hash = pcn_conntrack_hash(control, key);
	__u32 mine = pcn_conntrack_tag(hash) << 24 | number, other = 0;
	struct pcn_conntrack_entry *winner;
	struct pcn_conntrack_line *first = pcn_conntrack_line(control, hash, 0);
	struct pcn_conntrack_line *next = pcn_conntrack_line(control, hash, 1);
	int result = PCN_CONNTRACK_CROWDED;

	if (!first || !next)
		return result;
	if (!pcn_conntrack_claim(first, mine)) {
		/* Before the claim: who reads 0 there may rely on it. */
		__sync_fetch_and_add(&first->beyond, 1);
		if (!pcn_conntrack_claim(next, mine)) {
			__sync_fetch_and_add(&first->beyond, -1);
			goto lost;
		}
	}
	/* All CPUs claim before they look, so of two, at least one sees the other. */
	winner = pcn_conntrack_contest(first, mine, key, &other);
	if (!winner && PCN_CONNTRACK_ONCE(first->beyond))
		winner = pcn_conntrack_contest(next, mine, key, &other);
	if (!winner &&
	    __sync_val_compare_and_swap(&e->status, PCN_CONNTRACK_IS_TENTATIVE,
					PCN_CONNTRACK_IS_OPEN) == PCN_CONNTRACK_IS_TENTATIVE)
		return number;
	if (!pcn_conntrack_withdraw(first, mine) && pcn_conntrack_withdraw(next, mine))
		__sync_fetch_and_add(&first->beyond, -1);
	result = pcn_conntrack_other(control, hash, winner, other, key);
lost:
	PCN_CONNTRACK_ONCE(e->status) = PCN_CONNTRACK_IS_WITHDRAWN;
	return result;
}

/* Opens a connection: key, state and the rest of the entry except `status` are the caller's. Returns its
 * number, or that of the same connection if another CPU has opened it meanwhile, or a negative
 * enum pcn_conntrack_refusal. Call pcn_conntrack_find first. Verified once: 15,121 instructions on Linux 6.1,
 * 9,817 on 6.18. */
PCN_GLOBAL int pcn_conntrack_open(const struct pcn_conntrack_entry *new)
{
	struct pcn_conntrack_control *control = pcn_conntrack_control();
	struct pcn_conntrack_zone *zone;
	struct pcn_conntrack_entry *e;
	__u32 at, limit, number;
	int result = PCN_CONNTRACK_FULL;

	if (!new || !control)
		return result;
	at = new->key.zone;
	zone = bpf_map_lookup_elem(&ct_zones, &at);
	if (!zone)
		return result;
	limit = PCN_CONNTRACK_ONCE(zone->limit);
	if ((__u32)__sync_fetch_and_add(&zone->count, 1) >= limit && limit) {
		result = PCN_CONNTRACK_LIMIT;
		goto refuse;
	}
	number = pcn_conntrack_take(control);
	e = pcn_conntrack_entry(number);
	if (!e)
		goto refuse;
	e->key = new->key;
	e->generation = new->generation;
	e->seen = new->seen;
	e->mark = new->mark;
	e->rule = new->rule;
	e->state = new->state;
	e->user[0] = new->user[0];
	e->user[1] = new->user[1];
	PCN_CONNTRACK_ONCE(e->status) = PCN_CONNTRACK_IS_TENTATIVE;
	result = pcn_conntrack_publish(control, e, number, &new->key);
	if (result == (int)number)
		return result;
refuse:
	__sync_fetch_and_add(&zone->count, -1);
	return result;
}

#endif
