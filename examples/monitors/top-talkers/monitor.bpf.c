// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Who talks to whom, and how much: packets and bytes by source, destination and protocol. The counts are exact as long as
 * there are at most CONVERSATIONS at once; then the kernel evicts those that were not used for longest. */
#include <pcn/monitor.h>
#include <pcn/flow.h>

#define CONVERSATIONS 10240

struct conversation {
	pcn_address source;
	pcn_address destination;
	__u16 vlan; /* 65535: untagged */
	__u16 protocol;
};

PCN_MAP(conversations, BPF_MAP_TYPE_LRU_HASH, struct conversation, struct pcn_count, CONVERSATIONS);

PCN_MONITOR
{
	struct pcn_count none = {};
	struct conversation key = {};
	struct pcn_flow flow = {};
	struct pcn_count *count;

	if (pcn_flow_read(ctx, &flow) || !(flow.has & PCN_FLOW_IP))
		return pcn_pkt_pass(ctx, md);
	pcn_address_copy(key.source, flow.source);
	pcn_address_copy(key.destination, flow.destination);
	key.vlan = flow.vlan;
	key.protocol = flow.protocol;
	count = bpf_map_lookup_elem(&conversations, &key);
	if (!count) {
		/* Another CPU may have been faster: its entry stays. */
		bpf_map_update_elem(&conversations, &key, &none, BPF_NOEXIST);
		count = bpf_map_lookup_elem(&conversations, &key);
	}
	if (count) {
		__sync_fetch_and_add(&count->packets, 1);
		__sync_fetch_and_add(&count->bytes, md->packet_len);
	}
	return pcn_pkt_pass(ctx, md);
}

PCN_LICENSE;
