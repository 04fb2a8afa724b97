// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* One case for each helper: helpers.bpf.c contains all in one program, to be timed,
 * helpers_weigh.bpf.c each in its own program, to be verified. */
#ifndef HELPERS_H
#define HELPERS_H

#include <pcn/cube.h>
#include <pcn/bucket.h>
#include <pcn/conntrack_state.h>
#include <pcn/csum.h>
#include <pcn/extensions.h>
#include <pcn/fdb.h>
#include <pcn/flow.h>
#include <pcn/ip.h>
#include <pcn/tos.h>

/* COST_name: the helper, TIMES times, then a drop. LAST_name: the helper ends the packet. UP_name:
 * the helper, which creates a record for user space, then a drop; UPLAST_name: the helper ends the
 * packet, with a record. Benchmarks find the cases by these names. */
#define CASES(X)                           \
	X(COST_nothing)                    \
	X(COST_pcn_csum_fold)              \
	X(COST_pcn_csum_replace2)          \
	X(COST_pcn_cursor_open)            \
	X(COST_pcn_cursor_take)            \
	X(COST_pcn_parse_eth)              \
	X(COST_pcn_mac)                    \
	X(COST_pcn_mac_is_group)           \
	X(COST_pcn_macs)                   \
	X(COST_pcn_time_coarse)            \
	X(COST_pcn_time)                   \
	X(COST_pcn_age)                    \
	X(COST_pcn_aged)                   \
	X(COST_pcn_refresh_due)            \
	X(COST_pcn_fdb_aged)               \
	X(COST_pcn_count)                  \
	X(COST_pcn_count_packet)           \
	X(COST_pcn_count_packets)          \
	X(COST_pcn_bucket_take)            \
	X(COST_pcn_ct_tcp)                 \
	X(COST_pcn_ct_udp)                 \
	X(COST_pcn_ct_icmp)                \
	X(COST_pcn_ct_other)               \
	X(COST_pcn_ct_timeout)             \
	X(COST_pcn_ct_follow)              \
	X(COST_pcn_ct_follow_shared)       \
	X(COST_pcn_address_set4)           \
	X(COST_pcn_address_set6)           \
	X(COST_pcn_address_copy)           \
	X(COST_pcn_address_same)           \
	X(COST_pcn_is_vlan_proto)          \
	X(COST_pcn_get_vlan_id)            \
	X(COST_pcn_is_vlan_present)        \
	X(COST_pcn_csum_diff2)             \
	X(COST_pcn_csum_diff4)             \
	X(COST_pcn_csum_add)               \
	X(COST_pcn_has_ports)              \
	X(COST_pcn_icmp_has_id)            \
	X(COST_pcn_icmp_is_error)          \
	X(COST_pcn_icmp6_has_id)           \
	X(COST_pcn_icmp6_is_error)         \
	X(COST_pcn_parse_arp)              \
	X(COST_pcn_parse_ipv4)             \
	X(COST_pcn_skip_ipv4_options)      \
	X(COST_pcn_ipv4_checksum_ok)       \
	X(COST_pcn_ipv4_fragment)          \
	X(COST_pcn_parse_ipv6)             \
	X(COST_pcn_skip_ipv6_extensions)   \
	X(COST_pcn_parse_ports)            \
	X(COST_pcn_parse_icmp)             \
	X(COST_pcn_csum_diff16)            \
	X(COST_pcn_csum_ipv4)              \
	X(COST_pcn_csum_bytes)             \
	X(COST_pcn_csum_l4)                \
	X(COST_pcn_vlan_tag)               \
	X(COST_pcn_load_bytes)             \
	X(COST_pcn_load_first)             \
	X(COST_pcn_frame_len)              \
	X(COST_pcn_is_ipv6_extension)      \
	X(COST_pcn_ipv4_is_martian)        \
	X(COST_pcn_ipv6_is_martian)        \
	X(COST_pcn_ipv6_is_multicast)      \
	X(COST_pcn_ipv6_is_link_local)     \
	X(COST_pcn_flow_read)              \
	X(COST_pcn_flow_read_inline)       \
	X(COST_pcn_flow_read_common)       \
	X(COST_pcn_flow_read_inner)        \
	X(COST_pcn_is_neighbour_discovery) \
	X(COST_pcn_flow_hash)              \
	X(COST_pcn_set_flow_hash)          \
	X(COST_pcn_ecn)                    \
	X(COST_pcn_get_flow_hash)          \
	X(LAST_pcn_pkt_send)               \
	X(LAST_pcn_pkt_pass)               \
	X(LAST_pcn_pkt_flood)              \
	X(LAST_pcn_call_program)           \
	X(UP_pcn_pkt_copy)                 \
	X(UP_pcn_notify)                   \
	X(UP_pcn_notify_notice)            \
	X(UP_pcn_log)                      \
	X(UPLAST_pcn_pkt_controller)       \
	X(UPLAST_pcn_pkt_controller_md)

