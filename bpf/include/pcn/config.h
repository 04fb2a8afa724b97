// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Constants that the configuration sets. They are frozen before the program is verified, so the
 * verifier removes the code that they disable, and a feature that is off costs nothing. */
#ifndef PCN_CONFIG_H
#define PCN_CONFIG_H

#include <pcn/ctx.h>
#include <pcn/md.h>

/* PCN_CONFIG(type, name) = default; e.g. PCN_CONFIG(__u32, aging_time) = 300;
 * The control plane sets it by name in the Constants of its plan. */
#define PCN_CONFIG(type, name) const volatile type name

/* PCN_CONFIG(__u32, max_length) PCN_TRY(1500) = 0;
 * A value of a numeric constant that enables code which the default disables. When a service is
 * added, its programs are test-loaded with each value of its constants of type bool and enum; for a
 * number, only the literals given here are tried. PCN_TRY may be repeated. */
#define PCN_TRY(value) __attribute__((btf_decl_tag("pcn_try:" #value)))

/* The number of the cube, below PCN_MAX_CUBES, which no other cube has as long as it exists: an index
 * into tables that cubes share (in Go, Env.Instance). It is data, since cubes that are alike run the
 * same programs. */
PCN_INLINE __u32 pcn_instance(const struct pcn_md *md)
{
	return md->cube;
}

/* 1 if the cube has a namespace, and 1 if that gets copies of all its traffic. The linker sets
 * both, so that code for the other case costs nothing. */
const volatile __u32 pcn_shadow = 0;
const volatile __u32 pcn_span = 0;

/* 1 if a transparent cube on one of the cube's ports takes offers (pcn_pkt_offer). Set by the
 * linker. */
const volatile __u32 pcn_offers = 0;

/* For a transparent service: declares that its egress program takes offers. Without it, no packets
 * are offered for the sake of its cubes, though they may see packets offered to cubes further out.
 * */
#define PCN_TAKES_OFFERS const volatile __u32 pcn_takes_offers __attribute__((used)) = 1

/* Names the enum of the cube's own drop reasons, whose first value is PCN_REASON_FIRST. The enum
 * provides the labels of counters and metrics. */
#define PCN_REASONS(name) const volatile enum name pcn_reasons __attribute__((used)) = 0

/* Names the enum of the reasons for which the cube sends packets to its slow path, whose first
 * value is also PCN_REASON_FIRST: such packets are counted as slowpath, whatever the reason. */
#define PCN_SLOWPATH_REASONS(name) \
	const volatile enum name pcn_slowpath_reasons __attribute__((used)) = 0

/* The service's programs: PCN_INGRESS { ... return pcn_pkt_send(ctx, md, port); } */
#define PCN_INGRESS \
	SEC(PCN_SECTION) int pcn_ingress(struct CTXTYPE *ctx, struct pcn_md *md PCN_NONNULL)
#define PCN_EGRESS \
	SEC(PCN_SECTION) int pcn_egress(struct CTXTYPE *ctx, struct pcn_md *md PCN_NONNULL)

/* Another program of the service, entered by pcn_call_program: PCN_PROGRAM(name) { ... }
 * The control plane gives it a direction and an index. */
#define PCN_PROGRAM(name) \
	SEC(PCN_SECTION) int name(struct CTXTYPE *ctx, struct pcn_md *md PCN_NONNULL)

/* Declares the licence of a program, which the kernel requires. */
#define PCN_LICENSE char _license[] SEC("license") = "Dual BSD/GPL"

#endif
