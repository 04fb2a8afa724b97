// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* The tables of a user plane function: sessions of devices, with the rules, meters and usages of each. A program outside the
 * daemon writes them (Go package pdusession), and memory-maps most of them. */
#ifndef UPF_H
#define UPF_H

#include <pcn/bucket.h>
#include <pcn/gtpu_end.h>
#include <pcn/sdf.h>

/* No rule. */
#define UPF_NONE 0xffffffff

/* Maximum number of meters, and of usages, of a rule. */
#define UPF_OF_RULE 3

/* A tunnel that packets are received from. */
struct upf_tunnel {
	__u64 ipv6; /* the upper half of the device's IPv6 addresses, in network byte order */
	__be32 ipv4;
	__u32 has;  /* enum upf_has */
	__u32 rule; /* the row of its only rule; with a list, the session's first row */
	__u32 list; /* the row of the flows of its rules; 0: its only rule applies to all packets */
	__u32 session; /* a unique number */
	__u32 zero;
};

enum upf_has {
	UPF_HAS_IPV4 = 1,
	UPF_HAS_IPV6 = 2,
	UPF_FROM_NETWORK = 4, /* its packets are for the device, not from it */
};

/* A device, for packets to its address or to a network behind it. The fields are as in upf_tunnel. */
struct upf_device {
	__u32 rule;
	__u32 list;
	__u32 session;
	__u32 zero;
};

enum upf_action { UPF_DROP, UPF_PASS, UPF_WAIT };

enum upf_flag {
	UPF_NOTIFY = 1,	     /* the first buffered packet generates a notice */
	UPF_TUNNEL = 2,	     /* packets are encapsulated */
	UPF_IPV6 = 4,	     /* over IPv6 */
	UPF_MARK = 8,	     /* the outer header gets the rule's DSCP */
	UPF_GUARANTEED = 16, /* packets have a guaranteed rate */
	UPF_REDIRECTS = 32,  /* HTTP requests are redirected; teid is a row of redirects */
};

/* What happens to packets. */
struct upf_rule {
	pcn_address peer; /* the remote end of the tunnel that packets enter */
	__u32 teid;	  /* of that tunnel, or with UPF_REDIRECTS a row of redirects */
	__u8 action;	  /* enum upf_action */
	__u8 flags;	  /* enum upf_flag */
	__u8 qfi;	  /* in the tunnel; 0: none */
	__u8 dscp;
	__u32 meters[UPF_OF_RULE]; /* rows, up to the first 0 */
	__u32 usages[UPF_OF_RULE]; /* the same */
	__u32 queue;		   /* the row of its buffered packets; 0: it never buffers */
	__u32 index; /* in the session; from bit 16 on the network instance of the tunnel that packets enter */
	__u64 seen; /* when the last packet came, in steps of 100 ms; only programs write it */
};

/* Limits the rate in each direction. A limit of 0 is a closed gate. */
struct upf_meter {
	struct pcn_bucket_limit limit[2];
	__u64 bucket[2]; /* only programs write them */
};

enum upf_watches {
	UPF_THRESHOLD = 1, /* a threshold is set */
	UPF_QUOTA = 2,
	UPF_START = 4, /* the first packet generates a notice */
};

/* Counts packets. Limits are compared with the bytes of both directions together, and of each; unset limits are the largest
 * number. */
struct upf_usage {
	__u64 bytes[2]; /* of IP packets */
	__u64 packets[2];
	__u64 first, last; /* when packets came, in steps of 100 ms */
	__u32 watches;	   /* enum upf_watches; user space writes it */
	__u32 told;	   /* those that a notice was generated for */
	__u64 near;	   /* below this total, no limit is reached, and none needs to be read */
	__u64 threshold[3];
	__u64 quota[3];
	__u64 more[2];
};

/* Packets buffered in user space. `waiting` counts them from the moment they are handed to user space until they are sent;
 * until it is 0, newer packets queue behind them. */
struct upf_queue {
	__u32 waiting;
	__u32 state; /* enum upf_queue_state; the program outside the daemon writes it */
	__u32 told;  /* a notice was generated since it began to hold packets */
	__u32 zero;
};

