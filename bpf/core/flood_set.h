// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Floods to the ports of a set, each with or without the VLAN tag of the frame. Only programs of
 * cubes that use sets contain these functions. */
#ifndef PCN_FLOOD_SET_H
#define PCN_FLOOD_SET_H

#define SET_WORDS (PCN_MAX_PORTS / 64)

/* Iterates over the members of a set: first those that want the frame as it is, then the others. It
 * is small, because only the stack that the cube leaves is available. */
struct set_walk {
	struct CTXTYPE *ctx;
	struct pcn_md *md;
	struct pcn_flood_set *set;
	struct pcn_flood *row;
	__u64 bits;  /* remaining bits of the word */
	__u32 words; /* bitmap of the remaining words */
	__u32 who;
	__u16 word; /* of the members; from SET_WORDS on those of the second kind */
	__u16 port; /* the last member found that has a peer */
	__u16 found;
	__u8 tagged; /* whether the frame initially had the tag */
	__u8 turned; /* it has its other form now */
};

/* Stores set and tag for the driver's call of pcn_core_flood_set, and returns the verdict. */
PCN_GLOBAL int pcn_core_to_set_for(struct CTXTYPE *ctx, struct pcn_md *md PCN_NONNULL, __u32 set,
				   __u32 tag, __u32 who)
{
	(void)ctx;
	(void)who;
	md->md[0] = set;
	md->md[1] = tag;
	return PCN_FLOOD_SET;
}

/* The members of the given kind among the ports 64 * i + 0..63, without the ingress port. */
PCN_INLINE __u64 set_members(struct set_walk *w, __u32 i, int second)
{
	__u64 ports = w->set->ports[i], tagged = w->set->tagged[i];
	__u32 in_port = w->md->in_port;

	if (!w->md->md[1])
		ports = second ? 0 : ports;
	else
		ports &= !!w->tagged == second ? ~tagged : tagged;
	if (in_port / 64 == i)
		ports &= ~(1ULL << (in_port % 64));
	return ports;
}

#define SET_STEPS (PCN_MAX_PORTS + 2 * SET_WORDS + 1)
#define SET_END -1
#define SET_NONE -2

/* The next member; SET_NONE: call again. */
PCN_INLINE int set_next(struct set_walk *w)
{
	__u64 bits = w->bits;

	if (!bits) {
		if (!w->words)
			return SET_END;
		w->word = lowest(w->words);
		w->words &= w->words - 1;
		bits = set_members(w, w->word % SET_WORDS, w->word / SET_WORDS);
		if (!bits)
			return SET_NONE;
	}
	w->bits = bits & (bits - 1);
	return w->word % SET_WORDS * 64 + lowest(bits);
}

/* Starts an iteration; tagged is the form of the frame. Variables that an iteration changes are
 * opaque: see pcn_opaque. */
PCN_INLINE void set_begin(struct set_walk *w, int tagged)
{
	__u64 unknown = w->set->ports[0];

	w->tagged = tagged;
	w->bits = pcn_opaque(0, unknown);
	w->word = pcn_opaque(0, unknown);
	w->port = pcn_opaque(0, unknown);
	w->found = pcn_opaque(0, unknown);
	w->turned = pcn_opaque(0, unknown);
	w->words = w->set->words | w->set->words << SET_WORDS;
}

/* Returns whether a port has a peer; netdev is its exit, or NULL if the peer is a program. */
PCN_INLINE int set_has_peer(struct set_walk *w, __u32 port, struct pcn_exit **netdev)
{
	__u32 key = CUBE(w->who) * PCN_MAX_PORTS + port;
	struct pcn_exit *e;

	*netdev = NULL;
	if (has_port(w->row->complex_ports, port))
		return 1;
	e = bpf_map_lookup_elem(&pcn_exits, &key);
	if (!e || !e->ifindex)
		return 0;
	if (!THROUGH_EGRESS(w->who))
		*netdev = e;
	return 1;
}

/* Pushes or pops the tag: 0, or negative. */
PCN_INLINE int set_retag(struct CTXTYPE *ctx, struct pcn_md *md, int tagged)
{
	if (tagged ? pcn_vlan_push(ctx, md->md[1]) : pcn_vlan_pop(ctx))
		return -1;
	md->md[0] ^= PCN_SET_TAGGED;
	md->packet_len = LEN(ctx);
	return 0;
}