#define ENUMERATOR(name) name,
enum helpers_case { CASES(ENUMERATOR) };

#ifndef TIMES
#define TIMES 12
#endif

const volatile enum helpers_case helpers_cases __attribute__((used)) = 0;

enum helpers_reason {
	HELPERS_MEASURED = PCN_REASON_FIRST,
};
PCN_REASONS(helpers_reason);

/* The compiler may neither drop a value nor know it, nor merge two uses. */
#define KEEP(v) asm volatile("" : : "r"(v), "i"(__LINE__) : "memory")
#define HIDE(v) asm volatile("" : "+r"(v))

#define EACH _Pragma("unroll") for (int i = 0; i < TIMES; i++)

#include "helpers_address.h"
#include "helpers_conntrack.h"
#include "helpers_flow.h"

/* Arithmetic and clocks. */
PCN_INLINE void compute(__u32 what)
{
	__u64 x = 7;

	EACH
	{
		HIDE(x);
		if (what == COST_pcn_csum_fold)
			KEEP(pcn_csum_fold(x));
		else if (what == COST_pcn_csum_replace2)
			KEEP(pcn_csum_replace2(x, 1, 2));
		else if (what == COST_pcn_time_coarse)
			KEEP(pcn_time_coarse());
		else if (what == COST_pcn_time)
			KEEP(pcn_time());
		else if (what == COST_pcn_is_vlan_proto)
			KEEP(pcn_is_vlan_proto(x));
	}
}

/* Ages: the entry was seen 7 ns after the clock began. */
PCN_INLINE void grow_old(__u32 what)
{
	struct pcn_fdb_entry entry = { .seen = 7 };

	EACH
	{
		HIDE(entry.seen);
		if (what == COST_pcn_age)
			KEEP(pcn_age(9, entry.seen));
		else if (what == COST_pcn_aged)
			KEEP(pcn_aged(9, entry.seen, 5));
		else if (what == COST_pcn_refresh_due)
			KEEP(pcn_refresh_due(9, entry.seen, 5));
		else
			KEEP(pcn_fdb_aged(&entry, 9, 5));
	}
}

enum helpers_counter {
	HELPERS_ONE,
	HELPERS_COUNTERS,
};
PCN_COUNTERS(counters, helpers_counter, HELPERS_COUNTERS);
PCN_MAP(packets, BPF_MAP_TYPE_PERCPU_ARRAY, __u32, struct pcn_count, 1);

PCN_INLINE void tally(const struct pcn_md *md, __u32 what)
{
	__u32 zero = 0;

	EACH
	{
		HIDE(zero);
		if (what == COST_pcn_count)
			pcn_count(&counters, zero);
		else if (what == COST_pcn_count_packet)
			pcn_count_packet(&packets, &zero, md->packet_len);
		else
			pcn_count_packets(&packets, &zero, 2, md->packet_len);
	}
}

/* Arithmetic with header fields. */
PCN_INLINE void judge(__u32 what)
{
	__u64 x = 7;

	EACH
	{
		HIDE(x);
		if (what == COST_pcn_csum_diff2)
			KEEP(pcn_csum_diff2(x, 2));
		else if (what == COST_pcn_csum_diff4)
			KEEP(pcn_csum_diff4(x, 2));
		else if (what == COST_pcn_csum_add)
			KEEP(pcn_csum_add(1, x));
		else if (what == COST_pcn_has_ports)
			KEEP(pcn_has_ports(x));
		else if (what == COST_pcn_icmp_has_id)
			KEEP(pcn_icmp_has_id(x));
		else if (what == COST_pcn_icmp_is_error)
			KEEP(pcn_icmp_is_error(x));
		else if (what == COST_pcn_icmp6_has_id)
			KEEP(pcn_icmp6_has_id(x));
		else if (what == COST_pcn_icmp6_is_error)
			KEEP(pcn_icmp6_is_error(x));
		else if (what == COST_pcn_is_ipv6_extension)
			KEEP(pcn_is_ipv6_extension(x));
	}
}