enum upf_queue_state { UPF_HOLD, UPF_RELEASE, UPF_DISCARD };

/* Maximum length of a URL: with all headers, an answer fits into a packet of 1,280 bytes. */
#define UPF_URL 1022

/* Where HTTP requests are redirected to. The daemon reads it. */
struct upf_redirect {
	__u16 length;
	__u8 url[UPF_URL];
};

/* An event for the program outside the daemon. */
enum upf_notice_kind {
	UPF_NOTICE_WAITING = 1,
	UPF_NOTICE_THRESHOLD,
	UPF_NOTICE_QUOTA,
	UPF_NOTICE_STARTED,
	UPF_NOTICE_ERROR, /* written by the daemon */
	UPF_NOTICE_DOWN,  /* written by the daemon */
};

struct upf_notice {
	__u32 kind; /* enum upf_notice_kind */
	__u32 row;  /* of a rule or usage */
	__u32 dscp; /* of a buffered packet */
	__u32 teid;
	pcn_address peer;
};

#define UPF_NOTICES 65536

/* Tunnels by their TEID, and those of network instances with a name. */
PCN_MAP_FLAGS(tunnels, BPF_MAP_TYPE_HASH, __u32, struct upf_tunnel, 64, BPF_F_NO_PREALLOC);
PCN_MAP_FLAGS(named_tunnels, BPF_MAP_TYPE_HASH, struct pcn_gtpu_end_tunnel, struct upf_tunnel, 64,
	      BPF_F_NO_PREALLOC);
/* Devices by their IPv4 address, and by the upper half of their IPv6 addresses, in network byte order. */
PCN_MAP_FLAGS(devices4, BPF_MAP_TYPE_HASH, __be32, struct upf_device, 64, BPF_F_NO_PREALLOC);
PCN_MAP_FLAGS(devices6, BPF_MAP_TYPE_HASH, __u64, struct upf_device, 64, BPF_F_NO_PREALLOC);
/* Networks behind devices. */
PCN_MAP_FLAGS(routes, BPF_MAP_TYPE_LPM_TRIE, struct pcn_network, struct upf_device, 64,
	      BPF_F_NO_PREALLOC);
/* The rules of a session are in consecutive rows. The first row of each table is unused. */
PCN_MAP_FLAGS(rules, BPF_MAP_TYPE_ARRAY, __u32, struct upf_rule, 64, BPF_F_MMAPABLE);
PCN_MAP_FLAGS(meters, BPF_MAP_TYPE_ARRAY, __u32, struct upf_meter, 64, BPF_F_MMAPABLE);
PCN_MAP_FLAGS(usages, BPF_MAP_TYPE_ARRAY, __u32, struct upf_usage, 64, BPF_F_MMAPABLE);
PCN_MAP_FLAGS(queues, BPF_MAP_TYPE_ARRAY, __u32, struct upf_queue, 64, BPF_F_MMAPABLE);
PCN_MAP_FLAGS(redirects, BPF_MAP_TYPE_ARRAY, __u32, struct upf_redirect, 2, BPF_F_MMAPABLE);
/* The flows of rules; tunnels and devices with equal flows share a row. */
PCN_MAP_FLAGS(lists, BPF_MAP_TYPE_ARRAY, __u32, struct pcn_sdf_list, 2, BPF_F_MMAPABLE);
/* Unread notices. */
struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, UPF_NOTICES);
	__type(value, struct upf_notice);
} notices SEC(".maps");

/* The resolution of recorded times. */
#define UPF_STEP 100000000ull

/* Notifies the program outside the daemon. Returns -1 if the queue is full because it has not read for long. */
PCN_INLINE int upf_tell(__u32 kind, __u32 row, __u32 dscp)
{
	struct upf_notice n = { .kind = kind, .row = row, .dscp = dscp };

	return bpf_map_push_elem(&notices, &n, 0) ? -1 : 0;
}

/* Whether enough bytes were counted that a limit may have been reached. */
PCN_INLINE int upf_near(const struct upf_usage *u)
{
	return u->bytes[0] + u->bytes[1] >= u->near;
}

