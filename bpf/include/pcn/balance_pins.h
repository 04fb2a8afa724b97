// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Keeps flows with their servers when a pool changes: a table of bounded size, in buckets of a cache line. A flow has two
 * buckets, and the second is only looked at where the first does not have it. A pin is confirmed by the flow's second packet
 * that is not a SYN, and only unconfirmed ones make room for others, while confirmed ones move to their second bucket: a flood of SYNs,
 * or of packets that each are a new flow, unpins no flow that exists. A flow without a pin goes where the table of its pool says. */
#ifndef PCN_BALANCE_PINS_H
#define PCN_BALANCE_PINS_H

#include <pcn/balance.h>
#include <pcn/config.h>

/* Internal: pins of a bucket. */
#define PCN_PINS_WAYS 4

/* Internal: a pin, and what its word consists of: the numbers of server and service, the unit of time in which the flow
 * was last seen, and bits. 0: there is none. While its hash is written, it is PCN_PIN_BUSY alone. In Go: balance.Pins. */
struct pcn_pin {
	__u64 hash;
	__u64 word;
};
#define PCN_PIN_SERVER(word) ((word)&0xfffff)
#define PCN_PIN_SERVICE(word) ((word) >> 20 & 0xfffff)
#define PCN_PIN_SEEN(word) ((word) >> 40 & 0xff)
#define PCN_PIN_SEEN_ALL (0xffULL << 40)
#define PCN_PIN_CONFIRMED (1ULL << 48)
#define PCN_PIN_BUSY (1ULL << 49)

struct pcn_pins {
	struct pcn_pin way[PCN_PINS_WAYS];
};

/* The number of buckets is that of the plan of the cube's creation, a power of two: balance.Pins. */
PCN_MAP_FLAGS(pins, BPF_MAP_TYPE_ARRAY, __u32, struct pcn_pins, 1, BPF_F_MMAPABLE);

/* The buckets less one. The cube's plan sets it with the size of the map. */
PCN_CONFIG(__u32, pins_mask) = 0;

/* Internal: the bucket of a flow: its first, or its second. */
PCN_INLINE struct pcn_pins *pcn_pins_of(__u64 hash, __u32 second)
{
	__u32 bucket = (second ? hash >> 24 : hash) & pins_mask;

	return bpf_map_lookup_elem(&pins, &bucket);
}

/* Internal: hides from the compiler what it knows about a number, so that it makes no branches of arithmetic: the verifier
 * would follow both ways for each pin of a bucket, and the processor guess. */
PCN_INLINE __u64 pcn_pins_plain(__u64 x)
{
	asm volatile("" : "+r"(x));
	return x;
}

/* Internal: 1 if x is 0. */
PCN_INLINE __u64 pcn_pins_none(__u64 x)
{
	return pcn_pins_plain(x | -x) >> 63 ^ 1;
}

/* Internal: a flow's pin in a bucket; NULL: it has none there. */
PCN_INLINE struct pcn_pin *pcn_pins_find(struct pcn_pins *bucket, __u64 hash, __u32 service)
{
	__u64 at = 0;

#pragma unroll
	for (int i = 0; i < PCN_PINS_WAYS; i++)
		at |= (i + 1) * pcn_pins_none((bucket->way[i].hash ^ hash) |
					      (PCN_PIN_SERVICE(bucket->way[i].word) ^ service));
	return at ? &bucket->way[(at - 1) % PCN_PINS_WAYS] : NULL;
}

/* Internal: the pin with a hash in a bucket where only one has it, which is nearly always so; another one where none has: by the
 * hash alone, as the processor then need not wait for the service. */
PCN_INLINE struct pcn_pin *pcn_pins_by_hash(struct pcn_pins *bucket, __u64 hash)
{
	__u64 at = 0;

#pragma unroll
	for (int i = 1; i < PCN_PINS_WAYS;
	     i++) /* plain once more: a branch here would be guessed wrong */
		at |= i * pcn_pins_plain(pcn_pins_none(bucket->way[i].hash ^ hash));
	/* The compiler knows that it is below 4; the verifier of Linux 6.1 does not. */
	return &bucket->way[pcn_pins_plain(at) % PCN_PINS_WAYS];
}

/* Internal: the word of a pin, if it has a hash; 0: it has another one. The word is read first: another CPU that has the place for
 * another flow writes the hash before it. */