/* Helpers that read the packet; -1 if it is too short. */
PCN_INLINE int read(struct CTXTYPE *ctx, __u32 what)
{
	struct pcn_cursor c;

	pcn_cursor_open(&c, ctx, sizeof(struct ethhdr));
	struct ethhdr *eth = pcn_parse_eth(&c);

	if (!eth)
		return -1;
	EACH
	{
		if (what == COST_pcn_mac)
			KEEP(pcn_mac(eth->h_source));
		else if (what == COST_pcn_mac_is_group)
			KEEP(pcn_mac_is_group(eth->h_dest));
		if (what == COST_pcn_macs) {
			struct pcn_macs macs = pcn_macs(eth);
			KEEP(macs.to);
			KEEP(macs.from);
		}
	}
	return 0;
}

/* Helpers that open the packet. */
PCN_INLINE void enter(struct CTXTYPE *ctx, __u32 what)
{
	struct pcn_cursor c;

	EACH
	{
		HIDE(ctx); /* otherwise its members' addresses are computed once, which the verifier refuses */
		if (what == COST_pcn_get_vlan_id) {
			KEEP(pcn_get_vlan_id(ctx));
		} else if (what == COST_pcn_is_vlan_present) {
			KEEP(pcn_is_vlan_present(ctx));
		} else if (what == COST_pcn_vlan_tag) {
			KEEP(pcn_vlan_tag(ctx));
		} else {
			pcn_cursor_open(&c, ctx, sizeof(struct ethhdr));
			KEEP(c.pos);
			KEEP(c.end);
			if (what == COST_pcn_parse_eth)
				KEEP(pcn_parse_eth(&c));
			else if (what == COST_pcn_cursor_take)
				KEEP(pcn_cursor_take(&c, 20));
		}
	}
}

/* Helpers that take headers, each time from the same position. */
PCN_INLINE void take(struct CTXTYPE *ctx, __u32 what)
{
	struct pcn_ipv6_payload found;
	struct pcn_cursor opened, c;

	pcn_cursor_open(&opened, ctx, 60);
	if (!pcn_parse_eth(&opened))
		return;
	EACH
	{
		c = opened;
		HIDE(c.pos);
		if (what == COST_pcn_parse_arp) {
			KEEP(pcn_parse_arp(&c));
		} else if (what == COST_pcn_parse_ipv4) {
			KEEP(pcn_parse_ipv4(&c));
		} else if (what == COST_pcn_parse_ipv6) {
			KEEP(pcn_parse_ipv6(&c));
		} else if (what == COST_pcn_parse_ports) {
			KEEP(pcn_parse_ports(&c));
		} else if (what == COST_pcn_parse_icmp) {
			KEEP(pcn_parse_icmp(&c));
		} else if (what != COST_nothing) {
			KEEP(pcn_skip_ipv6_extensions(ctx, &c, IPPROTO_DSTOPTS, &found));
			KEEP(found.protocol);
		}
		KEEP(c.pos);
	}
}

/* Helpers that check or change an IPv4 header. */
PCN_INLINE void inspect(struct CTXTYPE *ctx, __u32 what)
{
	struct pcn_cursor c;

	pcn_cursor_open(&c, ctx, 60);
	if (!pcn_parse_eth(&c))
		return;
	struct iphdr *ip = pcn_parse_ipv4(&c);
	struct pcn_icmp *l4 = pcn_parse_icmp(&c);
	if (!ip || !l4)
		return;
	EACH
	{
		HIDE(ip);
		HIDE(l4);
		if (what == COST_pcn_ipv4_checksum_ok) {
			KEEP(pcn_ipv4_checksum_ok(ip, c.end));
		} else if (what == COST_pcn_ipv4_fragment) {
			KEEP(pcn_ipv4_fragment(ip));
		} else if (what == COST_pcn_skip_ipv4_options) {
			struct pcn_cursor behind = { l4, c.end };
			KEEP(pcn_skip_ipv4_options(&behind, ip));
			KEEP(behind.pos);
		} else if (what == COST_pcn_csum_ipv4) {
			pcn_csum_ipv4(ip, 1);
		} else if (what != COST_nothing) {
			pcn_csum_l4(ctx, l4, &l4->check, 1, 2, 0);
		}
	}
}

/* Helpers that compute checksums. */
PCN_INLINE void gather(struct CTXTYPE *ctx, __u32 what)
{
	__be32 old[4] = { 1, 2, 3, 4 }, now[4] = { 5, 6, 7, 8 };

	EACH
	{
		HIDE(ctx);
		if (what == COST_pcn_csum_diff16) {
			HIDE(old[0]);
			HIDE(old[1]);
			HIDE(old[2]);
			HIDE(old[3]);
			KEEP(pcn_csum_diff16(old, now));
		} else {
			pcn_csum_bytes(ctx, 1);
		}
	}
}