/* Whether the counted bytes are below a limit. */
PCN_INLINE int upf_below(const struct upf_usage *u, const __u64 limit[3])
{
	__u64 up = u->bytes[0], down = u->bytes[1];

	return up + down < limit[0] && up < limit[1] && down < limit[2];
}

/* Notifies once that a usage has reached a limit or has started. */
PCN_INLINE void upf_reached(struct upf_usage *u, __u32 what, __u32 kind, __u32 row)
{
	if (!(__sync_fetch_and_or(&u->told, what) & what) && upf_tell(kind, row, 0))
		__sync_fetch_and_and(&u->told, ~what);
}

/* Whether the usages of a rule pass a packet: none of their quotas is used up. */
PCN_INLINE int upf_allowed(const struct upf_rule *r)
{
	for (int i = 0; i < UPF_OF_RULE; i++) {
		__u32 row = r->usages[i];
		struct upf_usage *u;

		if (!row)
			break;
		u = bpf_map_lookup_elem(&usages, &row);
		if (!u || !(u->watches & UPF_QUOTA) || !upf_near(u) || upf_below(u, u->quota))
			continue;
		upf_reached(u, UPF_QUOTA, UPF_NOTICE_QUOTA, row);
		return 0;
	}
	return 1;
}

/* Counts a packet. */
PCN_INLINE void upf_count(const struct upf_rule *r, __u32 bytes, __u64 now, __u32 down)
{
	for (int i = 0; i < UPF_OF_RULE; i++) {
		__u32 row = r->usages[i];
		struct upf_usage *u;

		if (!row)
			break;
		u = bpf_map_lookup_elem(&usages, &row);
		if (!u)
			continue;
		__sync_fetch_and_add(&u->bytes[down], bytes);
		__sync_fetch_and_add(&u->packets[down], 1);
		if (pcn_refresh_due(now, u->last, UPF_STEP)) {
			u->last = now;
			if (!u->first)
				u->first = now;
		}
		if (!u->watches)
			continue;
		if (u->watches & UPF_START)
			upf_reached(u, UPF_START, UPF_NOTICE_STARTED, row);
		if (u->watches & UPF_THRESHOLD && upf_near(u) && !upf_below(u, u->threshold))
			upf_reached(u, UPF_THRESHOLD, UPF_NOTICE_THRESHOLD, row);
	}
}

/* The verdict of usages and meters on a packet. */
enum upf_charged { UPF_CONFORMS, UPF_USED_UP, UPF_CLOSED, UPF_EXCEEDS };

PCN_INLINE int upf_metered(const struct upf_rule *r, __u32 bytes, __u64 now, __u32 down)
{
	for (int i = 0; i < UPF_OF_RULE; i++) {
		__u32 row = r->meters[i];
		struct upf_meter *m;
		__u32 burst;

		if (!row)
			break;
		m = bpf_map_lookup_elem(&meters, &row);
		if (!m)
			continue;
		burst = m->limit[down].burst;
		if (!burst)
			return UPF_CLOSED;
		if (burst != 0xffffffff &&
		    !pcn_bucket_take(&m->bucket[down], &m->limit[down], bytes, now))
			return UPF_EXCEEDS;
	}
	return UPF_CONFORMS;
}

/* Charges a packet to the meters and usages of its rule; usages count it if it may pass. The verifier processes it once. */
PCN_GLOBAL int upf_charge(struct upf_rule *r PCN_NONNULL, __u32 bytes, __u64 now, __u32 down)
{
	int result;

	if (!upf_allowed(r))
		return UPF_USED_UP;
	result = upf_metered(r, bytes, now, down & 1);
	if (result == UPF_CONFORMS)
		upf_count(r, bytes, now, down & 1);
	return result;
}

/* The value of the first matching flow; UPF_NONE if none matches. The verifier processes it once. */
PCN_GLOBAL __u32 upf_search(const struct pcn_sdf_packet *p PCN_NONNULL,
			    const struct pcn_sdf_list *l PCN_NONNULL)
{
	return pcn_sdf_search(p, l, UPF_NONE);
}

#endif
