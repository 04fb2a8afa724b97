// SPDX-License-Identifier: Apache-2.0

package restricted

// Declarations of tables.

import (
	"fmt"
	"strings"
)

// argument is an argument of a macro or a method.
type argument []token

// String is the argument without comments, on one line.
func (a argument) String() string {
	var b strings.Builder
	for _, t := range a {
		switch t.kind {
		case comment, blank:
			b.WriteByte(' ')
		default:
			b.WriteString(t.text)
		}
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

// arguments returns those in the brackets that begin at a token, after blanks. n is the number of tokens up to the closing
// bracket, 0 if there are no brackets.
func arguments(tokens []token, from int) (args []argument, n int, err error) {
	at := skip(tokens, from)
	if at >= len(tokens) || tokens[at].text != "(" {
		return nil, 0, nil
	}
	depth, start := 0, at+1
	for i := at; i < len(tokens); i++ {
		switch tokens[i].text {
		case "(", "{", "[":
			depth++
		case ")", "}", "]":
			if depth--; depth > 0 {
				continue
			}
			if last := argument(tokens[start:i]); len(args) > 0 || last.String() != "" {
				args = append(args, last)
			}
			return args, i + 1, nil
		case ",":
			if depth == 1 {
				args = append(args, argument(tokens[start:i]))
				start = i + 1
			}
		}
	}
	return nil, 0, invalid(tokens[from-1], "%s has no closing bracket", tokens[from-1].text)
}

// skip returns the index of the next token that is neither blank nor a comment.
func skip(tokens []token, at int) int {
	for at < len(tokens) && (tokens[at].kind == blank || tokens[at].kind == comment) {
		at++
	}
	return at
}

// declaration is a table.
type declaration struct {
	name, kind, key, leaf, size, flags string
	shared                             bool
}

// text is the declaration for clang. A queue has no key, and is declared without.
func (d declaration) text() string {
	prefix := ""
	if d.shared {
		prefix = "PCN_BOTH_PATHS "
	}
	if d.kind == "QUEUE" || d.kind == "STACK" {
		return fmt.Sprintf("%sPCN_QUEUE(%s, BPF_MAP_TYPE_%s, %s, %s)", prefix, d.name, d.kind, d.leaf, d.size)
	}
	flags := d.flags
	if d.kind == "LPM_TRIE" && flags == "0" {
		flags = "BPF_F_NO_PREALLOC"
	}
	return fmt.Sprintf("%sPCN_MAP_FLAGS(%s, BPF_MAP_TYPE_%s, %s, %s, %s, %s)", prefix, d.name, d.kind, d.key, d.leaf, d.size, flags)
}

// kinds are the types of BPF_TABLE.
var kinds = map[string]string{
	"hash": "HASH", "array": "ARRAY", "percpu_hash": "PERCPU_HASH", "percpu_array": "PERCPU_ARRAY", "lru_hash": "LRU_HASH",
	"lru_percpu_hash": "LRU_PERCPU_HASH", "lpm_trie": "LPM_TRIE", "histogram": "HASH", "hist_array": "ARRAY", "queue": "QUEUE", "stack": "STACK",
}

// macro is a macro that declares a table: its arguments in order, by name. Those with a value are optional. kind is empty if
// the first argument says it.
type macro struct {
	kind string
	args []string
	// defaults are those of the last arguments.
	defaults map[string]string
	shared   bool
	refused  string
}

var (
	tableArgs  = []string{"kind", "key", "leaf", "name", "size"}
	queueArgs  = []string{"name", "leaf", "size", "flags"}
	noFlags    = map[string]string{"flags": "0"}
	noPublic   = "a monitor cannot share tables with other cubes; use BPF_TABLE_SHARED to share with the other path"
	noPrograms = "a monitor is a single program; call a function instead"
)

var macros = map[string]macro{
	"BPF_TABLE":             {args: tableArgs},
	"BPF_F_TABLE":           {args: append(tableArgs[:5:5], "flags")},
	"BPF_TABLE_SHARED":      {args: tableArgs, shared: true},
	"BPF_F_TABLE_SHARED":    {args: append(tableArgs[:5:5], "flags"), shared: true},
	"BPF_TABLE_PUBLIC":      {refused: noPublic},
	"BPF_F_TABLE_PUBLIC":    {refused: noPublic},
	"BPF_TABLE_PINNED":      {refused: noPublic},
	"BPF_PROG_ARRAY":        {refused: noPrograms},
	"BPF_PERF_OUTPUT":       {refused: "push to a BPF_QUEUE and read it as a metric"},
	"BPF_ARRAY":             {kind: "ARRAY", args: []string{"name", "leaf", "size"}, defaults: map[string]string{"leaf": "u64", "size": "10240"}},
	"BPF_PERCPU_ARRAY":      {kind: "PERCPU_ARRAY", args: []string{"name", "leaf", "size"}, defaults: map[string]string{"leaf": "u64", "size": "10240"}},
	"BPF_HASH":              {kind: "HASH", args: []string{"name", "key", "leaf", "size"}, defaults: map[string]string{"key": "u64", "leaf": "u64", "size": "10240"}},
	"BPF_PERCPU_HASH":       {kind: "PERCPU_HASH", args: []string{"name", "key", "leaf", "size"}, defaults: map[string]string{"key": "u64", "leaf": "u64", "size": "10240"}},
	"BPF_LRU_HASH":          {kind: "LRU_HASH", args: []string{"name", "key", "leaf", "size"}, defaults: map[string]string{"key": "u64", "leaf": "u64", "size": "10240"}},
	"BPF_HISTOGRAM":         {kind: "ARRAY", args: []string{"name", "key", "size"}, defaults: map[string]string{"key": "int", "size": "64"}},
	"BPF_LPM_TRIE":          {kind: "LPM_TRIE", args: []string{"name", "key", "leaf", "size"}, defaults: map[string]string{"leaf": "u64", "size": "10240"}},
	"BPF_QUEUE":             {kind: "QUEUE", args: queueArgs, defaults: noFlags},
	"BPF_STACK":             {kind: "STACK", args: queueArgs, defaults: noFlags},
	"BPF_QUEUE_SHARED":      {kind: "QUEUE", args: queueArgs, defaults: noFlags, shared: true},
	"BPF_STACK_SHARED":      {kind: "STACK", args: queueArgs, defaults: noFlags, shared: true},
	"BPF_QUEUESTACK":        {args: append([]string{"kind"}, queueArgs...), defaults: noFlags},
	"BPF_QUEUESTACK_SHARED": {args: append([]string{"kind"}, queueArgs...), defaults: noFlags, shared: true},
}

// declare translates a declaration.
func (tr *translator) declare(name token, args []argument) (declaration, error) {
	m := macros[name.text]
	if m.refused != "" {
		return declaration{}, invalid(name, "%s: %s", name.text, m.refused)
	}
	given := map[string]string{"key": "u32", "flags": "0", "leaf": "u64", "kind": `"` + m.kind + `"`}
	for i, what := range m.args {
		value, optional := m.defaults[what]
		switch {
		case i < len(args) && args[i].String() != "":
			given[what] = args[i].String()
		case optional:
			given[what] = value
		default:
			return declaration{}, invalid(name, "%s has %d arguments, but takes (%s)", name.text, len(args), strings.Join(m.args, ", "))
		}
	}
	if len(args) > len(m.args) {
		return declaration{}, invalid(name, "%s has %d arguments, but takes (%s)", name.text, len(args), strings.Join(m.args, ", "))
	}
	d := declaration{name: given["name"], key: given["key"], leaf: given["leaf"], size: given["size"], flags: given["flags"], shared: m.shared, kind: m.kind}
	if !isName(d.name) {
		return declaration{}, invalid(name, "%.40q is not a valid table name", d.name)
	}
	if m.kind != "" {
		return d, nil
	}
	kind := strings.Trim(given["kind"], `"`)
	if kind == "extern" {
		if is, ok := tr.shared[d.name]; ok {
			return is, nil
		}
		return declaration{}, invalid(name, "the other path declares no shared table named %s", d.name)
	}
	if d.kind = kinds[kind]; d.kind == "" {
		return declaration{}, invalid(name, "unsupported table type %.40q", kind)
	}
	return d, nil
}

// sharedTables finds the shared tables of a path.
func sharedTables(code string) map[string]declaration {
	out := map[string]declaration{}
	tr := &translator{}
	tokens := scan(code)
	for i, t := range tokens {
		if t.kind != word || !macros[t.text].shared {
			continue
		}
		args, n, err := arguments(tokens[i:], 1)
		if err != nil || n == 0 {
			continue // its own translation says so
		}
		if d, err := tr.declare(t, args); err == nil {
			out[d.name] = d
		}
	}
	return out
}
