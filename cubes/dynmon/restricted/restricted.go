// SPDX-License-Identifier: Apache-2.0

// Package restricted translates monitors in the C of the first Polycube, in which tables have methods, to the C that clang
// compiles with <pcn/tables.h>.
package restricted

import (
	"fmt"
	"slices"
	"strings"

	"github.com/polycube/polycube/cube"
)

// entryName is the function by which such code is recognized.
const entryName = "handle_rx"

// Translate returns code for clang. Code that has no function handle_rx stays as it is. file is the name of the code in the
// compiler's messages; the numbers of lines stay. others is the code of the other path, whose shared tables it may import. A
// declaration that says no licence gets one.
func Translate(file, code, others string) (string, error) {
	tokens := scan(code)
	text := code
	if slices.ContainsFunc(tokens, func(t token) bool { return t.kind == word && t.text == entryName }) {
		tr := &translator{tables: map[string]bool{}, shared: sharedTables(others)}
		body, err := tr.all(tokens)
		if err != nil {
			return "", fmt.Errorf("%s: %w", file, err)
		}
		text = fmt.Sprintf("#include <pcn/tables.h>\n#line 1 %q\n%s\nPCN_RESTRICTED_MONITOR\n", file, body)
	}
	if !strings.Contains(code, "PCN_LICENSE") && !strings.Contains(code, `SEC("license")`) {
		text += "\nPCN_LICENSE;\n"
	}
	return text, nil
}

// Imports reports whether code imports tables of the other path.
func Imports(code string) bool { return strings.Contains(code, `"extern"`) }

// translator translates the code of one path.
type translator struct {
	// tables are the names declared so far.
	tables map[string]bool
	// shared are declarations of the other path, by name.
	shared map[string]declaration
}

// invalid is an error at a token.
func invalid(t token, format string, args ...any) error {
	return fmt.Errorf("line %d: %s: %w", t.line, fmt.Sprintf(format, args...), cube.ErrInvalid)
}

// all translates tokens, at any depth.
func (tr *translator) all(tokens []token) (string, error) {
	var out strings.Builder
	start, depth := 0, 0 // of the declaration that a token belongs to
	for i := 0; i < len(tokens); i++ {
		t := tokens[i]
		switch {
		case t.kind == directive:
			out.WriteString(include(t.text))
			start = out.Len()
			continue
		case t.text == "{" || t.text == "(":
			depth++
		case t.text == "}" || t.text == ")":
			depth--
		}
		n, text, err := tr.construct(tokens[i:])
		if err != nil {
			return "", err
		}
		if n > 0 {
			out.WriteString(text)
			i += n - 1
			continue
		}
		if t.kind == word && t.text == entryName && depth == 0 && !strings.Contains(out.String()[start:], "static") {
			before := out.String()
			out.Reset()
			lead := len(before[start:]) - len(strings.TrimLeft(before[start:], " \t\r\n"))
			out.WriteString(before[:start+lead] + "static __always_inline " + before[start+lead:])
		}
		out.WriteString(t.text)
		if depth == 0 && (t.text == ";" || t.text == "}") || t.kind == comment {
			start = out.Len()
		}
	}
	return out.String(), nil
}

// include translates the names of headers.
func include(line string) string {
	rest, ok := strings.CutPrefix(strings.TrimLeft(strings.TrimPrefix(line, "#"), " \t"), "include")
	if !strings.HasPrefix(line, "#") || !ok {
		return line
	}
	name := strings.TrimSpace(rest)
	switch {
	case strings.HasPrefix(name, "<uapi/"):
		return strings.Replace(line, "<uapi/", "<", 1)
	case strings.HasPrefix(name, "<bcc/"), strings.HasPrefix(name, "<linux/skbuff.h>"), strings.HasPrefix(name, "<linux/kernel.h>"),
		strings.HasPrefix(name, "<linux/string.h>"):
		return strings.Repeat("\n", strings.Count(line, "\n")) // <pcn/tables.h> has what these are included for
	}
	return line
}

