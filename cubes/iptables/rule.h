// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* What a rule says beyond the fields that the search compares: conditions that are tested after it, and a target with
 * values. The control plane writes it: rule.go. */
#ifndef IPTABLES_RULE_H
#define IPTABLES_RULE_H

#include <pcn/bucket.h>
#include <pcn/cube.h>

/* What becomes of a packet that a rule matches. */
enum iptables_verb {
	IPTABLES_DROP,
	IPTABLES_ACCEPT,
	IPTABLES_RETURN,
	IPTABLES_COUNT, /* the next rule */
	IPTABLES_JUMP,	/* chain */
	IPTABLES_GOTO,	/* chain */
	IPTABLES_REJECT,
	IPTABLES_LOG,
	IPTABLES_MARK, /* value, mask */
	IPTABLES_NOTRACK,
};

/* The result of a rule for the search: its verb, whether it has a row in `rows`, and its counter. */
#define IPTABLES_VERB 15
#define IPTABLES_HAS_ROW 16
#define IPTABLES_COUNTER_SHIFT 5

/* The conditions of one rule that are tested after the search. */
#define IPTABLES_TESTS 8

struct iptables_test {
	__u8 kind; /* enum iptables_test_kind */
	__u8 negated;
	__u16 number;
	__u32 value;
	union {
		__u8 text[72];
		__u16 half[30];
		__u32 word[8];
		__u64 wide[4];
		struct {
			struct pcn_bucket_limit limit;
			__u32 serial; /* of its groups: pcn_bucket_limit is not there if it is about connections */
		};
		struct {
			__u32 span[2];
			__u8 pattern[64];
		};
	};
};

/* Whether a number is from one word of a condition to the other. */
PCN_INLINE int iptables_is_in(__u32 n, const struct iptables_test *t)
{
	return n >= t->word[0] && n <= t->word[1];
}

struct iptables_row {
	__u32 chain;
	__u32 value;
	__u32 mask;
	__u32 tests;
	struct iptables_test test[IPTABLES_TESTS];
};

/* By the rule's counter, which no other rule has as long as packets may see it. */
PCN_MAP_FLAGS(rows, BPF_MAP_TYPE_HASH, __u32, struct iptables_row, 131072, BPF_F_NO_PREALLOC);

#endif
