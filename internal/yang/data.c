// SPDX-License-Identifier: Apache-2.0
/* Data side of the C interface to libyang: creates, finds, links, validates and prints data nodes.
 * */
#include "libyang.h"

#include <stdlib.h>
#include <string.h>

/* If there is no error to take, fills in a text, so that a failed call is never silent. */
static int result(const struct ly_ctx *ctx, int ret, struct pcn_err *err)
{
	if (ret || ly_err_first(ctx))
		pcn_take_error(ctx, err);
	if (!ret)
		pcn_err_free(err);
	return ret;
}

int pcn_new_list(struct lyd_node *parent, const struct lysc_node *schema, const char *keys,
		 size_t nkeys, int output, struct lyd_node **node, struct pcn_err *err)
{
	const char *k[PCN_MAX_KEYS] = { 0 };

	if (nkeys > PCN_MAX_KEYS || (nkeys == 0 && !(schema->flags & LYS_KEYLESS)))
		return LY_EINVAL;
	for (size_t i = 0; i < nkeys; i++) {
		k[i] = keys;
		keys += strlen(keys) + 1;
	}
	/* libyang reads as many values as the list has keys; the caller checked that this is nkeys
	 * */
	return result(schema->module->ctx,
		      lyd_new_list(parent, schema->module, schema->name, output, node, k[0], k[1],
				   k[2], k[3], k[4], k[5], k[6], k[7]),
		      err);
}

int pcn_new_inner(struct lyd_node *parent, const struct lysc_node *schema, int output,
		  struct lyd_node **node, struct pcn_err *err)
{
	return result(schema->module->ctx,
		      lyd_new_inner(parent, schema->module, schema->name, output, node), err);
}

int pcn_new_term(struct lyd_node *parent, const struct lysc_node *schema, const char *value,
		 int output, struct lyd_node **node, struct pcn_err *err)
{
	return result(schema->module->ctx,
		      lyd_new_term(parent, schema->module, schema->name, value, output, node), err);
}

char *pcn_canonical(const struct lysc_node *schema, const char *value, struct pcn_err *err)
{
	const struct ly_ctx *ctx = schema->module->ctx;
	const char *canonical = NULL;
	char *copy = NULL;
	int ret = lyd_value_validate(ctx, schema, value, strlen(value), NULL, NULL, &canonical);

	if (ret == LY_EINCOMPLETE)
		ret = LY_SUCCESS;
	if (!ret)
		copy = strdup(canonical ? canonical : value);
	if (canonical)
		lydict_remove(ctx, canonical);
	result(ctx, ret, err);
	return copy;
}

static struct lyd_node *siblings(struct lyd_node *root, struct lyd_node *parent)
{
	return parent ? lyd_child(parent) : root;
}

struct lyd_node *pcn_find_schema(struct lyd_node *root, struct lyd_node *parent,
				 const struct lysc_node *schema)
{
	struct lyd_node *match = NULL, *first = siblings(root, parent);

	if (!first || lyd_find_sibling_val(first, schema, NULL, 0, &match))
		return NULL;
	return match;
}

struct lyd_node *pcn_find_same(struct lyd_node *root, struct lyd_node *parent,
			       const struct lyd_node *like)
{
	struct lyd_node *match = NULL, *first = siblings(root, parent);

	if (!first || lyd_find_sibling_first(first, like, &match))
		return NULL;
	return match;
}

struct lyd_node *pcn_child(struct lyd_node *node)
{
	return lyd_child(node);
}

struct lyd_node *pcn_next(struct lyd_node *node)
{
	return node->next;
}

const char *pcn_value(const struct lyd_node *node)
{
	const char *value = lyd_get_value(node);

	return value ? value : "";
}

/* How many instances of the same list precede node; SIZE_MAX when it is the last one. */
size_t pcn_position(const struct lyd_node *node)
{
	size_t n = 0;

	if (!node->next || node->next->schema != node->schema)
		return SIZE_MAX;
	while (node->prev->next && node->prev->schema == node->schema) {
		node = node->prev;
		n++;
	}
	return n;
}

