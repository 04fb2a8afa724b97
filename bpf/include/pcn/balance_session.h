// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Sessions of a load balancer: what becomes of the packets of a client's flow and of its server's answers. They are in a table
 * of connections of the cube's own, with an entry for each direction: its key is the ends that packets have, and it has the
 * ends that they get. Go package `balance/session` reads and sweeps them.
 *
 * Define PCN_CONNTRACK_OWN, and include it yourself. */
#ifndef PCN_BALANCE_SESSION_H
#define PCN_BALANCE_SESSION_H

#include <linux/ipv6.h>
#include <pcn/conntrack.h>
#include <pcn/csum.h>

/* The ends of a packet, a struct pcn_conntrack_key that is not sorted. */
struct pcn_session_key {
	pcn_address source;
	pcn_address destination;
	__be16 source_port;
	__be16 destination_port;
	__u16 zone;
	__u8 protocol;
	__u8 ipv6;
} __attribute__((aligned(8)));

/* struct pcn_session.flags; the others are the cube's. */
#define PCN_SESSION_REPLY 0x01	   /* the key is that of the server's packets */
#define PCN_SESSION_TWIN_ZONE 0x04 /* the zone of the other entry is 1, otherwise 0 */

/* An entry of a session, a struct pcn_conntrack_entry. */
struct pcn_session {
	struct pcn_session_key key;
	__u32 status;	  /* of the table */
	__u32 generation; /* the cube's */
	__u64 seen;	  /* coarse monotonic ns of the last packet */
	struct pcn_ct_progress
		progress; /* of both directions, in both entries; side 0 is the client */
	__u32 server;	  /* its number */
	pcn_address source;
	pcn_address destination;
	__be16 source_port;
	__be16 destination_port;
	__u16 address_delta; /* difference that both addresses add to a checksum */
	__u16 port_delta;
	__u8 flags;
	__u8 zero[3];
	__u32 created; /* coarse monotonic seconds */
	__u64 own[2];  /* the cube's */
};

/* Internal: members that the table knows. */
#define PCN_SESSION_SAME(a, b)                        \
	(__builtin_offsetof(struct pcn_session, a) == \
	 __builtin_offsetof(struct pcn_conntrack_entry, b))
_Static_assert(sizeof(struct pcn_session) == sizeof(struct pcn_conntrack_entry) &&
		       PCN_SESSION_SAME(key.zone, key.zone) && PCN_SESSION_SAME(status, status) &&
		       PCN_SESSION_SAME(generation, generation) && PCN_SESSION_SAME(seen, seen),
	       "sessions are entries of the table");

/* The entry with a key, NULL if there is none. */
PCN_INLINE struct pcn_session *pcn_session_find(const struct pcn_session_key *key)
{
	return (void *)pcn_conntrack_entry(pcn_conntrack_find((const void *)key));
}

/* Has the processor fetch the lines of both keys of a session that will probably be opened, at once. One by one, it would wait for
 * each, as it does not begin with a load that is some hundred instructions behind another one. */
PCN_INLINE void pcn_session_fetch(const struct pcn_session_key *key,
				  const struct pcn_session_key *twin)
{
	struct pcn_conntrack_control *control = pcn_conntrack_control();

	if (!control)
		return;
	__u32 lines = pcn_conntrack_lines(control);
	__u64 hash = pcn_conntrack_hash(control, (const void *)key);
	__u64 other = pcn_conntrack_hash(control, (const void *)twin);
	struct pcn_conntrack_line *line = pcn_conntrack_line(lines, hash, 0);
	struct pcn_conntrack_line *second = pcn_conntrack_line(lines, other, 0);

	if (line && second) {
		(void)PCN_CONNTRACK_ONCE(line->beyond);
		(void)PCN_CONNTRACK_ONCE(second->beyond);
	}
}

/* Internal: how often a CPU looks for a session that another one is opening, which takes less than a microsecond. */
#define PCN_SESSION_LOOKS 32

/* After pcn_conntrack_open has returned PCN_CONNTRACK_BUSY for a client's packets: another CPU opens the session for a copy of this
 * packet. Returns its number with PCN_CONNTRACK_THERE, or PCN_CONNTRACK_BUSY if neither CPU has opened it. */
