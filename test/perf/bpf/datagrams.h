// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* UDP datagrams of many flows to many services: what is the same in all of them comes from a frame, whose addresses, source
 * port and checksums are 0. Flow i comes from one of the addresses of clients, each of which uses 16 ports, and goes to one of the
 * services. */
#ifndef PERF_DATAGRAMS_H
#define PERF_DATAGRAMS_H

#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/udp.h>
#include <pcn/ctx.h>

#define PORTS 16
#define FIRST_PORT 1024

__u32 gen_flows = 1;
__u32 gen_first = 0;	/* the first address of clients, host order */
__u32 gen_service = 0;	/* the first address of services, host order */
__u32 gen_services = 1; /* how many addresses follow each other */
__u32 gen_ip_sum =
	0; /* the words of the IP header, without both addresses or without the client's */
__u32 gen_l4_sum = 0; /* of pseudo header and data, without these, and without the client's port */

PCN_INLINE __u16 folded(__u32 sum)
{
	sum = (sum >> 16) + (sum & 0xffff);
	sum = (sum >> 16) + (sum & 0xffff);
	return ~sum;
}

/* The words of an address, added up. */
PCN_INLINE __u32 halves(__be32 address)
{
	return (address >> 16) + (address & 0xffff);
}

/* Turns the frame's copy at `ip` into the datagram of flow i. */
PCN_INLINE void write_datagram(struct iphdr *ip, __u32 i)
{
	struct udphdr *udp = (void *)(ip + 1);
	__be32 client = bpf_htonl(gen_first + i / PORTS);
	__be32 service = bpf_htonl(gen_service + (gen_services > 1 ? i % gen_services : 0));
	__u32 both = halves(client) + halves(service);
	__be16 port = bpf_htons(FIRST_PORT + i % PORTS);
	__u16 check;

	ip->saddr = client;
	ip->daddr = service;
	ip->check = folded(gen_ip_sum + both);
	udp->source = port;
	check = folded(gen_l4_sum + both + port);
	udp->check = check ? check : 0xffff;
}

#endif