/* The program for a case about arithmetic, clocks or map entries. */
PCN_INLINE void keep(const struct pcn_md *md, const __u32 what)
{
	switch (what) {
	case COST_pcn_age:
	case COST_pcn_aged:
	case COST_pcn_refresh_due:
	case COST_pcn_fdb_aged:
		grow_old(what);
		break;
	case COST_pcn_count:
	case COST_pcn_count_packet:
	case COST_pcn_count_packets:
		tally(md, what);
		break;
	case COST_pcn_bucket_take:
		spend();
		break;
	case COST_pcn_ct_tcp:
	case COST_pcn_ct_udp:
	case COST_pcn_ct_icmp:
	case COST_pcn_ct_other:
	case COST_pcn_ct_timeout:
	case COST_pcn_ct_follow:
	case COST_pcn_ct_follow_shared:
		track(what);
		break;
	case COST_pcn_address_set4:
	case COST_pcn_address_set6:
	case COST_pcn_address_copy:
	case COST_pcn_address_same:
		address(what);
		break;
	case COST_pcn_csum_fold:
	case COST_pcn_csum_replace2:
	case COST_pcn_time_coarse:
	case COST_pcn_time:
	case COST_pcn_is_vlan_proto:
		compute(what);
		break;
	}
}

/* The program for a case. */
PCN_INLINE int use(struct CTXTYPE *ctx, struct pcn_md *md, const __u32 what)
{
	__u32 words[4] = { 1, 2, 3, 4 };

	keep(md, what);
	if (is_flow_case(what))
		flows(ctx, md, what);
	switch (what) {
	case COST_pcn_csum_diff2:
	case COST_pcn_csum_diff4:
	case COST_pcn_csum_add:
	case COST_pcn_has_ports:
	case COST_pcn_icmp_has_id:
	case COST_pcn_icmp_is_error:
	case COST_pcn_icmp6_has_id:
	case COST_pcn_icmp6_is_error:
	case COST_pcn_is_ipv6_extension:
		judge(what);
		break;
	case COST_pcn_mac:
	case COST_pcn_mac_is_group:
	case COST_pcn_macs:
		read(ctx, what);
		break;
	case COST_pcn_cursor_open:
	case COST_pcn_cursor_take:
	case COST_pcn_parse_eth:
	case COST_pcn_get_vlan_id:
	case COST_pcn_is_vlan_present:
	case COST_pcn_vlan_tag:
		enter(ctx, what);
		break;
	case COST_pcn_parse_arp:
	case COST_pcn_parse_ipv4:
	case COST_pcn_parse_ipv6:
	case COST_pcn_parse_ports:
	case COST_pcn_parse_icmp:
	case COST_pcn_skip_ipv6_extensions:
		take(ctx, what);
		break;
	case COST_pcn_ipv4_checksum_ok:
	case COST_pcn_ipv4_fragment:
	case COST_pcn_skip_ipv4_options:
	case COST_pcn_csum_ipv4:
	case COST_pcn_csum_l4:
		inspect(ctx, what);
		break;
	case COST_pcn_csum_diff16:
	case COST_pcn_csum_bytes:
		gather(ctx, what);
		break;
	case LAST_pcn_pkt_send:
		return pcn_pkt_send(ctx, md, 1);
	case LAST_pcn_pkt_pass:
		return pcn_pkt_pass(ctx, md);
	case LAST_pcn_pkt_flood:
		return pcn_pkt_flood(ctx, md);
	case LAST_pcn_call_program:
		return pcn_call_program(ctx, md, 1);
	case UP_pcn_pkt_copy:
		pcn_pkt_copy(ctx, md, HELPERS_MEASURED);
		break;
	case UP_pcn_notify:
		pcn_notify(ctx, md, 1, words, sizeof(words));
		break;
	case UP_pcn_notify_notice:
		report(ctx);
		break;
	case UP_pcn_log:
		pcn_log(ctx, LOG_INFO, "%d bytes on port %d", md->packet_len, md->in_port);
		break;
	case UPLAST_pcn_pkt_controller:
		return pcn_pkt_controller(ctx, md, HELPERS_MEASURED);
	case UPLAST_pcn_pkt_controller_md:
		return pcn_pkt_controller_md(ctx, md, HELPERS_MEASURED, words);
	}
	return pcn_pkt_drop(ctx, md, HELPERS_MEASURED);
}

#endif
