// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
//go:build ignore

/* A standard cube for tests with an error in a global function, which old kernels verify even if it
 * is never called. */
#include <pcn/cube.h>

struct pair {
	__u32 a, b;
};

PCN_GLOBAL int global_null(struct pair *p)
{
	return p->a + p->b; /* GLOBAL_NULL */
}

PCN_INGRESS
{
	struct pair p = { md->packet_len, 2 };

	md->md[0] = global_null(&p);
	return pcn_pkt_send(ctx, md, 1 - md->in_port);
}

PCN_LICENSE;