// construct translates what begins with the first token; n is how many tokens it has, 0 if there is nothing to translate.
func (tr *translator) construct(tokens []token) (n int, text string, err error) {
	if tokens[0].kind != word {
		return 0, "", nil
	}
	name := tokens[0].text
	if _, ok := macros[name]; ok {
		args, n, err := arguments(tokens, 1)
		if err != nil || n == 0 {
			return 0, "", err
		}
		d, err := tr.declare(tokens[0], args)
		if err != nil {
			return 0, "", err
		}
		tr.tables[d.name] = true
		return n, d.text() + newlines(tokens[:n]), nil
	}
	if !tr.tables[name] {
		return 0, "", nil
	}
	at := skip(tokens, 1)
	if at >= len(tokens) || tokens[at].text != "." {
		return 0, "", nil
	}
	if at = skip(tokens, at+1); at >= len(tokens) || tokens[at].kind != word {
		return 0, "", nil
	}
	args, n, err := arguments(tokens, at+1)
	if err != nil || n == 0 {
		return 0, "", err
	}
	text, err = tr.call(name, tokens[at], args)
	return n, text + newlines(tokens[:n]), err
}

// newlines are those of tokens that were left out, so that the numbers of lines stay.
func newlines(tokens []token) string {
	n := 0
	for _, t := range tokens {
		if t.kind == blank || t.kind == comment {
			n += strings.Count(t.text, "\n")
		}
	}
	return strings.Repeat("\n", n)
}

// method is what a method of a table becomes: a function with the table and the arguments, of which the optional ones have
// values.
type method struct {
	function string
	needs    int
	defaults []string
}

var methods = map[string]method{
	"lookup":             {"bpf_map_lookup_elem(&%s, ", 1, nil},
	"lookup_or_init":     {"pcn_table_lookup_or_init(&%s, ", 2, nil},
	"lookup_or_try_init": {"pcn_table_lookup_or_init(&%s, ", 2, nil},
	"update":             {"bpf_map_update_elem(&%s, ", 2, []string{"BPF_ANY"}},
	"insert":             {"bpf_map_update_elem(&%s, ", 2, []string{"BPF_NOEXIST"}},
	"delete":             {"bpf_map_delete_elem(&%s, ", 1, nil},
	"push":               {"bpf_map_push_elem(&%s, ", 1, []string{"BPF_ANY"}},
	"pop":                {"bpf_map_pop_elem(&%s, ", 1, nil},
	"peek":               {"bpf_map_peek_elem(&%s, ", 1, nil},
	"increment":          {"pcn_table_increment(%s, ", 1, []string{"1"}},
	"atomic_increment":   {"pcn_table_increment(%s, ", 1, []string{"1"}},
}

// instead says what to do instead of methods that there are not.
var instead = map[string]string{
	"perf_submit":     "push it to a BPF_QUEUE and read it as a metric",
	"perf_submit_skb": "push the relevant data to a BPF_QUEUE and read it as a metric",
	"call":            "a monitor is a single program; call a function instead",
}

func (tr *translator) call(table string, name token, args []argument) (string, error) {
	m, ok := methods[name.text]
	if !ok {
		if hint := instead[name.text]; hint != "" {
			return "", invalid(name, "%s.%s: %s", table, name.text, hint)
		}
		return "", invalid(name, "tables have no method %.40s", name.text)
	}
	if len(args) < m.needs || len(args) > m.needs+len(m.defaults) {
		return "", invalid(name, "%s.%s has %d arguments, but takes %d", table, name.text, len(args), m.needs)
	}
	var parts []string
	for _, a := range args {
		text, err := tr.all(a)
		if err != nil {
			return "", err
		}
		parts = append(parts, strings.ReplaceAll(strings.TrimSpace(text), "\n", " "))
	}
	parts = append(parts, m.defaults[len(args)-m.needs:]...)
	return fmt.Sprintf(m.function, table) + strings.Join(parts, ", ") + ")", nil
}
