// SPDX-License-Identifier: Apache-2.0
/*
 * The calls through which Go uses libyang. They exist because libyang keeps its errors per thread
 * (they must be fetched in the call that caused them), uses variadic functions and macros, and has
 * unions that cgo cannot express.
 */
#ifndef PCN_LIBYANG_H
#define PCN_LIBYANG_H

#include <libyang/libyang.h>
#include <stddef.h>
#include <stdint.h>

#define PCN_MAX_KEYS 8

/* libyang's report of a failed call. Members are owned by the caller. */
struct pcn_err {
	char *msg;
	char *path;
	char *apptag;
};

/* A module that a service may import. */
struct pcn_source {
	char *name;
	char *text;
};

/* The set of modules that a service may import. */
struct pcn_sources {
	struct pcn_source *list;
	size_t count;
};

/* A schema node without the unions. Strings are owned by the context. */
struct pcn_snode {
	const char *name, *dsc, *units, *type_name, *dflt;
	uint16_t nodetype, flags;
	uint32_t min, max;
	int has_when, has_must, has_unique;
	const struct lysc_type *type;
	const struct lysc_node *child, *next, *actions, *input, *output;
};

/* A schema type without the casts. */
struct pcn_stype {
	uint32_t base, fraction_digits;
	size_t ranges, patterns, names, members;
	int is_unsigned;
	const char *path;
	const struct lysc_type *real;
};

void pcn_init(void);
void pcn_err_free(struct pcn_err *err);
void pcn_take_error(const struct ly_ctx *ctx, struct pcn_err *err);
int pcn_load(const struct pcn_sources *imports, const char *text, struct ly_ctx **ctx,
	     const struct lys_module **mod, struct pcn_err *err);
const char *pcn_uses(const struct lys_module *mod, size_t index);
const struct lysc_node *pcn_module_data(const struct lys_module *mod);
const struct lysc_node *pcn_module_rpcs(const struct lys_module *mod);
const char *pcn_module_ext(const struct lys_module *mod, size_t index, const char **name,
			   const char **owner);

void pcn_schema(const struct lysc_node *node, struct pcn_snode *out);
const char *pcn_condition(const struct lysc_node *node, size_t index);
const char *pcn_node_ext(const struct lysc_node *node, size_t index, const char **name,
			 const char **owner);
void pcn_type(const struct lysc_type *type, struct pcn_stype *out);
void pcn_type_range(const struct lysc_type *type, size_t index, int64_t *min, int64_t *max);
const char *pcn_type_pattern(const struct lysc_type *type, size_t index, int *inverted);
const char *pcn_type_name(const struct lysc_type *type, size_t index);
/* The description of the same, NULL if the model has none. */
const char *pcn_type_name_text(const struct lysc_type *type, size_t index);
const struct lysc_type *pcn_type_member(const struct lysc_type *type, size_t index);
const char *pcn_identity(const struct lysc_type *type, size_t index, const char **module);

int pcn_new_list(struct lyd_node *parent, const struct lysc_node *schema, const char *keys,
		 size_t nkeys, int output, struct lyd_node **node, struct pcn_err *err);
int pcn_new_inner(struct lyd_node *parent, const struct lysc_node *schema, int output,
		  struct lyd_node **node, struct pcn_err *err);
int pcn_new_term(struct lyd_node *parent, const struct lysc_node *schema, const char *value,
		 int output, struct lyd_node **node, struct pcn_err *err);
char *pcn_canonical(const struct lysc_node *schema, const char *value, struct pcn_err *err);

struct lyd_node *pcn_find_schema(struct lyd_node *root, struct lyd_node *parent,
				 const struct lysc_node *schema);
struct lyd_node *pcn_find_same(struct lyd_node *root, struct lyd_node *parent,
			       const struct lyd_node *like);
struct lyd_node *pcn_child(struct lyd_node *node);
struct lyd_node *pcn_next(struct lyd_node *node);
const char *pcn_value(const struct lyd_node *node);
int pcn_diff_keeps(const struct lyd_node *node);
size_t pcn_position(const struct lyd_node *node);

int pcn_insert(struct lyd_node **root, struct lyd_node *parent, struct lyd_node *node,
	       struct pcn_err *err);
int pcn_insert_at(struct lyd_node **root, struct lyd_node *parent, struct lyd_node *node,
		  size_t position, struct pcn_err *err);
void pcn_unlink(struct lyd_node **root, struct lyd_node *node);
int pcn_defaults(struct lyd_node *node, struct pcn_err *err);
int pcn_validate(struct lyd_node **root, const struct lys_module *mod, struct lyd_node **diff,
		 struct pcn_err *err);
int pcn_validate_op(struct lyd_node *op, struct lyd_node *tree, int output, struct pcn_err *err);
int pcn_undo_diff(struct lyd_node **root, const struct lyd_node *diff, struct pcn_err *err);
int pcn_clone(const struct lyd_node *root, struct lyd_node **copy, struct pcn_err *err);

/*
 * Serialises nodes for Go, in one call: the one given, it and its later siblings, or it and the later entries of the
 * same list. A record is: kind 'i' (inner) or 't'
 * (term), schema pointer (8 bytes), flag byte (1: default), diff operation byte (0 when none), then for 't': base type
 * byte, length (4 bytes) and the value, and for a diff the same for the original value; for 'i': its children and 'e'.
 */
enum { PCN_ONE, PCN_SIBLINGS, PCN_INSTANCES };
int pcn_dump(const struct lyd_node *node, int scope, int diff, char **buf, size_t *len);

#endif
