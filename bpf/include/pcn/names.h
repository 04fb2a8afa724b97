// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Older names, for programs written for the first Polycube. Its pcn_pkt_redirect is pcn_pkt_send
 * here: that name belongs to another function now. */
#ifndef PCN_NAMES_H
#define PCN_NAMES_H

#include <pcn/verdict.h>

/* pcn_shadow, pcn_span, PCN_PASS, PCN_SEND, PCN_DROP, struct pcn_md, pcn_pkt_send,
 * pcn_pkt_namespace and pcn_pkt_controller_md. */
#define SHADOW pcn_shadow
#define SPAN pcn_span
#define RX_OK PCN_PASS
#define RX_REDIRECT PCN_SEND
#define RX_DROP PCN_DROP
#define pkt_metadata pcn_md
#define pcn_pkt_redirect_ns pcn_pkt_namespace
#define pcn_pkt_controller_with_metadata pcn_pkt_controller_md

#endif
