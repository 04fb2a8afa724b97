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

/* In the result of pcn_conntrack_open: the connection was there. */
#define PCN_CONNTRACK_THERE 0x1000000

/* Returns the entry of a result of the functions below, NULL for 0 and for a refusal. */
PCN_INLINE struct pcn_conntrack_entry *pcn_conntrack_entry(int number)
{
	return number > 0 ? pcn_conntrack_at(number & PCN_CONNTRACK_NUMBER) : NULL;
}

/* The generation of a zone's rules. If an entry has another one, the packet goes through the rules like
 * the first; if they accept it, set the entry's generation, else end it. */
PCN_INLINE __u32 pcn_conntrack_generation(__u16 zone)
{
	__u32 at = zone;
	struct pcn_conntrack_zone *z = bpf_map_lookup_elem(&ct_zones, &at);

	return z ? PCN_CONNTRACK_ONCE(z->generation) : 0;
}

/* Internal: counts connections of a zone. True if there were as many as it may have. */
PCN_INLINE bool pcn_conntrack_count(__u16 zone, __s32 more)
{
	__u32 at = zone, count, limit;
	struct pcn_conntrack_zone *z = bpf_map_lookup_elem(&ct_zones, &at);

	if (!z)
		return true;
	count = __sync_fetch_and_add(&z->count, more);
	limit = PCN_CONNTRACK_ONCE(z->limit);
	return limit && count >= limit;
}

/* Ends a connection: packets do not find it any more. Its memory is free after the next sweep. */
PCN_INLINE void pcn_conntrack_end(struct pcn_conntrack_entry *e)
{
	if (__sync_val_compare_and_swap(&e->status, PCN_CONNTRACK_IS_OPEN,
					PCN_CONNTRACK_IS_ENDED) == PCN_CONNTRACK_IS_OPEN)
		pcn_conntrack_count(e->key.zone, -1);
}

/* Internal: finds the open entry with a key in a line. It returns a pointer, of which the verifier knows whether
 * it is NULL: the number alone would have it continue with each number that it found. */
PCN_INLINE struct pcn_conntrack_entry *pcn_conntrack_search(struct pcn_conntrack_line *line,
							    __u32 tag,
							    const struct pcn_conntrack_key *key,
							    __u32 *number)
{
	/* Unrolled, it has 60 look-ups in maps, which the kernel inserts one by one when it loads the program. If it were
	 * a loop of 15, the verifier would forget what it knows of the first ones, and follow them again. */
#pragma clang loop unroll_count(5)
	for (int i = 0; i < PCN_CONNTRACK_WORDS; i++) {
		__u32 word = PCN_CONNTRACK_ONCE(line->word[i]);

		if (word >> 24 != tag)
			continue;
		asm volatile("" : : : "memory"); /* else the key is on the stack */
		struct pcn_conntrack_entry *e = pcn_conntrack_match(word, key);
		if (!e || PCN_CONNTRACK_ONCE(e->status) != PCN_CONNTRACK_IS_OPEN)
			continue;
		*number = word & PCN_CONNTRACK_NUMBER;
		return e;
	}
	return NULL;
}

/* Internal: the same in both lines where it may be. */
PCN_INLINE struct pcn_conntrack_entry *
pcn_conntrack_look(__u32 lines, __u64 hash, const struct pcn_conntrack_key *key, __u32 *number)
{
	struct pcn_conntrack_line *line = pcn_conntrack_line(lines, hash, 0);
	__u32 tag = pcn_conntrack_tag(hash);
	struct pcn_conntrack_entry *e;

	if (!line)
		return NULL;
	e = pcn_conntrack_search(line, tag, key, number);
	if (e || !PCN_CONNTRACK_ONCE(line->beyond))
		return e;
	line = pcn_conntrack_line(lines, hash, 1);
	return line ? pcn_conntrack_search(line, tag, key, number) : NULL;
}

/* Returns the number of the open connection with a key, 0 if there is none. In each program, the verifier
 * processes it once. */
PCN_GLOBAL int pcn_conntrack_find(const struct pcn_conntrack_key *key)
{
	struct pcn_conntrack_control *control = pcn_conntrack_control();
	__u32 number;

	if (!key || !control ||
	    !pcn_conntrack_look(pcn_conntrack_lines(control), pcn_conntrack_hash(control, key), key,
				&number))
		return 0;
	return number;
}

/* Internal: copies words of 64 bits one by one. A compiler reads all of them before it writes, which takes
 * 100 bytes of the stack. */