PCN_INLINE __u64 pcn_pin_read(const struct pcn_pin *pin, __u64 hash)
{
	__u64 word = *(const volatile __u64 *)&pin->word;

	return *(const volatile __u64 *)&pin->hash == hash ? word : 0;
}

/* Internal: how willingly a pin makes room for a flow: 0 not at all, then by its age if it is unconfirmed, more if it is
 * over (of another service, whose timeout is not known here, the control plane removes it), most if there is none, where the flow had one; and first of all an old pin of the same flow, which must not be
 * there twice. */
PCN_INLINE __u64 pcn_pin_yields(const struct pcn_pin *pin, __u64 hash, __u32 service, __u64 now,
				__u64 timeout)
{
	__u64 word = pin->word, same = (pin->hash ^ hash) | (PCN_PIN_SERVICE(word) ^ service),
	      age = (now - PCN_PIN_SEEN(word)) & 0xff;
	__u64 here = pcn_pins_plain(~word >> 49 & 1), open = pcn_pins_plain(~word >> 48 & 1);
	__u64 over = pcn_pins_plain(timeout - age) >> 63 &
		     pcn_pins_none(PCN_PIN_SERVICE(word) ^ service);
	__u64 yields = (age + 1) * open | over << 9;

	yields |= pcn_pins_none(word) << 10 | pcn_pins_none(word | (pin->hash ^ hash)) << 11;
	return (yields | pcn_pins_none(same) << 12) * here;
}

/* Internal: makes room for a flow at a place in its two buckets (`at`: those of the second one follow those of the first): moves the pin
 * there from its first bucket to its second. Returns 1 if the place is busy then, for the flow; 0 if it stays; -1 if it was just
 * used. Pins do not move from their second bucket to their first: another CPU that looks there first, and then here, would find none. */
PCN_GLOBAL int pcn_pin_move(__u64 hash, __u32 at)
{
	__u64 from = at < PCN_PINS_WAYS ? hash : hash >> 24, place = 0;
	__u32 first = from & pins_mask;
	struct pcn_pins *bucket = bpf_map_lookup_elem(&pins, &first), *other;

	if (!bucket)
		return 0;
	struct pcn_pin *pin = &bucket->way[at % PCN_PINS_WAYS];
	__u64 of = pin->hash, word = pin->word;

	other = pcn_pins_of(of, 1);
	if (((of ^ from) & pins_mask) || (word & PCN_PIN_BUSY) || !other || other == bucket)
		return 0;
#pragma unroll
	for (int i = 0; i < PCN_PINS_WAYS; i++) { /* the last one that makes room */
		__u64 open = pcn_pins_none(other->way[i].word >> 48 & 3);

		place ^= ((i + 1) ^ place) & -open;
	}
	if (!place)
		return 0;
	struct pcn_pin *to = &other->way[(place - 1) % PCN_PINS_WAYS];
	__u64 was = to->word;

	if ((was & (PCN_PIN_CONFIRMED | PCN_PIN_BUSY)) ||
	    __sync_val_compare_and_swap(&to->word, was, PCN_PIN_BUSY) != was)
		return -1;
	to->hash = of;
	__sync_lock_test_and_set(&to->word, word);
	if (__sync_val_compare_and_swap(&pin->word, word, PCN_PIN_BUSY) == word)
		return 1;
	__sync_val_compare_and_swap(&to->word, word, 0); /* it was seen, and stays */
	return -1;
}

/* Internal: makes room for a flow whose two buckets have only pins that stay. Returns the place, as pcn_pin_move has it; -1: none. */
PCN_INLINE int pcn_pins_move(__u64 hash)
{
	for (int at = 0; at < 2 * PCN_PINS_WAYS; at++) {
		int moved = pcn_pin_move(hash, at);

		if (moved)
			return moved < 0 ? -1 : at;
	}
	return -1;
}

/* Pins a flow of a service to a server. Returns 0, or -1 if there is no room. `now` is the unit of time, `timeout` that
 * of the service in units. */
