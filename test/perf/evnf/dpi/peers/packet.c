// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* nDPI beside the path of the packets: a socket of AF_PACKET copies each packet of a netdev to a ring (TPACKET_V3), and the kernel
 * forwards it meanwhile. */
#include "flows.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#define BLOCK_SIZE (1 << 20)
#define BLOCKS 64
#define RETIRE_MS 8 /* when a block is passed on that is not full */

/* The ring, and its socket. */
static unsigned char *open_ring(const char *netdev, int *out)
{
	struct tpacket_req3 req = { .tp_block_size = BLOCK_SIZE,
				    .tp_block_nr = BLOCKS,
				    .tp_frame_size = 2048,
				    .tp_frame_nr = BLOCK_SIZE / 2048 * BLOCKS,
				    .tp_retire_blk_tov = RETIRE_MS };
	struct sockaddr_ll at = { .sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL) };
	int version = TPACKET_V3, fd = socket(AF_PACKET, SOCK_RAW, 0);
	void *ring;

	if (fd < 0)
		die("socket of AF_PACKET");
	if (setsockopt(fd, SOL_PACKET, PACKET_VERSION, &version, sizeof(version)) ||
	    setsockopt(fd, SOL_PACKET, PACKET_RX_RING, &req, sizeof(req)))
		die("ring of AF_PACKET");
	ring = mmap(NULL, (size_t)BLOCK_SIZE * BLOCKS, PROT_READ | PROT_WRITE,
		    MAP_SHARED | MAP_LOCKED, fd, 0);
	if (ring == MAP_FAILED)
		die("mmap of the ring");
	at.sll_ifindex = if_nametoindex(netdev);
	if (!at.sll_ifindex || bind(fd, (struct sockaddr *)&at, sizeof(at)))
		die(netdev);
	*out = fd;
	return ring;
}

static void take_packet(const struct tpacket3_hdr *h, uint64_t ms)
{
	const unsigned char *frame = (const unsigned char *)h + h->tp_mac;
	const struct sockaddr_ll *from =
		(const void *)((const unsigned char *)h + TPACKET_ALIGN(sizeof(*h)));
	uint32_t length = h->tp_snaplen;
	uint16_t type;

	if (from->sll_pkttype == PACKET_OUTGOING || length < ETH_HLEN)
		return;
	memcpy(&type, frame + 12, sizeof(type));
	if (type != htons(ETH_P_IP) && type != htons(ETH_P_IPV6))
		return;
	length -= ETH_HLEN;
	flows_packet(frame + ETH_HLEN, length < SNAP_LENGTH ? length : SNAP_LENGTH, ms);
}

static void take_block(struct tpacket_block_desc *block)
{
	unsigned char *at = (unsigned char *)block + block->hdr.bh1.offset_to_first_pkt;
	uint64_t ms = now_ms();

	for (uint32_t i = 0; i < block->hdr.bh1.num_pkts; i++) {
		struct tpacket3_hdr *h = (struct tpacket3_hdr *)at;

		take_packet(h, ms);
		at += h->tp_next_offset;
	}
	flows_expire(ms);
}

static void count_lost(int fd)
{
	struct tpacket_stats_v3 stats;
	socklen_t size = sizeof(stats);

	if (!getsockopt(fd, SOL_PACKET, PACKET_STATISTICS, &stats, &size))
		counts->lost += stats.tp_drops; /* since the last time */
}

int main(int argc, char **argv)
{
	unsigned char *ring;
	int fd;

	if (argc != 3) {
		fprintf(stderr, "usage: packet COUNTERS NETDEV\n");
		return 64;
	}
	flows_init(argv[1]);
	ring = open_ring(argv[2], &fd);
	counts->ready = 1;
	for (unsigned int i = 0;; i = (i + 1) % BLOCKS) {
		struct tpacket_block_desc *block = (void *)(ring + (size_t)i * BLOCK_SIZE);
		uint32_t *status = &block->hdr.bh1.block_status;

		while (!(__atomic_load_n(status, __ATOMIC_ACQUIRE) & TP_STATUS_USER)) {
			count_lost(fd);
			wait_for(fd);
		}
		take_block(block);
		__atomic_store_n(status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
	}
}
