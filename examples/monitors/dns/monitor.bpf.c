// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* DNS over UDP: queries by name and type, responses by code, and the time from a query to its response. Names are shown in
 * lower case, the first 63 characters, with ? for characters that do not belong into one. */
#include <pcn/monitor.h>
#include <pcn/flow.h>

#define PORT 53
#define NAMES 10240
#define PENDING 8192
#define NAME 64

/* Types of records, and codes of responses, by the names of IANA. */
enum type {
	A = 1,
	NS = 2,
	CNAME = 5,
	SOA = 6,
	PTR = 12,
	MX = 15,
	TXT = 16,
	AAAA = 28,
	SRV = 33,
	NAPTR = 35,
	DS = 43,
	DNSKEY = 48,
	SVCB = 64,
	HTTPS = 65,
	AXFR = 252,
	ANY = 255,
};
enum code { NOERROR, FORMERR, SERVFAIL, NXDOMAIN, NOTIMP, REFUSED };

struct header {
	__be16 id;
	__u8 flags;
	__u8 code;
	__be16 questions;
	__be16 answers;
	__be32 rest;
};

struct query {
	char name[NAME];
	enum type type;
};

struct response {
	enum code code;
};

struct pending {
	pcn_address client;
	pcn_address server;
	__be16 port;
	__be16 id;
};

PCN_MAP(queries, BPF_MAP_TYPE_LRU_HASH, struct query, __u64, NAMES);
PCN_MAP(responses, BPF_MAP_TYPE_HASH, struct response, __u64, 16);
PCN_MAP(times, BPF_MAP_TYPE_PERCPU_ARRAY, __u32, struct pcn_histogram, 1);
PCN_BOTH_PATHS PCN_MAP(pending, BPF_MAP_TYPE_LRU_HASH, struct pending, __u64, PENDING);

/* Adds one to a counter, which is created if there is none. */
PCN_INLINE void count(void *map, const void *key)
{
	__u64 none = 0, *n = bpf_map_lookup_elem(map, key);

	if (!n) {
		bpf_map_update_elem(map, key, &none, BPF_NOEXIST);
		n = bpf_map_lookup_elem(map, key);
	}
	if (n)
		__sync_fetch_and_add(n, 1);
}

/* 1 if a number is below another one, by arithmetic: each branch in a loop would multiply the paths that the verifier
 * follows. */
PCN_INLINE __u64 below(__u64 x, __u64 limit)
{
	__u64 is = (x - limit) >> 63;

	asm volatile("" : "+r"(is)); /* products stay products */
	return is;
}

/* The character of a name that is shown for a byte. */
PCN_INLINE __u64 shown(__u64 c)
{
	__u64 upper = below(c, 'Z' + 1) - below(c, 'A');
	__u64 visible = below(c, 0x7f) - below(c, '!');

	return '?' + (c + upper * ('a' - 'A') - '?') * visible;
}

/* Turns a name on the wire (3 www 7 example 3 com 0) into text, in place. Returns its bytes on the wire; -1 if it is none;
 * NAME if it does not end here. The verifier processes it once, not for each path that leads to it. */
PCN_GLOBAL int to_text(struct query *query PCN_NONNULL)
{
	char *name = query->name;
	__u64 label = 0, bad = 0, open = 1, length = 0;

	/* label is the number of bytes that are left of a label, open 0 after the last one. */
	for (int i = 0; i < NAME; i++) {
		__u64 c = (__u8)name[i], begins = below(label, 1);

		bad |= open & begins & (1 - below(c, NAME)); /* a pointer, or no length at all */
		length += open;
		open &= 1 - (begins & below(c, 1));
		if (i)
			name[i - 1] = open * (begins * '.' + (1 - begins) * shown(c));
		label = begins * c + (1 - begins) * (label - 1);
	}
	name[NAME - 1] = 0;
	return bad ? -1 : (int)length;
}

/* The bytes on the wire of a name that is longer than what is shown of it. */
PCN_GLOBAL int length_of_long(struct CTXTYPE *ctx, __u32 at)
{
	__u32 begin = at;

	for (int i = 0; i < 32; i++) {
		__u8 label = 0;

		if (pcn_load_bytes(ctx, at, &label, sizeof(label)) || label >= NAME)
			return -1;
		at += 1 + label;
		if (!label)
			return at - begin;
	}
	return -1;
}

PCN_INLINE void asked(struct CTXTYPE *ctx, const struct pcn_flow *flow, const struct header *dns)
{
	__u32 at = flow->l4 + 8 + sizeof(*dns), size = pcn_frame_len(ctx);
	struct query key = {};
	__be16 type = 0;
	int length;

	if (dns->questions != bpf_htons(1) || size <= at ||
	    pcn_load_some(ctx, at, key.name, size - at < NAME ? size - at : NAME, NAME))
		return;
	length = to_text(&key);
	if (length == NAME)
		length = length_of_long(ctx, at);
	if (length < 0 || pcn_load_bytes(ctx, at + length, &type, sizeof(type)))
		return;
	key.type = (enum type)bpf_ntohs(type);
	count(&queries, &key);
}

PCN_MONITOR
{
	struct pcn_flow flow = {};
	struct pending key = {};
	__u64 now = pcn_time(), *since;
	struct header dns;
	__u32 zero = 0;

	if (pcn_flow_read(ctx, &flow) || !(flow.has & PCN_FLOW_PORTS) ||
	    flow.protocol != IPPROTO_UDP || flow.fragment == PCN_FRAGMENT_LATER ||
	    pcn_load_bytes(ctx, flow.l4 + 8, &dns, sizeof(dns)))
		return pcn_pkt_pass(ctx, md);
	key.id = dns.id;
	if (flow.destination_port == bpf_htons(PORT) && !(dns.flags & 0x80)) {
		pcn_address_copy(key.client, flow.source);
		pcn_address_copy(key.server, flow.destination);
		key.port = flow.source_port;
		/* A query that is sent again does not restart the time. */
		bpf_map_update_elem(&pending, &key, &now, BPF_NOEXIST);
		asked(ctx, &flow, &dns);
	} else if (flow.source_port == bpf_htons(PORT) && dns.flags & 0x80) {
		struct response answer = { .code = (enum code)(dns.code & 0xf) };

		pcn_address_copy(key.client, flow.destination);
		pcn_address_copy(key.server, flow.source);
		key.port = flow.destination_port;
		since = bpf_map_lookup_elem(&pending, &key);
		if (since) {
			pcn_histogram_add(bpf_map_lookup_elem(&times, &zero), now - *since);
			bpf_map_delete_elem(&pending, &key);
		}
		count(&responses, &answer);
	}
	return pcn_pkt_pass(ctx, md);
}

PCN_LICENSE;