/* Whether a node of a diff was neither created nor deleted, only changed below. */
int pcn_diff_keeps(const struct lyd_node *node)
{
	const struct lyd_meta *op = lyd_find_meta(node->meta, NULL, "yang:operation");

	return op && !strcmp(lyd_get_meta_value(op), "none");
}

void pcn_unlink(struct lyd_node **root, struct lyd_node *node)
{
	if (*root == node)
		*root = node->next;
	lyd_unlink_tree(node);
}

int pcn_insert(struct lyd_node **root, struct lyd_node *parent, struct lyd_node *node,
	       struct pcn_err *err)
{
	const struct ly_ctx *ctx = LYD_CTX(node);
	int ret;

	lyd_unlink_tree(node);
	if (parent)
		return result(ctx, lyd_insert_child(parent, node), err);
	if (!*root) {
		*root = node;
		return LY_SUCCESS;
	}
	ret = lyd_insert_sibling(*root, node, root);
	return result(ctx, ret, err);
}

/*
 * libyang appends an entry after the others of its list. To restore its position, the entries that
 * followed it are unlinked and appended again.
 */
int pcn_insert_at(struct lyd_node **root, struct lyd_node *parent, struct lyd_node *node,
		  size_t position, struct pcn_err *err)
{
	struct lyd_node *at, *next;
	int ret = pcn_insert(root, parent, node, err);

	if (ret || position == SIZE_MAX || !(node->schema->nodetype & (LYS_LIST | LYS_LEAFLIST)))
		return ret;
	at = pcn_find_schema(*root, parent, node->schema);
	while (at && position--)
		at = at->next;
	while (at && at != node && at->schema == node->schema) {
		next = at->next;
		pcn_unlink(root, at);
		ret = pcn_insert(root, parent, at, err);
		if (ret)
			return ret;
		at = next;
	}
	return LY_SUCCESS;
}

/*
 * libyang mistakes a new empty container for one that already has its defaults, so each is
 * evaluated as if it were not new.
 */
static LY_ERR defaults(struct lyd_node *node)
{
	uint32_t is_new = node->flags & LYD_NEW;
	LY_ERR ret;

	node->flags &= ~LYD_NEW;
	ret = lyd_new_implicit_tree(node, LYD_IMPLICIT_NO_STATE, NULL);
	node->flags |= is_new;

	for (struct lyd_node *child = lyd_child(node); child && !ret; child = child->next)
		if (child->schema->nodetype & (LYS_CONTAINER | LYS_LIST))
			ret = defaults(child);
	return ret;
}

int pcn_defaults(struct lyd_node *node, struct pcn_err *err)
{
	return result(LYD_CTX(node), defaults(node), err);
}

int pcn_validate(struct lyd_node **root, const struct lys_module *mod, struct lyd_node **diff,
		 struct pcn_err *err)
{
	int ret;

	*diff = NULL;
	ret = lyd_validate_module(root, mod, LYD_VALIDATE_NO_STATE, diff);
	return result(mod->ctx, ret, err);
}

int pcn_validate_op(struct lyd_node *op, struct lyd_node *tree, int output, struct pcn_err *err)
{
	return result(
		LYD_CTX(op),
		lyd_validate_op(op, tree, output ? LYD_TYPE_REPLY_YANG : LYD_TYPE_RPC_YANG, NULL),
		err);
}

int pcn_undo_diff(struct lyd_node **root, const struct lyd_node *diff, struct pcn_err *err)
{
	const struct ly_ctx *ctx = LYD_CTX(diff);
	struct lyd_node *reverse = NULL;
	int ret = lyd_diff_reverse_all(diff, &reverse);

	if (!ret && reverse)
		ret = lyd_diff_apply_all(root, reverse);
	lyd_free_all(reverse);
	return result(ctx, ret, err);
}

int pcn_clone(const struct lyd_node *root, struct lyd_node **copy, struct pcn_err *err)
{
	return result(LYD_CTX(root),
		      lyd_dup_siblings(root, NULL, LYD_DUP_RECURSIVE | LYD_DUP_WITH_FLAGS, copy),
		      err);
}