/* Lets the packet itself continue to a port. */
PCN_INLINE int set_send_last(struct pcn_md *md, __u32 port)
{
	md->out_port = port;
	__builtin_memset(md->md, 0, sizeof(md->md));
	return -1;
}

#ifdef PCN_TC
/* Sends a copy to the member that was found last. */
PCN_INLINE void set_copy(struct set_walk *w)
{
	struct pcn_exit *e;
	long err = -1;

	if (!set_has_peer(w, w->port, &e)) {
		err = 0; /* removed just now */
	} else if (!e) {
		err = recirculate(w->ctx, w->md, CUBE(w->who), w->port, w->row->tap);
	} else {
		err = bpf_clone_redirect(w->ctx, e->ifindex, 0);
		if (err >= 0) { /* sent, whatever its egress did; see flood_one */
			count_tx(e->page, e->slot, w->ctx->len);
			err = 0;
		}
	}
	if (err)
		pcn_count_fate(CUBE(w->who), PCN_REASON_COPY_FAILED);
}

/* A member gets its copy when the next one is found, so the last one gets the packet itself. */
static long set_one(__u32 i, struct set_walk *w)
{
	struct pcn_exit *e;
	int port = set_next(w);

	(void)i;
	if (port < 0)
		return port == SET_END;
	if (!set_has_peer(w, port, &e))
		return 0;
	if (w->found++)
		set_copy(w);
	w->port = port;
	if (w->word >= SET_WORDS && !w->turned) {
		w->turned = 1;
		if (set_retag(w->ctx, w->md, !w->tagged)) {
			pcn_count_fate(CUBE(w->who), PCN_REASON_COPY_FAILED);
			w->port = PCN_MAX_PORTS;
			return 1;
		}
	}
	return 0;
}

/* Sends copies to the members of a set. Returns -1 if the driver must send the packet itself out of
 * md.out_port, or the hook's verdict. */
PCN_GLOBAL int pcn_core_flood_set(struct CTXTYPE *ctx, struct pcn_md *md PCN_NONNULL, __u32 who)
{
	__u32 cube = CUBE(who), key = cube << 16 | (md->md[0] & 0xffff);
	struct set_walk w = { .ctx = ctx, .md = md, .who = who };

	w.set = bpf_map_lookup_elem(&pcn_flood_sets, &key);
	w.row = bpf_map_lookup_elem(&pcn_floods, &cube);
	if (w.set && w.row) {
		set_begin(&w, !!(md->md[0] & PCN_SET_TAGGED));
		ctx->mark = md->traffic_class;
		bpf_loop(SET_STEPS, set_one, &w, 0);
	}
	pcn_count_fate(cube, w.found ? PCN_REASON_FLOOD : PCN_REASON_NO_PEER);
	if (!w.found || w.port >= PCN_MAX_PORTS)
		return 2; /* TC_ACT_SHOT */
	return set_send_last(md, w.port);
}
#else
static long set_find(__u32 i, struct set_walk *w)
{
	struct pcn_exit *e;
	int port = set_next(w);

	(void)i;
	if (port < 0)
		return port == SET_END;
	if (set_has_peer(w, port, &e)) {
		w->found++;
		w->port = port;
	}
	return 0;
}

/* Counts the copies for netdevs; those of the second kind are sent without the tag. */
static long set_count(__u32 i, struct set_walk *w)
{
	struct pcn_exit *e;
	int port = set_next(w);
	__u32 len = w->md->packet_len;

	(void)i;
	if (port < 0)
		return port == SET_END;
	if (w->word >= SET_WORDS)
		len -= sizeof(struct pcn_vlan_hdr);
	if (set_has_peer(w, port, &e) && e)
		count_tx(e->page, e->slot, len);
	return 0;
}

