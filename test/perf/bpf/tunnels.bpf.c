// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* Generator of frames that are long enough for packets in GTP-U tunnels; the sink is that of filters. */
#include <linux/if_ether.h>
#include <pcn/ctx.h>
#include <pcn/map.h>

#ifdef PCN_XDP
#define FRAMES 16384
#define SIZE 108

struct traffic_state {
	__u64 packets;
	__u32 next; /* number of the next frame */
	__u32 random;
};

#include "generator.h"
#endif

char _license[] SEC("license") = "Dual BSD/GPL";