PCN_INLINE int pcn_session_await(const struct pcn_session_key *key)
{
	int number = 0;

#pragma clang loop unroll(disable)
	for (int i = 0; i < PCN_SESSION_LOOKS && !number; i++)
		number = pcn_conntrack_find((const void *)key);
	return number ? number | PCN_CONNTRACK_THERE : PCN_CONNTRACK_BUSY;
}

/* Writes the key of the other entry of a session. */
PCN_INLINE void pcn_session_twin(struct pcn_session_key *twin, const struct pcn_session *e)
{
	pcn_address_copy(twin->source, e->destination);
	pcn_address_copy(twin->destination, e->source);
	twin->source_port = e->destination_port;
	twin->destination_port = e->source_port;
	twin->zone = !!(e->flags & PCN_SESSION_TWIN_ZONE);
	twin->protocol = e->key.protocol;
	twin->ipv6 = e->key.ipv6;
}

/* Whether a session counts as one that its server has: a connection of TCP that is closing or closed does not. */
PCN_INLINE int pcn_session_is_active(const struct pcn_ct_progress *p)
{
	return p->state < PCN_CT_LAST_ACK;
}

/* Internal: a packet changes the state of an entry. Returns 0 if another CPU changes it at the same time. In each program, the
 * verifier processes it once. */
PCN_GLOBAL int pcn_session_try(struct pcn_session *e PCN_NONNULL, __u32 from, __u32 tcp_flags)
{
	union {
		__u32 word;
		struct pcn_ct_progress progress;
	} is, next;

	is.word = next.word = *(volatile __u32 *)&e->progress;
	pcn_ct_follow(&next.progress, from, e->key.protocol, tcp_flags);
	return next.word == is.word ||
	       __sync_val_compare_and_swap((__u32 *)&e->progress, is.word, next.word) == is.word;
}

/* Internal: how often a packet tries to change a state. */
#define PCN_SESSION_TRIES 4

/* A packet of the client, or of the server (`from` is PCN_SESSION_REPLY), changes the state of an entry. */
PCN_INLINE void pcn_session_follow(struct pcn_session *e, __u32 from, __u32 tcp_flags)
{
	for (int i = 0; i < PCN_SESSION_TRIES && !pcn_session_try(e, from, tcp_flags); i++)
		;
}

/* The difference that two changes of addresses make to a checksum. */
PCN_INLINE __u16 pcn_session_delta(const __be32 *source, const __be32 *new_source,
				   const __be32 *destination, const __be32 *new_destination)
{
	__u32 sum = (__u32)pcn_csum_diff16(source, new_source) +
		    pcn_csum_diff16(destination, new_destination);

	return ~pcn_csum_fold(sum);
}

/* Completes the entry for a client's packets, whose key, new ends and `address_delta` are set, and writes that for the server's,
 * which has `flags`. */
PCN_INLINE void pcn_session_mirror(struct pcn_session *new, struct pcn_session *reply, __u8 flags)
{
	new->port_delta =
		~pcn_csum_fold((__u32)pcn_csum_diff2(new->key.source_port, new->source_port) +
			       pcn_csum_diff2(new->key.destination_port, new->destination_port));
	*reply = *new;
	pcn_session_twin(&reply->key, new);
	pcn_address_copy(reply->source, new->key.destination);
	pcn_address_copy(reply->destination, new->key.source);
	reply->source_port = new->key.destination_port;
	reply->destination_port = new->key.source_port;
	reply->flags = PCN_SESSION_REPLY | flags;
	reply->address_delta = ~new->address_delta;
	reply->port_delta = ~new->port_delta;
}

/* Writes both addresses of an IP header. `delta` is their difference for checksums. */
PCN_INLINE void pcn_session_write(void *l3, const __be32 *source, const __be32 *destination,
				  __u16 delta, const int v6)
{
	if (v6) {
		struct ipv6hdr *ip = l3;

		pcn_address_copy(ip->saddr.in6_u.u6_addr32, source);
		pcn_address_copy(ip->daddr.in6_u.u6_addr32, destination);
	} else {
		struct iphdr *ip = l3;

		ip->saddr = source[3];
		ip->daddr = destination[3];
		pcn_csum_ipv4(ip, delta);
	}
}

#endif