PCN_GLOBAL int pcn_pin_add(__u64 hash, __u64 word, __u32 now, __u32 timeout)
{
	__u32 service = PCN_PIN_SERVICE(word);
	__u64 best = 0;

	for (int second = 0; second < 2; second++) {
		struct pcn_pins *bucket = pcn_pins_of(hash, second);

		if (!bucket)
			return -1;
#pragma unroll
		for (int i = 0; i < PCN_PINS_WAYS; i++) {
			__u64 yields = pcn_pin_yields(&bucket->way[i], hash, service, now, timeout)
					       << 3 |
				       !second << 2 | i; /* the first bucket where both have room */
			__s64 less = best - yields;

			best ^= (yields ^ best) & pcn_pins_plain(less >> 63); /* the greater one */
		}
	}
	int full = best < 1 << 3;
	if (full) {
		int place = pcn_pins_move(hash);

		if (place < 0)
			return -1;
		best = place ^
		       PCN_PINS_WAYS; /* as above: the first bucket is the one with the bit */
	}
	struct pcn_pins *bucket = pcn_pins_of(hash, ~best >> 2 & 1);
	if (!bucket)
		return -1;
	struct pcn_pin *pin = &bucket->way[best % PCN_PINS_WAYS];
	__u64 was = pin->word;
	if (!full && ((was & PCN_PIN_BUSY) ||
		      __sync_val_compare_and_swap(&pin->word, was, PCN_PIN_BUSY) != was))
		return -1; /* another CPU has taken it: the flow's next packet tries again */
	pin->hash = hash;
	__sync_lock_test_and_set(&pin->word, word);
	return 0;
}

/* The word of a new pin. */
PCN_INLINE __u64 pcn_pin_word(__u32 service, __u32 server, __u32 now)
{
	return server | (__u64)service << 20 | (__u64)(now & 0xff) << 40;
}

/* The pin with a hash in the first bucket of a flow, and its word; NULL: there is none. For programs that know services by number,
 * and so need not find the service first: PCN_PIN_SERVICE of the word is that of the flow if a packet with the hash is for it. */
PCN_INLINE struct pcn_pin *pcn_pin_by_hash(__u64 hash, __u64 *word)
{
	struct pcn_pins *bucket = pcn_pins_of(hash, 0);
	struct pcn_pin *pin;

	if (!bucket)
		return NULL;
	pin = pcn_pins_by_hash(bucket, hash);
	*word = pcn_pin_read(pin, hash);
	return *word ? pin : NULL;
}

/* Notes in a pin, whose word was `was`, that its flow was seen: as pcn_pin_get. Returns the number of the server; 0: its time
 * was over. */
PCN_INLINE __u32 pcn_pin_seen(struct pcn_pin *pin, __u64 was, __u32 now, __u32 timeout,
			      int confirms)
{
	__u64 is = (was & ~PCN_PIN_SEEN_ALL) | (__u64)(now & 0xff) << 40 | (__u64) !!confirms << 48;

	if (((now - PCN_PIN_SEEN(was)) & 0xff) > timeout)
		return 0;
	if (is != was)
		__sync_val_compare_and_swap(&pin->word, was, is);
	return PCN_PIN_SERVER(was);
}

/* The number of the server that a flow of a service is pinned to; 0: none. Notes that the flow was seen; `confirms` says
 * that the packet shows that the flow exists: it is no SYN. */
PCN_INLINE __u32 pcn_pin_get(__u64 hash, __u32 service, __u32 now, __u32 timeout, int confirms)
{
	struct pcn_pins *bucket = pcn_pins_of(hash, 0);
	struct pcn_pin *pin;
	__u64 was;

	if (!bucket)
		return 0;
	pin = pcn_pins_by_hash(bucket, hash);
	was = pcn_pin_read(pin, hash);
	if (PCN_PIN_SERVICE(was) != service) { /* another pin has its hash, or it is not there */
		pin = pcn_pins_find(bucket, hash, service);
		was = pin ? pcn_pin_read(pin, hash) : 0;
	}
	if (PCN_PIN_SERVICE(was) != service) { /* also where it has just moved */
		bucket = pcn_pins_of(hash, 1);
		pin = bucket ? pcn_pins_find(bucket, hash, service) : NULL;
		was = pin ? pcn_pin_read(pin, hash) : 0;
	}
	if (!pin || PCN_PIN_SERVICE(was) != service)
		return 0;
	return pcn_pin_seen(pin, was, now, timeout, confirms);
}

#endif
