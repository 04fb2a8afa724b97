// SPDX-License-Identifier: Apache-2.0
/* Context and schema side of the C interface to libyang: loads a service and walks its compiled
 * schema. */
#include "libyang.h"
#include <libyang/plugins_types.h>

#include <stdlib.h>
#include <string.h>

void pcn_init(void)
{
	ly_log_level(LY_LLERR);
	ly_log_options(LY_LOSTORE);
}

static char *copy(const char *s)
{
	return s ? strdup(s) : NULL;
}

/* Moves the first error of this thread into err: later ones are consequences. */
void pcn_take_error(const struct ly_ctx *ctx, struct pcn_err *err)
{
	const struct ly_err_item *item = ly_err_first(ctx);

	while (item && item->level != LY_LLERR)
		item = item->next;
	if (item) {
		err->msg = copy(item->msg);
#if LY_VERSION_MAJOR >= 3
		err->path = copy(item->data_path ? item->data_path : item->schema_path);
#else
		err->path = copy(item->path);
#endif
		err->apptag = copy(item->apptag);
	}
	ly_err_clean((struct ly_ctx *)ctx, NULL);
}

void pcn_err_free(struct pcn_err *err)
{
	free(err->msg);
	free(err->path);
	free(err->apptag);
	memset(err, 0, sizeof *err);
}

static LY_ERR import(const char *name, const char *rev, const char *submod, const char *subrev,
		     void *arg, LYS_INFORMAT *format, const char **text,
		     ly_module_imp_data_free_clb *release)
{
	const struct pcn_sources *sources = arg;

	(void)rev;
	(void)subrev;
	if (!sources || submod)
		return LY_ENOTFOUND;
	for (size_t i = 0; i < sources->count; i++) {
		if (strcmp(sources->list[i].name, name))
			continue;
		*format = LYS_IN_YANG;
		*text = sources->list[i].text;
		*release = NULL;
		return LY_SUCCESS;
	}
	return LY_ENOTFOUND;
}

int pcn_load(const struct pcn_sources *imports, const char *text, struct ly_ctx **ctx,
	     const struct lys_module **mod, struct pcn_err *err)
{
	const uint16_t options = LY_CTX_NO_YANGLIBRARY | LY_CTX_DISABLE_SEARCHDIRS |
				 LY_CTX_DISABLE_SEARCHDIR_CWD | LY_CTX_SET_PRIV_PARSED;
	struct lys_module *module = NULL;
	int ret;

	*ctx = NULL;
	ret = ly_ctx_new(NULL, options, ctx);
	if (ret || !*ctx)
		return ret ? ret : LY_EMEM;
	ly_ctx_set_module_imp_clb(*ctx, import, (void *)imports);
	ret = lys_parse_mem(*ctx, text, LYS_IN_YANG, &module);
	if (!ret && (!module || !module->compiled || !module->parsed))
		ret = LY_EINT;
	/* the caller owns the sources and frees them */
	ly_ctx_set_module_imp_clb(*ctx, NULL, NULL);
	pcn_take_error(*ctx, err);
	if (ret) {
		ly_ctx_destroy(*ctx);
		*ctx = NULL;
		return ret;
	}
	*mod = module;
	return LY_SUCCESS;
}

const char *pcn_uses(const struct lys_module *mod, size_t index)
{
	for (const struct lysp_node *n = mod->parsed->data; n; n = n->next)
		if (n->nodetype == LYS_USES && !index--)
			return n->name;
	return NULL;
}

const struct lysc_node *pcn_module_data(const struct lys_module *mod)
{
	return mod->compiled->data;
}

const struct lysc_node *pcn_module_rpcs(const struct lys_module *mod)
{
	return mod->compiled->rpcs ? &mod->compiled->rpcs->node : NULL;
}

static const char *ext(const struct lysc_ext_instance *list, size_t index, const char **name,
		       const char **owner)
{
	if (index >= LY_ARRAY_COUNT(list) || !list[index].def)
		return NULL;
	*name = list[index].def->name;
	*owner = list[index].def->module->name;
	return list[index].argument ? list[index].argument : "";
}

const char *pcn_module_ext(const struct lys_module *mod, size_t index, const char **name,
			   const char **owner)
{
	return ext(mod->compiled->exts, index, name, owner);
}