/* True if the kernel can make all copies; see can_broadcast. */
PCN_INLINE int set_can_broadcast(struct set_walk *w)
{
	__u32 ifindex = w->ctx->ingress_ifindex, in_port = w->md->in_port, flags = w->set->flags;
	__u32 len = LEN(w->ctx);

	if (len != (__u64)(w->ctx->data_end - w->ctx->data))
		return 0;
	if (flags & PCN_SET_BY_LOOP && len + sizeof(struct pcn_vlan_hdr) > PCN_LOOP_FRAME)
		return 0;
	if (has_port(w->set->ports, in_port) && has_port(w->row->simple_ports, in_port) &&
	    !THROUGH_EGRESS(w->who) && !entered_from(w->ctx, CUBE(w->who), in_port))
		return 0;
	/* The copies of a generic XDP broadcast share their data, so they cannot be changed
	 * separately. */
	return !(flags & PCN_SET_UNTAGS) ||
	       (w->md->md[1] && !bpf_map_lookup_elem(&pcn_generic, &ifindex));
}

/* Sends the packet to the members of a set, all copies in one broadcast: with the tag if any member
 * wants it; programs of the broadcast remove it for the others. */
PCN_INLINE int set_broadcast(struct set_walk *w)
{
	__u32 flags = w->set->flags, group = w->set->group, what = group;
	int tagged = w->tagged;
	void *map = bpf_map_lookup_elem(&pcn_groups, &group);

	if (!map || !set_can_broadcast(w))
		return -2;
	if (w->md->md[1] && tagged != !!(flags & PCN_SET_WITH)) {
		tagged = !tagged;
		if (set_retag(w->ctx, w->md, tagged))
			return -2;
	}
	if (w->md->md[1] && flags & PCN_SET_WITHOUT && tagged)
		what |= PCN_LOOP_TAGGED;
	if (flags & PCN_SET_BY_LOOP &&
	    write_loop_header(w->ctx, w->md, CUBE(w->who), w->md->in_port, what))
		return -2;
	set_begin(w, tagged);
	bpf_loop(SET_STEPS, set_count, w, 0);
	int exclude = has_port(w->set->ports, w->md->in_port) &&
		      has_port(w->row->simple_ports, w->md->in_port) && !THROUGH_EGRESS(w->who);
	return bpf_redirect_map(map, 0, BPF_F_BROADCAST | (exclude ? BPF_F_EXCLUDE_INGRESS : 0));
}

/* Sends the packet to the members of a set. Returns -1 if the driver must send it out of
 * md.out_port, -2 if user space must make the copies, or the hook's verdict. */
PCN_GLOBAL int pcn_core_flood_set(struct CTXTYPE *ctx, struct pcn_md *md PCN_NONNULL, __u32 who)
{
	__u32 cube = CUBE(who), key = cube << 16 | (md->md[0] & 0xffff);
	struct set_walk w = { .ctx = ctx, .md = md, .who = who };

	w.set = bpf_map_lookup_elem(&pcn_flood_sets, &key);
	w.row = bpf_map_lookup_elem(&pcn_floods, &cube);
	if (w.set && w.row) {
		md->packet_len = LEN(ctx);
		set_begin(&w, !!(md->md[0] & PCN_SET_TAGGED));
		bpf_loop(SET_STEPS, set_find, &w, 0);
	}
	pcn_count_fate(cube, w.found ? PCN_REASON_FLOOD : PCN_REASON_NO_PEER);
	if (!w.found || !w.set || !w.row || w.port >= PCN_MAX_PORTS)
		return XDP_DROP;
	if (w.found > 1)
		return set_broadcast(&w);
	if (md->md[1] && w.tagged != has_port(w.set->tagged, w.port) &&
	    set_retag(ctx, md, !w.tagged)) {
		pcn_count_fate(cube, PCN_REASON_COPY_FAILED);
		return XDP_DROP;
	}
	return set_send_last(md, w.port);
}

/* Has user space make the copies. Returns the hook's verdict. */
PCN_GLOBAL int pcn_core_set_up(struct CTXTYPE *ctx, struct pcn_md *md PCN_NONNULL, __u32 who)
{
	if (pcn_core_put(ctx, md, who, PCN_RECORD_FLOOD_SET))
		pcn_count_fate(CUBE(who), PCN_REASON_SLOWPATH_SHED);
	return XDP_DROP;
}
#endif

#endif
