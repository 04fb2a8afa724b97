// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Zones that several cubes share, by a name: a connection that one of them has accepted is known to all. Package
 * conntrack/zone gives names to zones; docs/adr/0070-shared-zones.md explains it.
 *
 *	int class = pcn_conntrack_track(ctx, w, pcn_conntrack_zone_of(md, shared), 0); */
#ifndef PCN_CONNTRACK_SHARE_H
#define PCN_CONNTRACK_SHARE_H

#include <pcn/cube.h>
#include <pcn/conntrack_table.h>

/* Internal: timeouts of a zone, as many as package conntrack has. */
#define PCN_CONNTRACK_TIMEOUTS 15

/* Internal: the zone of a cube that shares one. All but the zone is the control plane's. */
struct pcn_conntrack_share {
	__u32 zone;			       /* 0: the cube has its own */
	__u32 limit;			       /* what the cube wants for the zone */
	__u32 timeout[PCN_CONNTRACK_TIMEOUTS]; /* the same, in seconds */
	char name[36];			       /* of the zone */
};

/* By number of the cube. */
PCN_MAP_SHARED_FLAGS(conntrack, ct_shares, BPF_MAP_TYPE_ARRAY, __u32, struct pcn_conntrack_share,
		     PCN_MAX_CUBES, BPF_F_MMAPABLE);

/* The zone of a cube: its own, or, if `shared` is set, the one that it shares with others. */
PCN_INLINE __u32 pcn_conntrack_zone_of(const struct pcn_md *md, bool shared)
{
	__u32 cube = pcn_instance(md), zone;
	struct pcn_conntrack_share *share;

	if (!shared)
		return cube;
	share = bpf_map_lookup_elem(&ct_shares, &cube);
	zone = share ? PCN_CONNTRACK_ONCE(share->zone) : 0;
	return zone ? zone : cube;
}

#endif
