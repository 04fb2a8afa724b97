// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* Generator of a mix of flows, all of UDP: some of each MIX packets belong to ELEPHANTS long flows, in turn; the others to mice,
 * which end after MOUSE packets, and of which ABREAST are sent at a time, or which are as few and as long as the elephants. What is
 * behind the headers comes from two frames; the sink is that of filters. */
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/udp.h>
#include <pcn/ctx.h>
#include <pcn/map.h>
#include "datagrams.h"

#ifdef PCN_XDP
#define FRAMES 2
#define SIZE 60

#define MIX 4
#define ELEPHANTS 4
#define MOUSE 16
#define ABREAST 64

/* The frames, and the first addresses of the clients: those of mice follow. */
enum mix_frame { MIX_ELEPHANT, MIX_MOUSE };
#define MICE_FROM 16

struct traffic_state {
	__u64 packets;
	__u32 next;	 /* number of the next packet of mice */
	__u32 elephants; /* the same of elephants */
};

#include "generator.h"

__u32 mix_elephants = 0; /* how many of MIX packets are of elephants */
__u32 mix_endless = 0;	 /* whether mice never end */

/* A number of the protocol's: RTP counts packets. */
struct mix_payload {
	__be16 first;
	__be16 sequence;
};

/* Writes the headers of packet n of a flow into the frame. There is no UDP checksum. */
PCN_INLINE void write_flow(struct iphdr *ip, __u32 client, __u16 n, int counts)
{
	struct udphdr *udp = (void *)(ip + 1);
	struct mix_payload *payload = (void *)(udp + 1);

	ip->saddr = bpf_htonl(gen_first + client / PORTS);
	udp->source = bpf_htons(FIRST_PORT + client % PORTS);
	ip->check = folded(gen_ip_sum + halves(ip->saddr));
	if (counts)
		payload->sequence = bpf_htons(n);
}

SEC("xdp") int mix(struct xdp_md *ctx)
{
	void *data = pcn_data(ctx), *end = pcn_data_end(ctx);
	__u32 zero = 0, place = MIX_MOUSE, n;
	struct traffic_state *st = bpf_map_lookup_elem(&sent, &zero);
	struct frame *f;

	if (!st || data + SIZE > end)
		return XDP_ABORTED;
	if (st->packets % MIX < mix_elephants)
		place = MIX_ELEPHANT;
	f = bpf_map_lookup_elem(&frames, &place);
	if (!f)
		return XDP_ABORTED;
	write_frame(data, f);
	if (place == MIX_ELEPHANT) {
		n = st->elephants++;
		write_flow(data + sizeof(struct ethhdr), n % ELEPHANTS, n / ELEPHANTS, 1);
	} else {
		n = st->next++;
		if (mix_endless)
			n %= ELEPHANTS;
		else
			n = ELEPHANTS + n / (ABREAST * MOUSE) * ABREAST + n % ABREAST;
		write_flow(data + sizeof(struct ethhdr), MICE_FROM + n, 0, 0);
	}
	st->packets++;
	return bpf_redirect(gen_ifindex, 0);
}
#endif

char _license[] SEC("license") = "Dual BSD/GPL";
