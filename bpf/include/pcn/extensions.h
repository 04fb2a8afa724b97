// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* The extension headers of IPv6 (RFC 8200). They are walked in a function that the kernel verifies
 * once for all callers, also where a frame is in several buffers. */
#ifndef PCN_EXTENSIONS_H
#define PCN_EXTENSIONS_H

#include <pcn/ip.h>

/* The result of pcn_skip_ipv6_extensions. */
struct pcn_ipv6_payload {
	__u8 protocol;	 /* of the header at the cursor: TCP, ICMPv6 ... 59: nothing follows */
	__u8 fragment;	 /* enum pcn_fragment */
	__u8 routing;	 /* type of the routing header plus 1; 0: there is none */
	__u8 hop_by_hop; /* 1: there is a hop-by-hop options header */
	__u16 length;	 /* length of the extension headers in bytes */
	__u16 pad;
	__be32 id; /* of a fragment */
};

/* The maximum number of extension headers, and of their bytes, that are skipped. */
#define PCN_IPV6_EXTENSIONS 8
#define PCN_IPV6_EXTENSIONS_MAX 256

/* Internal: the header of most extensions. */
struct pcn_ipv6_extension {
	__u8 next;
	__u8 length;
	__u8 type;
	__u8 rest;
	__be32 word;
};

/* Internal: 1 if the protocol is `one`, else 0, by arithmetic that the compiler does not turn into
 * branches: each would double the verifier's work per header. So would a mask of all ones or zeros,
 * for each of which Linux 6.18 follows a path of its own; products do not have that effect. */
PCN_INLINE __u64 pcn_ipv6_is(__u64 protocol, __u64 one)
{
	__u64 is = ((protocol ^ one) - 1) >> 63;

	asm volatile("" : "+r"(is));
	return is;
}

/* Internal: 1 if a protocol is an extension header other than ESP. 135, 139 and 140 are from RFC
 * 6275, 7401 and 5533. */
PCN_INLINE __u64 pcn_ipv6_is_extension(__u64 protocol)
{
	return pcn_ipv6_is(protocol, IPPROTO_HOPOPTS) | pcn_ipv6_is(protocol, IPPROTO_ROUTING) |
	       pcn_ipv6_is(protocol, IPPROTO_FRAGMENT) | pcn_ipv6_is(protocol, IPPROTO_AH) |
	       pcn_ipv6_is(protocol, IPPROTO_DSTOPTS) | pcn_ipv6_is(protocol, 135) |
	       pcn_ipv6_is(protocol, 139) | pcn_ipv6_is(protocol, 140);
}

/* True if a protocol is an extension header other than ESP. */
PCN_INLINE int pcn_is_ipv6_extension(__u8 protocol)
{
	return pcn_ipv6_is_extension(protocol);
}

/* Internal: records the relevant fields of an extension header, and returns its size. */
PCN_INLINE __u32 pcn_ipv6_note(struct pcn_ipv6_payload *found, __u64 word)
{
	struct pcn_ipv6_extension header, *e = &header;

	__builtin_memcpy(e, &word, sizeof(word));
	__u64 protocol = found->protocol, offset = (__u64)e->type << 8 | e->rest;
	__u64 authentication = pcn_ipv6_is(protocol, IPPROTO_AH);
	__u64 fragment = pcn_ipv6_is(protocol, IPPROTO_FRAGMENT);
	__u64 routing = pcn_ipv6_is(protocol, IPPROTO_ROUTING);
	__u64 later = -(offset & 0xfff8) >> 63;
	__u64 size = ((__u64)e->length + 1 + authentication) << (3 - authentication);

	asm volatile("" : "+r"(later));
	later *= fragment;
	found->hop_by_hop |= pcn_ipv6_is(protocol, IPPROTO_HOPOPTS);
	found->routing += (e->type + 1 - found->routing) * routing;
	found->fragment |= offset & fragment;
	found->fragment += (PCN_FRAGMENT_LATER - found->fragment) * later;
	found->id += (e->word - found->id) * fragment;
	found->protocol = e->next;
	return size + (8 - size) * fragment;
}

/* Internal: walks the extension headers that start at byte `at` of the frame, of which
 * found->protocol is the first. Returns their length, or -1. */
PCN_GLOBAL int pcn_ipv6_walk(struct CTXTYPE *ctx, __u32 at,
			     struct pcn_ipv6_payload *found PCN_NONNULL)
{
	__u32 length = 0;

	for (int i = 0; i <= PCN_IPV6_EXTENSIONS; i++) {
		__u64 word;

		if (!(pcn_ipv6_is_extension(found->protocol) & ~(found->fragment >> 1)))
			return length;
		if (i == PCN_IPV6_EXTENSIONS)
			break;
		const void *there = pcn_data(ctx) + ((at + length) & 0x3ff);
		if (there + sizeof(word) <= pcn_data_end(ctx)) {
			word = *(const __u64 *)there;
			asm volatile("" : "+r"(word)); /* not the same load as that below */
		} else {
			__u64 copy;

			if (pcn_load_bytes(ctx, at + length, &copy, sizeof(copy)))
				break;
			word = copy;
			asm volatile("" : "+r"(word));
		}
		length += pcn_ipv6_note(found, word) & 0xfff;
		if (length > PCN_IPV6_EXTENSIONS_MAX)
			break;
	}
	return -1;
}

/* Moves past the extension headers of an IPv6 packet, of which `next` is the first, and reports
 * what it found. -1 if they are incomplete or too many. ESP is not skipped. After the fragment
 * header of a later fragment, nothing is skipped. */
PCN_INLINE int pcn_skip_ipv6_extensions(struct CTXTYPE *ctx, struct pcn_cursor *c, __u8 next,
					struct pcn_ipv6_payload *found)
{
	long at = c->pos - pcn_data(ctx);
	int length;

	asm volatile("" : "+r"(at)); /* pointers have 64 bits until they are subtracted */
	__builtin_memset(found, 0, sizeof(*found));
	found->protocol = next;
	if (!pcn_is_ipv6_extension(next))
		return 0;
	length = pcn_ipv6_walk(ctx, at, found);
	if (length < 0 || c->pos + (length & 0x1ff) > c->end)
		return -1;
	found->length = length;
	c->pos += length & 0x1ff;
	return 0;
}

#endif