const char *pcn_node_ext(const struct lysc_node *node, size_t index, const char **name,
			 const char **owner)
{
	return ext(node->exts, index, name, owner);
}

/* The XPath of a when or must of a node, NULL after the last. */
const char *pcn_condition(const struct lysc_node *node, size_t index)
{
	struct lysc_when **whens = lysc_node_when(node);
	struct lysc_must *musts = lysc_node_musts(node);

	if (index < LY_ARRAY_COUNT(whens))
		return lyxp_get_expr(whens[index]->cond);
	index -= LY_ARRAY_COUNT(whens);
	return index < LY_ARRAY_COUNT(musts) ? lyxp_get_expr(musts[index].cond) : NULL;
}

static void schema_leaf(const struct lysc_node *node, struct pcn_snode *out)
{
	const struct lysp_node *parsed = node->priv;

	if (node->nodetype == LYS_LEAF) {
		const struct lysc_node_leaf *leaf = (const void *)node;

		out->type = leaf->type;
		out->units = leaf->units;
		if (leaf->dflt)
			out->dflt = lyd_value_get_canonical(node->module->ctx, leaf->dflt);
		if (parsed && parsed->nodetype == LYS_LEAF)
			out->type_name = ((const struct lysp_node_leaf *)parsed)->type.name;
		return;
	}
	const struct lysc_node_leaflist *list = (const void *)node;

	out->type = list->type;
	out->units = list->units;
	out->min = list->min;
	out->max = list->max;
	if (parsed && parsed->nodetype == LYS_LEAFLIST)
		out->type_name = ((const struct lysp_node_leaflist *)parsed)->type.name;
}

void pcn_schema(const struct lysc_node *node, struct pcn_snode *out)
{
	memset(out, 0, sizeof *out);
	out->name = node->name;
	out->dsc = node->dsc;
	out->nodetype = node->nodetype;
	out->flags = node->flags;
	out->next = node->next;
	out->has_when = lysc_has_when(node) != NULL;
	out->has_must = LY_ARRAY_COUNT(lysc_node_musts(node)) > 0;
	if (node->nodetype & (LYS_LEAF | LYS_LEAFLIST)) {
		schema_leaf(node, out);
		return;
	}
	if (node->nodetype == LYS_LIST) {
		out->min = ((const struct lysc_node_list *)node)->min;
		out->max = ((const struct lysc_node_list *)node)->max;
		out->has_unique =
			LY_ARRAY_COUNT(((const struct lysc_node_list *)node)->uniques) > 0;
	}
	if (node->nodetype & (LYS_RPC | LYS_ACTION)) {
		const struct lysc_node_action *action = (const void *)node;

		out->input = (const void *)&action->input;
		out->output = (const void *)&action->output;
		return;
	}
	out->child = lysc_node_child(node);
	out->actions = (const void *)lysc_node_actions(node);
}

void pcn_type(const struct lysc_type *type, struct pcn_stype *out)
{
	memset(out, 0, sizeof *out);
	out->base = type->basetype;
	switch (type->basetype) {
	case LY_TYPE_UINT8:
	case LY_TYPE_UINT16:
	case LY_TYPE_UINT32:
	case LY_TYPE_UINT64:
		out->is_unsigned = 1;
		/* fall through */
	case LY_TYPE_INT8:
	case LY_TYPE_INT16:
	case LY_TYPE_INT32:
	case LY_TYPE_INT64: {
		const struct lysc_range *range = ((const struct lysc_type_num *)type)->range;

		out->ranges = range ? LY_ARRAY_COUNT(range->parts) : 0;
		break;
	}
	case LY_TYPE_DEC64: {
		const struct lysc_type_dec *dec = (const void *)type;

		out->fraction_digits = dec->fraction_digits;
		out->ranges = dec->range ? LY_ARRAY_COUNT(dec->range->parts) : 0;
		break;
	}
	case LY_TYPE_STRING: {
		const struct lysc_type_str *str = (const void *)type;

		out->is_unsigned = 1;
		out->ranges = str->length ? LY_ARRAY_COUNT(str->length->parts) : 0;
		out->patterns = LY_ARRAY_COUNT(str->patterns);
		break;
	}
	case LY_TYPE_BINARY: {
		const struct lysc_type_bin *bin = (const void *)type;

		out->is_unsigned = 1;
		out->ranges = bin->length ? LY_ARRAY_COUNT(bin->length->parts) : 0;
		break;
	}
	case LY_TYPE_ENUM:
		out->names = LY_ARRAY_COUNT(((const struct lysc_type_enum *)type)->enums);
		break;
	case LY_TYPE_BITS:
		out->names = LY_ARRAY_COUNT(((const struct lysc_type_bits *)type)->bits);
		break;
	case LY_TYPE_LEAFREF:
		out->path = lyxp_get_expr(((const struct lysc_type_leafref *)type)->path);
		out->real = ((const struct lysc_type_leafref *)type)->realtype;
		break;
	case LY_TYPE_UNION:
		out->members = LY_ARRAY_COUNT(((const struct lysc_type_union *)type)->types);
		break;
	default:
		break;
	}
}

