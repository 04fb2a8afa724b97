// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* nDPI in the path of the packets: each packet waits in queue 0 of netfilter for its verdict. What was read at a time has one verdict
 * together. With the word `mark`, a packet that classifies its flow passes the rules again with mark 1, so that they can remember the
 * connection. */
#define _GNU_SOURCE
#include "flows.h"

#include <arpa/inet.h>
#include <errno.h>
#include <libnetfilter_queue/libnetfilter_queue.h>
#include <linux/netfilter.h>
#include <linux/netlink.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define AT_ONCE 64		 /* packets that are read by one system call */
#define QUEUE_LENGTH 32768	 /* packets that wait at most */
#define RECEIVE_BUFFER (1 << 28) /* bytes of a socket's buffer for them */
#define CLASSIFIED 1		 /* the mark */

static struct nfq_q_handle *queue;
static int marks;
/* The last packet without a verdict, and whether there is one. */
static uint32_t last;
static int pending;

/* Accepts what has no verdict yet, up to the last packet. */
static void accept_pending(void)
{
	if (pending && nfq_set_verdict_batch(queue, last, NF_ACCEPT) < 0)
		die("verdict");
	pending = 0;
}

static int take_packet(struct nfq_q_handle *q, struct nfgenmsg *message, struct nfq_data *data,
		       void *ms)
{
	struct nfqnl_msg_packet_hdr *header = nfq_get_msg_packet_hdr(data);
	unsigned char *ip;
	int length = nfq_get_payload(data, &ip), classified = 0;
	uint32_t id;

	(void)message;
	if (!header)
		return 0;
	id = ntohl(header->packet_id);
	if (length > 0)
		classified = flows_packet(ip, length, *(uint64_t *)ms);
	if (marks && classified) {
		accept_pending(); /* those before it go first */
		if (nfq_set_verdict2(q, id, NF_REPEAT, CLASSIFIED, 0, NULL) < 0)
			die("verdict");
		return 0;
	}
	last = id;
	pending = 1;
	return 0;
}

static struct nfq_handle *open_queue(uint64_t *ms)
{
	struct nfq_handle *h = nfq_open();
	int size = RECEIVE_BUFFER, on = 1;

	if (!h)
		die("nfnetlink");
	queue = nfq_create_queue(h, 0, take_packet, ms);
	if (!queue)
		die("queue 0");
	if (nfq_set_mode(queue, NFQNL_COPY_PACKET, SNAP_LENGTH) < 0 ||
	    nfq_set_queue_flags(queue, NFQA_CFG_F_FAIL_OPEN, NFQA_CFG_F_FAIL_OPEN) < 0 ||
	    nfq_set_queue_maxlen(queue, QUEUE_LENGTH) < 0)
		die("settings of queue 0");
	if (setsockopt(nfq_fd(h), SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size)) ||
	    setsockopt(nfq_fd(h), SOL_NETLINK, NETLINK_NO_ENOBUFS, &on, sizeof(on)))
		die("socket of nfnetlink");
	return h;
}

int main(int argc, char **argv)
{
	static char buffers[AT_ONCE][4096] __attribute__((aligned(8)));
	static struct mmsghdr messages[AT_ONCE];
	static struct iovec parts[AT_ONCE];
	struct nfq_handle *h;
	uint64_t ms = 0;

	if (argc < 2 || argc > 3 || (argc == 3 && strcmp(argv[2], "mark"))) {
		fprintf(stderr, "usage: nfqueue COUNTERS [mark]\n");
		return 64;
	}
	marks = argc == 3;
	flows_init(argv[1]);
	h = open_queue(&ms);
	for (int i = 0; i < AT_ONCE; i++) {
		parts[i] = (struct iovec){ buffers[i], sizeof(buffers[i]) };
		messages[i].msg_hdr = (struct msghdr){ .msg_iov = &parts[i], .msg_iovlen = 1 };
	}
	counts->ready = 1;
	for (;;) {
		int n = recvmmsg(nfq_fd(h), messages, AT_ONCE, MSG_DONTWAIT, NULL);

		if (n < 0 && errno != EAGAIN && errno != EINTR)
			die("queue 0");
		if (n <= 0) {
			wait_for(nfq_fd(h));
			continue;
		}
		ms = now_ms();
		for (int i = 0; i < n; i++)
			nfq_handle_packet(h, buffers[i], messages[i].msg_len);
		accept_pending();
		flows_expire(ms);
	}
}