PCN_INLINE void pcn_conntrack_copy(void *to, const void *from, const __u32 size)
{
	volatile __u64 *t = __builtin_assume_aligned(to, 8);
	const volatile __u64 *f = __builtin_assume_aligned(from, 8);

#pragma unroll
	for (__u32 i = 0; i < size / 8; i++)
		t[i] = f[i];
}

/* Internal: copies free numbers from the ring to a CPU's own. 0 if there are none. */
PCN_INLINE int pcn_conntrack_refill(struct pcn_conntrack_control *control,
				    struct pcn_conntrack_taken *taken)
{
#pragma clang loop unroll(disable)
	for (int i = 0; i < 4; i++) {
		__u32 head = PCN_CONNTRACK_ONCE(control->head);
		__u32 block = head / PCN_CONNTRACK_TAKES & PCN_CONNTRACK_ONCE(control->ring);
		__u32 part = block / PCN_CONNTRACK_PART_FREES;

		if ((__s32)(PCN_CONNTRACK_ONCE(control->tail) - head) < PCN_CONNTRACK_TAKES)
			return 0;
		if (__sync_val_compare_and_swap(&control->head, head, head + PCN_CONNTRACK_TAKES) !=
		    head)
			continue;
		void *array = bpf_map_lookup_elem(&ct_ring, &part);
		block &= PCN_CONNTRACK_PART_FREES - 1;
		struct pcn_conntrack_frees *frees =
			array ? bpf_map_lookup_elem(array, &block) : NULL;
		if (!frees)
			return 0;
		pcn_conntrack_copy(taken->number, frees->number, sizeof(taken->number));
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

/* Internal: ends all tentative entries with the key of `mine` and a higher number in a line. Returns the number of
 * the first that is open, or has a lower number, because of which `mine` gives way; 0 if there is
 * none. In each program, the verifier processes it once. */
PCN_GLOBAL __u32 pcn_conntrack_contest(__u32 lines, __u64 hash, __u32 next, __u32 mine)
{
	struct pcn_conntrack_line *line = pcn_conntrack_line(lines, hash, next);
	struct pcn_conntrack_entry *own = pcn_conntrack_at(mine & PCN_CONNTRACK_NUMBER);

	if (!line || !own)
		return 0;
#pragma clang loop unroll(disable)
	for (int i = 0; i < PCN_CONNTRACK_WORDS; i++) {
		__u32 word = PCN_CONNTRACK_ONCE(line->word[i]), status;

		if (word >> 24 != mine >> 24 || word == mine)
			continue;
		asm volatile(
			""
			:
			:
			: "memory"); /* else the key is read before the loop, and on the stack in it */
		struct pcn_conntrack_entry *e = pcn_conntrack_match(word, &own->key);
		if (!e)
			continue;
		status = PCN_CONNTRACK_ONCE(e->status);
		if (status == PCN_CONNTRACK_IS_TENTATIVE && word > mine)
			status = __sync_val_compare_and_swap(&e->status, PCN_CONNTRACK_IS_TENTATIVE,
							     PCN_CONNTRACK_IS_OUTBID);
		else if (status == PCN_CONNTRACK_IS_TENTATIVE)
			status = PCN_CONNTRACK_IS_OPEN; /* as good as that */
		if (status == PCN_CONNTRACK_IS_OPEN)
			return word & PCN_CONNTRACK_NUMBER;
	}
	return 0;
}

/* Internal: puts a word into the line for a hash, or the one after it. 0 if both are full. */
PCN_INLINE int pcn_conntrack_insert(__u32 lines, __u64 hash, __u32 word)
{
	struct pcn_conntrack_line *line = pcn_conntrack_line(lines, hash, 0);

	if (!line)
		return 0;
	if (pcn_conntrack_claim(line, word))
		return 1;
	/* Before the claim: who reads 0 there may rely on it. */
	__sync_fetch_and_add(&line->beyond, 1);
	line = pcn_conntrack_line(lines, hash, 1);
	if (line && pcn_conntrack_claim(line, word))
		return 1;
	line = pcn_conntrack_line(lines, hash, 0);
	if (line)
		__sync_fetch_and_add(&line->beyond, -1);
	return 0;
}

/* Internal: ends the tentative entry of this CPU because of another one with its key, `winner`, if that is
 * known: returns its number. The sweeper removes the word. */
PCN_INLINE int pcn_conntrack_lose(struct pcn_conntrack_entry *e, __u32 winner)
{
	pcn_conntrack_count(e->key.zone, -1);
	PCN_CONNTRACK_ONCE(e->status) = PCN_CONNTRACK_IS_ENDED;
	e = winner ? pcn_conntrack_at(winner) : NULL;
	/* It takes the other CPU less than a microsecond. */
#pragma clang loop unroll(disable)
	for (int i = 0; e && i < 16; i++) {
		__u32 status = PCN_CONNTRACK_ONCE(e->status);

		if (status == PCN_CONNTRACK_IS_OPEN)
			return winner | PCN_CONNTRACK_THERE;
		if (status != PCN_CONNTRACK_IS_TENTATIVE)
			break;
	}
	return PCN_CONNTRACK_BUSY;
}

/* Internal: puts a word into the lines that are not in use yet, while the table grows. Rare, and so is not
 * inlined. */
PCN_GLOBAL int pcn_conntrack_insert_also(__u32 lines, __u64 hash, __u32 word)
{
	return pcn_conntrack_insert(lines, hash, word);
}

/* Internal: publishes a tentative entry and confirms it, or ends it. */
PCN_INLINE int pcn_conntrack_publish(struct pcn_conntrack_control *control,
				     struct pcn_conntrack_entry *e, __u32 number)
{
	__u64 hash = pcn_conntrack_hash(control, &e->key), lines = pcn_conntrack_lines(control);
	__u32 mine = pcn_conntrack_tag(hash) << 24 | number, winner = 0;
	struct pcn_conntrack_line *line;

	if (!pcn_conntrack_insert(lines, hash, mine)) {
		pcn_conntrack_count(e->key.zone, -1);
		PCN_CONNTRACK_ONCE(e->status) = PCN_CONNTRACK_IS_WITHDRAWN;
		return PCN_CONNTRACK_CROWDED;
	}
	/* While the table grows, into the other lines, too. */
	if (lines >> 32 && !pcn_conntrack_insert_also(lines >> 32, hash, mine))
		return pcn_conntrack_lose(e, 0);
	/* All CPUs claim before they look, so of two, at least one sees the other. */
	winner = pcn_conntrack_contest(lines, hash, 0, mine);
	line = pcn_conntrack_line(lines, hash, 0);
	if (!winner && line && PCN_CONNTRACK_ONCE(line->beyond))
		winner = pcn_conntrack_contest(lines, hash, 1, mine);
	if (!winner &&
	    __sync_val_compare_and_swap(&e->status, PCN_CONNTRACK_IS_TENTATIVE,
					PCN_CONNTRACK_IS_OPEN) == PCN_CONNTRACK_IS_TENTATIVE)
		return mine & PCN_CONNTRACK_NUMBER;
	return pcn_conntrack_lose(e, winner);
}

/* Internal: opens a connection. In each program, the verifier processes it once. */
PCN_GLOBAL int pcn_conntrack_try(const struct pcn_conntrack_entry *new)
{
	struct pcn_conntrack_control *control = pcn_conntrack_control();
	struct pcn_conntrack_entry *e;
	__u32 number;

	if (!new || !control)
		return PCN_CONNTRACK_FULL;
	if (pcn_conntrack_count(new->key.zone, 1)) {
		pcn_conntrack_count(new->key.zone, -1);
		return PCN_CONNTRACK_LIMIT;
	}
	number = pcn_conntrack_take(control);
	e = pcn_conntrack_entry(number);
	if (!e) {
		pcn_conntrack_count(new->key.zone, -1);
		return PCN_CONNTRACK_FULL;
	}
	pcn_conntrack_copy(&e->key, &new->key, sizeof(e->key));
	e->generation = new->generation;
	pcn_conntrack_copy(&e->seen, &new->seen,
			   sizeof(*e) - __builtin_offsetof(struct pcn_conntrack_entry, seen));
	PCN_CONNTRACK_ONCE(e->status) = PCN_CONNTRACK_IS_TENTATIVE;
	return pcn_conntrack_publish(control, e, number);
}

/* Opens a connection: key, state and the rest of the entry except `status` are the caller's. Returns its
 * number; if another CPU has opened the same meanwhile, that one's with PCN_CONNTRACK_THERE; or a negative
 * enum pcn_conntrack_refusal. Call pcn_conntrack_find first. */
PCN_INLINE int pcn_conntrack_open(const struct pcn_conntrack_entry *new)
{
	int number = pcn_conntrack_try(new);

	if (number != PCN_CONNTRACK_BUSY)
		return number;
	number = pcn_conntrack_find(&new->key);
	return number ? number | PCN_CONNTRACK_THERE : PCN_CONNTRACK_BUSY;
}

#endif
