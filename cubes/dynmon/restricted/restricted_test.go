// SPDX-License-Identifier: Apache-2.0

package restricted

import (
	"errors"
	"strings"
	"testing"

	"github.com/polycube/polycube/cube"
)

// translated is the code between what Translate adds.
func translated(t *testing.T, code, others string) string {
	t.Helper()
	out, err := Translate("x.c", code, others)
	if err != nil {
		t.Fatalf("%v in\n%s", err, code)
	}
	out, ok := strings.CutPrefix(out, "#include <pcn/tables.h>\n#line 1 \"x.c\"\n")
	out, ok2 := strings.CutSuffix(out, "\nPCN_RESTRICTED_MONITOR\n\nPCN_LICENSE;\n")
	if !ok || !ok2 {
		t.Fatalf("the translation is\n%s", out)
	}
	return out
}

const entry = "static int handle_rx(struct CTXTYPE *ctx, struct pkt_metadata *md) { return RX_OK; }"

func TestTablesAndMethodsAreTranslated(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ code, want string }{
		{`BPF_TABLE("hash", struct key, u64, flows, 1024);`, `PCN_MAP_FLAGS(flows, BPF_MAP_TYPE_HASH, struct key, u64, 1024, 0);`},
		{`BPF_F_TABLE("lpm_trie", struct k, u64, t, 8, 1);`, `PCN_MAP_FLAGS(t, BPF_MAP_TYPE_LPM_TRIE, struct k, u64, 8, 1);`},
		{`BPF_LPM_TRIE(t, struct k);`, `PCN_MAP_FLAGS(t, BPF_MAP_TYPE_LPM_TRIE, struct k, u64, 10240, BPF_F_NO_PREALLOC);`},
		{`BPF_TABLE_SHARED("percpu_array", int, u64, n, 1);`, `PCN_BOTH_PATHS PCN_MAP_FLAGS(n, BPF_MAP_TYPE_PERCPU_ARRAY, int, u64, 1, 0);`},
		{`BPF_ARRAY(a, u32, 3);`, `PCN_MAP_FLAGS(a, BPF_MAP_TYPE_ARRAY, u32, u32, 3, 0);`},
		{`BPF_HASH(h);`, `PCN_MAP_FLAGS(h, BPF_MAP_TYPE_HASH, u64, u64, 10240, 0);`},
		{`BPF_QUEUE(q, struct e, 16);`, `PCN_QUEUE(q, BPF_MAP_TYPE_QUEUE, struct e, 16);`},
		{`BPF_QUEUESTACK_SHARED("stack", s, struct e, 16);`, `PCN_BOTH_PATHS PCN_QUEUE(s, BPF_MAP_TYPE_STACK, struct e, 16);`},
		{"BPF_TABLE(\"hash\", // why\n struct key,\n u64, flows, 1024);", "PCN_MAP_FLAGS(flows, BPF_MAP_TYPE_HASH, struct key, u64, 1024, 0)\n\n;"},
		{`BPF_HASH(h); x = h.lookup(&k);`, `x = bpf_map_lookup_elem(&h, &k);`},
		{`BPF_HASH(h); h . update ( &k , &v );`, `bpf_map_update_elem(&h, &k, &v, BPF_ANY);`},
		{`BPF_HASH(h); h.insert(&k, &v);`, `bpf_map_update_elem(&h, &k, &v, BPF_NOEXIST);`},
		{`BPF_HASH(h); h.delete(&k);`, `bpf_map_delete_elem(&h, &k);`},
		{`BPF_HASH(h); h.lookup_or_init(&k, f(1, h.lookup(&j)));`, `pcn_table_lookup_or_init(&h, &k, f(1, bpf_map_lookup_elem(&h, &j)));`},
		{`BPF_HASH(h); h.increment(k);`, `pcn_table_increment(h, k, 1);`},
		{`BPF_HASH(h); h.increment(k, 5);`, `pcn_table_increment(h, k, 5);`},
		{`BPF_QUEUE(q, u32, 4); q.push(&v); q.pop(&v); q.peek(&v);`, `bpf_map_push_elem(&q, &v, BPF_ANY); bpf_map_pop_elem(&q, &v); bpf_map_peek_elem(&q, &v);`},
		{`s.lookup(&k); "h.lookup(&k)"; 'h'; /* BPF_HASH(h) */ // h.lookup(&k)`, `s.lookup(&k); "h.lookup(&k)"; 'h'; /* BPF_HASH(h) */ // h.lookup(&k)`},
		{"#define X \\\n BPF_HASH(h)", "#define X \\\n BPF_HASH(h)"},
		{"#include <uapi/linux/ip.h>", "#include <linux/ip.h>"},
		{"int i;\n#include <bcc/proto.h>\nint j;", "int i;\n\nint j;"},
		{"int i;\n#include <linux/string.h>\nint j;", "int i;\n\nint j;"},
	} {
		got := translated(t, tt.code+"\n"+entry, "")
		if !strings.Contains(got, tt.want) {
			t.Errorf("%s became\n%s, want in it\n%s", tt.code, got, tt.want)
		}
		if strings.Count(got, "\n") != strings.Count(tt.code+"\n"+entry, "\n") {
			t.Errorf("%s has other lines:\n%s", tt.code, got)
		}
	}
}

