// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* The names of servers that TLS clients ask for (server name indication, RFC 6066), in the first segment of a connection,
 * on any port of TCP. Names are shown in lower case, the first 63 characters, with ? for characters that do not belong into
 * one. */
#include <linux/tcp.h>
#include <pcn/monitor.h>
#include <pcn/flow.h>

#define NAMES 10240
#define NAME 64
#define EXTENSIONS 32

/* The beginning of a ClientHello: the headers of record and handshake, and what comes before the session's id. */
struct hello {
	__u8 record; /* 22: handshake */
	__u8 major;  /* 3 */
	__u8 minor;
	__u8 record_length[2];
	__u8 handshake; /* 1: ClientHello */
	__u8 length[3];
	__u8 version[2];
	__u8 random[32];
	__u8 session; /* bytes of its id */
};

struct extension {
	__be16 type; /* 0: the server's name */
	__be16 length;
};

struct server_name {
	__be16 list;
	__u8 type; /* 0: a host's name */
	__u8 length[2];
} __attribute__((packed));

struct server {
	char name[NAME];
};

struct hellos {
	__u64 named;
	__u64 nameless;	  /* without the extension */
	__u64 incomplete; /* the segment ends before the name, or the hello is malformed */
};

PCN_MAP(servers, BPF_MAP_TYPE_LRU_HASH, struct server, __u64, NAMES);
PCN_MAP(hellos, BPF_MAP_TYPE_PERCPU_ARRAY, __u32, struct hellos, 1);

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

/* Moves past a field whose length is before it, in one byte or two: 0, or -1 if the segment has no such field. */
PCN_INLINE int skip(struct CTXTYPE *ctx, __u32 *at, const __u32 size)
{
	__u8 length[2] = {};

	if (pcn_load_bytes(ctx, *at, length, size))
		return -1;
	*at += size + (size == 1 ? length[0] : length[0] << 8 | length[1]);
	return 0;
}

/* Makes the first bytes of a name characters that are shown, and the others 0. Like other functions that are PCN_GLOBAL, the
 * verifier processes it once, not for each path that leads to it. */
PCN_GLOBAL int show(struct server *server PCN_NONNULL, __u64 length)
{
	for (int i = 0; i < NAME - 1; i++)
		server->name[i] = below(i, length) * shown((__u8)server->name[i]);
	return 0;
}

/* Reads the name in an extension: 0, or -1. */
PCN_INLINE int read_name(struct CTXTYPE *ctx, __u32 at, struct server *server)
{
	struct server_name head;
	__u64 length;

	if (pcn_load_bytes(ctx, at, &head, sizeof(head)) || head.type)
		return -1;
	length = head.length[0] << 8 | head.length[1];
	if (pcn_load_some(ctx, at + sizeof(head), server->name,
			  length < NAME - 1 ? length : NAME - 1, NAME - 1))
		return -1;
	return show(server, length);
}

/* Where the name's extension is found in those of a ClientHello, which begin at a byte of the frame and end before another
 * one: the byte after its header; 0 if there is none, -1 if the segment ends before. */
PCN_GLOBAL int find_name(struct CTXTYPE *ctx, __u32 at, __u32 end)
{
	for (int i = 0; i < EXTENSIONS; i++) {
		struct extension e;

		if (at >= end)
			return 0;
		if (pcn_load_bytes(ctx, at, &e, sizeof(e)))
			return -1;
		at += sizeof(e);
		if (!e.type)
			return at;
		at += bpf_ntohs(e.length);
	}
	return -1;
}

enum found { NAMED, NAMELESS, INCOMPLETE };

PCN_INLINE void count(const struct server *server)
{
	__u64 none = 0, *n = bpf_map_lookup_elem(&servers, server);

	if (!n) {
		bpf_map_update_elem(&servers, server, &none, BPF_NOEXIST);
		n = bpf_map_lookup_elem(&servers, server);
	}
	if (n)
		__sync_fetch_and_add(n, 1);
}

/* Reads a ClientHello at a byte of the frame. */
PCN_INLINE enum found read_hello(struct CTXTYPE *ctx, __u32 at, __u32 session,
				 struct server *server)
{
	__be16 length;
	int name;

	at += sizeof(struct hello) + session;
	if (skip(ctx, &at, 2) || skip(ctx, &at, 1)) /* ciphers, compression */
		return INCOMPLETE;
	if (pcn_load_bytes(ctx, at, &length, sizeof(length)))
		return INCOMPLETE;
	at += sizeof(length);
	name = find_name(ctx, at, at + bpf_ntohs(length));
	if (name <= 0)
		return name ? INCOMPLETE : NAMELESS;
	return read_name(ctx, name, server) ? INCOMPLETE : NAMED;
}

PCN_MONITOR
{
	struct server server = {};
	struct pcn_flow flow = {};
	struct hellos *sum;
	struct hello hello;
	__u8 offset = 0;
	__u32 zero = 0, at;

	if (pcn_flow_read(ctx, &flow) || !(flow.has & PCN_FLOW_TCP) ||
	    flow.fragment != PCN_FRAGMENT_NONE || pcn_load_bytes(ctx, flow.l4 + 12, &offset, 1))
		return pcn_pkt_pass(ctx, md);
	at = flow.l4 + (offset >> 4) * 4;
	if (pcn_load_bytes(ctx, at, &hello, sizeof(hello)) || hello.record != 22 ||
	    hello.major != 3 || hello.handshake != 1 || hello.session > 32)
		return pcn_pkt_pass(ctx, md);
	sum = bpf_map_lookup_elem(&hellos, &zero);
	if (!sum)
		return pcn_pkt_pass(ctx, md); /* never */
	switch (read_hello(ctx, at, hello.session, &server)) {
	case NAMED:
		sum->named++;
		count(&server);
		break;
	case NAMELESS:
		sum->nameless++;
		break;
	case INCOMPLETE:
		sum->incomplete++;
		break;
	}
	return pcn_pkt_pass(ctx, md);
}

PCN_LICENSE;
