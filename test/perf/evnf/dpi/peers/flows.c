// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* The table of flows. Both directions of a flow have one entry. nDPI gets packets until it is certain or there have been enough of
 * them; afterwards packets are only counted. */
#include "flows.h"

#include <errno.h>
#include <fcntl.h>
#include <ndpi_api.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* The lower end comes first. */
struct key {
	uint8_t low[16], high[16];
	uint16_t low_port, high_port;
	uint8_t protocol, zero[3];
};

struct flow {
	struct key key;
	struct flow *next;		/* of the same bucket */
	struct flow *newer, *older;	/* in the order of their last packets */
	struct ndpi_flow_struct *state; /* NULL once it is classified */
	uint64_t packets, bytes, last;	/* last in ms */
	uint16_t application, category;
};

#define BUCKETS (2 * MAX_FLOWS)

struct counts *counts;
static struct ndpi_detection_module_struct *module;
static struct flow *buckets[BUCKETS], *spare;
static struct flow *newest, *oldest;
static uint32_t known;

void die(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	exit(1);
}

uint64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000ull + ts.tv_nsec / 1000000;
}

void wait_for(int fd)
{
	struct pollfd fds[2] = { { .fd = fd, .events = POLLIN }, { .fd = 0, .events = POLLIN } };

	if (poll(fds, 2, 1000) < 0 && errno != EINTR)
		die("poll");
	if (fds[1].revents)
		exit(0); /* nobody writes anything to it */
}

void flows_init(const char *file)
{
	NDPI_PROTOCOL_BITMASK all;
	int fd = open(file, O_RDWR);

	if (fd < 0)
		die(file);
	counts = mmap(NULL, sizeof(*counts), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (counts == MAP_FAILED)
		die("mmap of the counters");
	close(fd);
	module = ndpi_init_detection_module(ndpi_no_prefs);
	if (!module)
		die("nDPI");
	NDPI_BITMASK_SET_ALL(all);
	ndpi_set_protocol_detection_bitmask2(module, &all);
	ndpi_finalize_initialization(module);
}

static uint32_t bucket_of(const struct key *k)
{
	uint64_t words[5], hash = 0;

	memcpy(words, k, sizeof(words));
	for (int i = 0; i < 5; i++) {
		hash = (hash ^ words[i]) * 0x9e3779b97f4a7c15ull;
		hash ^= hash >> 32;
	}
	return hash % BUCKETS;
}

/* Takes a flow out of the order. */
static void unlink_flow(struct flow *f)
{
	if (f->newer)
		f->newer->older = f->older;
	else
		newest = f->older;
	if (f->older)
		f->older->newer = f->newer;
	else
		oldest = f->newer;
}

static void put_first(struct flow *f)
{
	f->newer = NULL;
	f->older = newest;
	if (newest)
		newest->newer = f;
	else
		oldest = f;
	newest = f;
}

/* A flow is classified, with what nDPI knows of it. */
static void classify(struct flow *f, ndpi_protocol p)
{
	f->application = p.app_protocol ? p.app_protocol : p.master_protocol;
	f->category = p.category;
	if (f->application)
		counts->classified++;
	else
		counts->unknown++;
	ndpi_free_flow(f->state);
	f->state = NULL;
}

static void give_up(struct flow *f)
{
	uint8_t guessed = 0;

	if (f->state)
		classify(f, ndpi_detection_giveup(module, f->state, 1, &guessed));
}

static void end_oldest(void)
{
	struct flow *f = oldest, **at = &buckets[bucket_of(&f->key)];

	give_up(f);
	while (*at != f)
		at = &(*at)->next;
	*at = f->next;
	unlink_flow(f);
	f->next = spare;
	spare = f;
	known--;
}

void flows_expire(uint64_t ms)
{
	while (oldest && ms > oldest->last + IDLE_SECONDS * 1000)
		end_oldest();
}

static struct flow *new_flow(const struct key *k, uint32_t bucket)
{
	struct flow *f;

	if (known >= MAX_FLOWS)
		end_oldest();
	f = spare;
	if (f)
		spare = f->next;
	else
		f = malloc(sizeof(*f));
	if (!f)
		die("a flow");
	memset(f, 0, sizeof(*f));
	f->state = ndpi_flow_malloc(ndpi_detection_get_sizeof_ndpi_flow_struct());
	if (!f->state)
		die("the state of a flow");
	memset(f->state, 0, ndpi_detection_get_sizeof_ndpi_flow_struct());
	f->key = *k;
	f->next = buckets[bucket];
	buckets[bucket] = f;
	put_first(f);
	known++;
	counts->flows++;
	return f;
}

static struct flow *find(const struct key *k)
{
	uint32_t bucket = bucket_of(k);

	for (struct flow *f = buckets[bucket]; f; f = f->next) {
		if (memcmp(&f->key, k, sizeof(*k)))
			continue;
		if (f != newest) {
			unlink_flow(f);
			put_first(f);
		}
		return f;
	}
	return new_flow(k, bucket);
}

static void put_ends(struct key *k, const uint8_t *source, const uint8_t *destination, size_t size,
		     const uint8_t *ports)
{
	uint16_t port[2] = { 0, 0 };
	int order = memcmp(source, destination, size);

	if (ports)
		memcpy(port, ports, sizeof(port));
	if (order > 0 || (!order && port[0] > port[1])) {
		memcpy(k->low, destination, size);
		memcpy(k->high, source, size);
		k->low_port = port[1];
		k->high_port = port[0];
	} else {
		memcpy(k->low, source, size);
		memcpy(k->high, destination, size);
		k->low_port = port[0];
		k->high_port = port[1];
	}
}

/* The key of a packet. 0, or -1 if it is none of IP. A fragment has no ports, nor has a packet with IPv6 extension headers. */
static int key_of(struct key *k, const uint8_t *ip, uint32_t length)
{
	uint32_t l4, fragment = 0;
	int has_ports;

	memset(k, 0, sizeof(*k));
	if (length >= 20 && ip[0] >> 4 == 4) {
		l4 = (ip[0] & 15) * 4;
		fragment = (ip[6] & 0x3f) | ip[7];
		k->protocol = ip[9];
	} else if (length >= 40 && ip[0] >> 4 == 6) {
		l4 = 40;
		k->protocol = ip[6];
	} else {
		return -1;
	}
	has_ports = (k->protocol == IPPROTO_TCP || k->protocol == IPPROTO_UDP) && !fragment &&
		    length >= l4 + 4;
	if (ip[0] >> 4 == 4)
		put_ends(k, ip + 12, ip + 16, 4, has_ports ? ip + l4 : NULL);
	else
		put_ends(k, ip + 8, ip + 24, 16, has_ports ? ip + l4 : NULL);
	return 0;
}

int flows_packet(const unsigned char *ip, uint32_t length, uint64_t ms)
{
	ndpi_protocol p;
	struct flow *f;
	struct key k;

	counts->packets++;
	counts->bytes += length;
	if (key_of(&k, ip, length))
		return 0;
	f = find(&k);
	f->last = ms;
	f->packets++;
	f->bytes += length;
	if (!f->state)
		return 1;
	counts->inspected++;
	p = ndpi_detection_process_packet(module, f->state, ip, length, ms);
	if ((p.app_protocol || p.master_protocol) &&
	    !ndpi_extra_dissection_possible(module, f->state))
		classify(f, p);
	else if (f->packets >= INSPECT_PACKETS)
		give_up(f);
	return !f->state;
}