void pcn_type_range(const struct lysc_type *type, size_t index, int64_t *min, int64_t *max)
{
	const struct lysc_range *range;

	switch (type->basetype) {
	case LY_TYPE_DEC64:
		range = ((const struct lysc_type_dec *)type)->range;
		break;
	case LY_TYPE_STRING:
		range = ((const struct lysc_type_str *)type)->length;
		break;
	case LY_TYPE_BINARY:
		range = ((const struct lysc_type_bin *)type)->length;
		break;
	default:
		range = ((const struct lysc_type_num *)type)->range;
		break;
	}
	*min = range->parts[index].min_64;
	*max = range->parts[index].max_64;
}

const char *pcn_type_pattern(const struct lysc_type *type, size_t index, int *inverted)
{
	const struct lysc_pattern *pattern = ((const struct lysc_type_str *)type)->patterns[index];

	*inverted = pattern->inverted;
	return pattern->expr;
}

const char *pcn_type_name(const struct lysc_type *type, size_t index)
{
	if (type->basetype == LY_TYPE_ENUM)
		return ((const struct lysc_type_enum *)type)->enums[index].name;
	return ((const struct lysc_type_bits *)type)->bits[index].name;
}

const char *pcn_type_name_text(const struct lysc_type *type, size_t index)
{
	if (type->basetype == LY_TYPE_ENUM)
		return ((const struct lysc_type_enum *)type)->enums[index].dsc;
	return ((const struct lysc_type_bits *)type)->bits[index].dsc;
}

const struct lysc_type *pcn_type_member(const struct lysc_type *type, size_t index)
{
	return ((const struct lysc_type_union *)type)->types[index];
}

/* Identities derived from ident, depth first; stops when *index reaches 0. */
static const struct lysc_ident *derived(const struct lysc_ident *ident, size_t *index, int depth)
{
	LY_ARRAY_COUNT_TYPE i;

	if (depth > 32)
		return NULL;
	LY_ARRAY_FOR(ident->derived, i)
	{
		if (!(*index)--)
			return ident->derived[i];
		const struct lysc_ident *below = derived(ident->derived[i], index, depth + 1);

		if (below)
			return below;
	}
	return NULL;
}

/* libyang 2.1 accepts an identity that is derived from one of several bases; RFC 7950, 9.10.2,
 * requires all. */
static int of_all(struct lysc_ident **bases, const struct lysc_ident *ident)
{
	LY_ARRAY_COUNT_TYPE i;

	LY_ARRAY_FOR(bases, i)
	{
		if (lyplg_type_identity_isderived(bases[i], ident))
			return 0;
	}
	return 1;
}

const char *pcn_identity(const struct lysc_type *type, size_t index, const char **module)
{
	struct lysc_ident **bases = ((const struct lysc_type_identityref *)type)->bases;

	if (type->basetype != LY_TYPE_IDENT || !LY_ARRAY_COUNT(bases))
		return NULL;
	for (size_t i = 0;; i++) {
		size_t left = i;
		const struct lysc_ident *found = derived(bases[0], &left, 0);

		if (!found)
			return NULL;
		if (of_all(bases, found) && !index--) {
			*module = found->module->name;
			return found->name;
		}
	}
}