func TestTheEntryIsMadePartOfTheProgram(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]string{
		"int handle_rx(void) {}":                           "static __always_inline int handle_rx(void) {}",
		"struct s { int i; };\nint\nhandle_rx(void) {}":    "struct s { int i; };\nstatic __always_inline int\nhandle_rx(void) {}",
		"static int x;\n#define Y\nint handle_rx(void) {}": "static int x;\n#define Y\nstatic __always_inline int handle_rx(void) {}",
		"// static\nint handle_rx(void) {}":                "// static\nstatic __always_inline int handle_rx(void) {}",
		"static __always_inline int handle_rx(void) {}":    "static __always_inline int handle_rx(void) {}",
	} {
		if got := translated(t, code, ""); got != want {
			t.Errorf("%s became\n%s, want\n%s", code, got, want)
		}
	}
	code := "PCN_MONITOR { h.lookup(&k); }"
	if got, err := Translate("x.c", code, ""); err != nil || got != code+"\nPCN_LICENSE;\n" {
		t.Errorf("other code became %s, %v", got, err)
	}
	if got, err := Translate("x.c", code+"PCN_LICENSE;", ""); err != nil || got != code+"PCN_LICENSE;" {
		t.Errorf("code with a licence became %s, %v", got, err)
	}
}

func TestTablesOfTheOtherPathAreImported(t *testing.T) {
	t.Parallel()
	others := `BPF_TABLE_SHARED("hash", struct key, u64, flows, 1024);`
	code := `BPF_TABLE("extern", struct key, u64, flows, 0); x = flows.lookup(&k);` + entry
	if got := translated(t, code, others); !strings.Contains(got, "PCN_BOTH_PATHS PCN_MAP_FLAGS(flows, BPF_MAP_TYPE_HASH, struct key, u64, 1024, 0); x = bpf_map_lookup_elem(&flows, &k);") {
		t.Errorf("got %s", got)
	}
	if !Imports(code) || Imports(others) {
		t.Error("what imports is not recognized")
	}
	if _, err := Translate("x.c", code, ""); err == nil || !strings.Contains(err.Error(), "x.c: line 1: the other path declares no shared table named flows") {
		t.Errorf("got %v", err)
	}
}

func TestWhatIsNoRestrictedCodeIsRefused(t *testing.T) {
	t.Parallel()
	for code, says := range map[string]string{
		`BPF_TABLE("hash", u32, u64);`:                  "line 2: BPF_TABLE has 3 arguments, but takes (kind, key, leaf, name, size)",
		`BPF_HASH(a, b, c, d, e);`:                      "BPF_HASH has 5 arguments",
		`BPF_TABLE("devmap", u32, u64, n, 1);`:          `unsupported table type "devmap"`,
		`BPF_TABLE_PUBLIC("hash", u32, u64, n, 1);`:     "BPF_TABLE_SHARED to share with the other path",
		`BPF_PROG_ARRAY(p, 4);`:                         "a monitor is a single program",
		`BPF_PERF_OUTPUT(events);`:                      "push to a BPF_QUEUE",
		`BPF_HASH(1x);`:                                 "not a valid table name",
		`BPF_HASH(h); h.lookup();`:                      "h.lookup has 0 arguments, but takes 1",
		`BPF_HASH(h); h.perf_submit(ctx, &e, 8);`:       "push it to a BPF_QUEUE",
		`BPF_HASH(h); h.call(ctx, 1);`:                  "call a function",
		`BPF_HASH(h); h.frobnicate();`:                  "tables have no method frobnicate",
		`BPF_HASH(h); h.update(&k, &v, 1, 2);`:          "has 4 arguments, but takes 2",
		`BPF_HASH(h); h.lookup(&k`:                      "has no closing bracket",
		`BPF_HASH(h, u32`:                               "BPF_HASH has no closing bracket",
		`BPF_HASH(h); h.lookup(h.lookup(h.nothing()));`: "tables have no method nothing",
	} {
		_, err := Translate("x.c", entry+"\n"+code, "")
		if !errors.Is(err, cube.ErrInvalid) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", code, err, says)
		}
	}
}

// FuzzRewrite: whatever the code is, its translation ends, keeps the lines, and leaves code alone that is not of this kind.
func FuzzRewrite(f *testing.F) {
	for _, seed := range []string{"", entry, `BPF_HASH(h); h.lookup(&k);` + entry, "/*", "\"", "#", "BPF_HASH(", "BPF_TABLE(\"hash\",,,,)", "handle_rx h.x", "#if\\\n"} {
		f.Add(seed, "")
	}
	f.Fuzz(func(t *testing.T, code, others string) {
		var all strings.Builder
		for _, token := range scan(code) {
			all.WriteString(token.text)
		}
		if all.String() != code {
			t.Errorf("tokens are %q, want %q", all.String(), code)
		}
		out, err := Translate("x.c", code, others)
		if err != nil {
			if !errors.Is(err, cube.ErrInvalid) {
				t.Errorf("%v is no refusal", err)
			}
			return
		}
		if !strings.Contains(code, entryName) && !strings.HasPrefix(out, code) {
			t.Errorf("%q became %q", code, out)
		}
		if strings.Contains(out, "PCN_RESTRICTED_MONITOR\n") && strings.HasPrefix(out, "#include <pcn/tables.h>") {
			body := strings.TrimSuffix(strings.SplitN(out, "\n", 3)[2], "\nPCN_RESTRICTED_MONITOR\n")
			body, _, _ = strings.Cut(body, "\nPCN_RESTRICTED_MONITOR\n")
			if strings.Count(body, "\n") != strings.Count(code, "\n") && !strings.Contains(code, "PCN_RESTRICTED") {
				t.Errorf("%q has other lines: %q", code, body)
			}
		}
	})
}
