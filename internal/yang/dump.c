// SPDX-License-Identifier: Apache-2.0
/* Serialises data nodes for Go: one cgo call per subtree instead of several per node. */
#include "libyang.h"

#include <stdlib.h>
#include <string.h>

struct out {
	char *buf;
	size_t len, cap;
	int failed;
};

static void put(struct out *o, const void *data, size_t n)
{
	if (o->failed)
		return;
	if (n > o->cap - o->len) {
		size_t cap = (o->cap + n) * 2;
		char *grown = realloc(o->buf, cap);

		if (!grown) {
			o->failed = 1;
			return;
		}
		o->buf = grown;
		o->cap = cap;
	}
	memcpy(o->buf + o->len, data, n);
	o->len += n;
}

static void put_byte(struct out *o, uint8_t b)
{
	put(o, &b, 1);
}

static void put_string(struct out *o, const char *s)
{
	uint32_t n = s ? (uint32_t)strlen(s) : 0;

	put(o, &n, sizeof n);
	if (n)
		put(o, s, n);
}

/* The actual type of a value: the member of a union that accepted it. */
static uint8_t base_of(const struct lyd_node *node)
{
	const struct lyd_value *value = &((const struct lyd_node_term *)node)->value;

	while (value->realtype->basetype == LY_TYPE_UNION)
		value = &value->subvalue->value;
	return value->realtype->basetype;
}

static const char *meta(const struct lyd_node *node, const char *name)
{
	const struct lyd_meta *found = lyd_find_meta(node->meta, NULL, name);

	return found ? lyd_get_meta_value(found) : NULL;
}

static void dump(struct out *o, const struct lyd_node *node, int diff)
{
	int inner = !(node->schema->nodetype & (LYS_LEAF | LYS_LEAFLIST));
	uint64_t schema = (uintptr_t)node->schema;
	const char *op = diff ? meta(node, "yang:operation") : NULL;

	put_byte(o, inner ? 'i' : 't');
	put(o, &schema, sizeof schema);
	put_byte(o, node->flags & LYD_DEFAULT ? 1 : 0);
	put_byte(o, op ? (uint8_t)op[0] : 0);
	if (inner) {
		for (const struct lyd_node *c = lyd_child(node); c; c = c->next)
			if (c->schema)
				dump(o, c, diff);
		put_byte(o, 'e');
		return;
	}
	put_byte(o, base_of(node));
	put_string(o, lyd_get_value(node));
	if (diff)
		put_string(o, meta(node, "yang:orig-value"));
}

int pcn_dump(const struct lyd_node *node, int scope, int diff, char **buf, size_t *len)
{
	struct out o = { 0 };

	for (const struct lyd_node *n = node; n; n = scope == PCN_ONE ? NULL : n->next) {
		if (scope == PCN_INSTANCES && n->schema != node->schema)
			break;
		if (n->schema)
			dump(&o, n, diff);
	}
	if (o.failed) {
		free(o.buf);
		return LY_EMEM;
	}
	*buf = o.buf;
	*len = o.len;
	return LY_SUCCESS;
}
