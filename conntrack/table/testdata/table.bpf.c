// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* For tests: the key of a flow, and looking for, opening and ending connections by number. */
#include <pcn/config.h>
#include <pcn/conntrack.h>
#include <pcn/time.h>

/* What the programs do, and how often which result came out. */
struct job {
	__u64 next;   /* the next connection */
	__u64 keys;   /* connections are numbers below it */
	__u64 stride; /* between two of them */
	__u64 base;   /* added to the number of each */
	__u64 found;
	__u64 opened;	  /* or found by pcn_conntrack_open */
	__u64 refused[8]; /* by -enum pcn_conntrack_refusal */
	__u32 zone;
	__u32 number; /* of the last entry */
	struct pcn_flow flow;
	struct pcn_conntrack_key key;
	__s64 side;
};

PCN_MAP_FLAGS(jobs, BPF_MAP_TYPE_ARRAY, __u32, struct job, 1, BPF_F_MMAPABLE);

PCN_INLINE struct job *the_job(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&jobs, &zero);
}

/* A key of a number: a client's address and port to a server's. */
PCN_INLINE void key_of(struct job *job, __u64 n, struct pcn_conntrack_key *key)
{
	n += job->base;
	pcn_address_set4(key->address[0], bpf_htonl(0x0a000000 | n >> 16));
	pcn_address_set4(key->address[1], bpf_htonl(0xc0a80001));
	key->port[0] = bpf_htons(n);
	key->port[1] = bpf_htons(443);
	key->zone = job->zone;
	key->protocol = IPPROTO_UDP;
	key->ipv6 = 0;
}

/* The number of the next connection; the locked instruction separates operations, as the rest of a packet's
 * processing does. */
PCN_INLINE __u64 next_of(struct job *job)
{
	return __sync_fetch_and_add(&job->next, 1) * job->stride % job->keys;
}

PCN_INLINE int open_one(struct job *job, struct pcn_conntrack_entry *new)
{
	new->user[0] = new->key.port[0];
	new->seen = pcn_time_coarse();
	new->generation = pcn_conntrack_generation(job->zone);
	pcn_ct_udp(&new->state, 0);
	int number = pcn_conntrack_open(new);
	if (number > 0)
		__sync_fetch_and_add(&job->opened, 1);
	else
		__sync_fetch_and_add(&job->refused[-number & 7], 1);
	job->number = number;
	return number;
}

/* Nothing but the loop and the key: what is to be subtracted from the times of others. */
SEC(PCN_SECTION) int nothing(struct CTXTYPE *ctx)
{
	struct job *job = the_job();
	struct pcn_conntrack_entry new = {};

	(void)ctx;
	if (!job)
		return -1;
	key_of(job, next_of(job), &new.key);
	asm volatile("" : : "r"(&new) : "memory");
	return 0;
}

SEC(PCN_SECTION) int find(struct CTXTYPE *ctx)
{
	struct job *job = the_job();
	struct pcn_conntrack_entry new = {};

	(void)ctx;
	if (!job)
		return -1;
	key_of(job, next_of(job), &new.key);
	struct pcn_conntrack_entry *e = pcn_conntrack_entry(pcn_conntrack_find(&new.key));
	if (e && e->user[0] == new.key.port[0])
		job->found++;
	return 0;
}

/* Finds the connection, or opens it. */
SEC(PCN_SECTION) int pass(struct CTXTYPE *ctx)
{
	struct job *job = the_job();
	struct pcn_conntrack_entry new = {};

	(void)ctx;
	if (!job)
		return -1;
	key_of(job, next_of(job), &new.key);
	int number = pcn_conntrack_find(&new.key);
	if (number) {
		__sync_fetch_and_add(&job->found, 1);
		return 0;
	}
	open_one(job, &new);
	return 0;
}

/* The same, where each connection comes twice in succession: CPUs open the same at the same time. */
SEC(PCN_SECTION) int together(struct CTXTYPE *ctx)
{
	struct job *job = the_job();
	struct pcn_conntrack_entry new = {};

	(void)ctx;
	if (!job)
		return -1;
	key_of(job, (__sync_fetch_and_add(&job->next, 1) >> 1) % job->keys, &new.key);
	if (pcn_conntrack_find(&new.key))
		__sync_fetch_and_add(&job->found, 1);
	else
		open_one(job, &new);
	return 0;
}

/* Opens without looking. */
SEC(PCN_SECTION) int open(struct CTXTYPE *ctx)
{
	struct job *job = the_job();
	struct pcn_conntrack_entry new = {};

	(void)ctx;
	if (!job)
		return -1;
	key_of(job, next_of(job), &new.key);
	open_one(job, &new);
	return 0;
}

SEC(PCN_SECTION) int end(struct CTXTYPE *ctx)
{
	struct job *job = the_job();
	struct pcn_conntrack_entry new = {};

	(void)ctx;
	if (!job)
		return -1;
	key_of(job, next_of(job), &new.key);
	struct pcn_conntrack_entry *e = pcn_conntrack_entry(pcn_conntrack_find(&new.key));
	if (e)
		pcn_conntrack_end(e);
	return 0;
}

SEC(PCN_SECTION) int key(struct CTXTYPE *ctx)
{
	struct job *job = the_job();
	struct pcn_conntrack_key key = {};
	struct pcn_flow flow;

	(void)ctx;
	if (!job)
		return -1;
	flow = job->flow;
	job->side = pcn_conntrack_key(&key, &flow, job->zone);
	job->key = key;
	return 0;
}

PCN_LICENSE;
