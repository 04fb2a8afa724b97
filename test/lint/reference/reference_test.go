// SPDX-License-Identifier: Apache-2.0

package reference

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

const header = `// SPDX
/* About
 * it. */
#ifndef PCN_X_H
#define PCN_X_H

/* The context. */
#if defined(PCN_TC)
#define CTXTYPE __sk_buff
#else
#define CTXTYPE xdp_md
#endif

/* Adds a
 * and b: bytes. */
PCN_INLINE __u16 pcn_add(struct CTXTYPE *ctx, struct pcn_md *md PCN_NONNULL,
			 const __u32 b[4])
{
#ifdef PCN_TC
	if (b) {
	}
#endif
	return a;
}

/* Two of a kind. */
#define PCN_ONE(a) a
#define PCN_TWO(a, ...) \
	do {            \
	} while (0)

/* Internal: counts. */
#define PCN_COUNT(a) 1

#define PCN_BARE 1

#ifdef PCN_XDP
/* Moves data. */
PCN_NOINLINE void *pcn_move(void)
{
	return 0;
}
#endif

/* Not called by programs. */
PCN_STUB int pcn_core_do(void)
{
	return 0;
}

/* Set by the linker. */
const volatile __u32 pcn_on = 0;

/* A type is none. */
struct pcn_s {
	int a;
};
#endif
`

func TestHeadersAreRead(t *testing.T) {
	got := Parse(map[string][]byte{Headers + "x.h": []byte(header), "bpf/core/y.h": []byte(header), Headers + "README": nil})
	want := []Header{{Name: "x.h", About: "About it.", Helpers: []Helper{
		{"CTXTYPE", "CTXTYPE", "The context.", "", 9},
		{"pcn_add", "__u16 pcn_add(struct CTXTYPE *ctx, struct pcn_md *md, const __u32 b[4])", "Adds a and b: bytes.", "", 16},
		{"PCN_ONE", "PCN_ONE(a)", "Two of a kind.", "", 27},
		{"PCN_TWO", "PCN_TWO(a, ...)", "Two of a kind.", "", 28},
		{"PCN_BARE", "PCN_BARE", "", "", 35},
		{"pcn_move", "void *pcn_move(void)", "Moves data.", "XDP", 39},
		{"pcn_on", "__u32 pcn_on", "Set by the linker.", "", 52},
	}}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("\n got %+v\nwant %+v", got, want)
	}
}

func TestTheReferenceKeepsItsFigures(t *testing.T) {
	headers := Parse(map[string][]byte{Headers + "x.h": []byte(header)})
	costs := Costs{"pcn_add": "2.1 ns at TC, 1.9 ns at XDP", "PCN_TWO": "0.1 ns at TC", "pcn_move": "7.0 ns at XDP"}
	figures := Figures{costs, Costs{"pcn_add": "12 instructions, 0 bytes of stack at TC", "pcn_one": "not there any more"}}
	text := Render(headers, figures)
	delete(figures.Weights, "pcn_one")
	if got := FiguresOf(text); !reflect.DeepEqual(got, figures) {
		t.Errorf("figures are %v, want %v", got, figures)
	}
	for _, part := range []string{
		"### `pcn_add`\n\n```c\n__u16 pcn_add(", "### `PCN_ONE`, `PCN_TWO`\n\n```c\nPCN_ONE(a)\nPCN_TWO(a, ...)\n```\n\nTwo of a kind.\n",
		"Moves data. At XDP only.\n", "## x.h\n\nAbout it.\n",
	} {
		if !strings.Contains(string(text), part) {
			t.Errorf("%q is not in\n%s", part, text)
		}
	}
}

func TestProseIsWrapped(t *testing.T) {
	text := strings.Repeat("word ", 60)
	for _, line := range strings.Split(wrap(text), "\n") {
		if len(line) > columns || strings.TrimSpace(line) != line {
			t.Errorf("line %q", line)
		}
	}
	if got := strings.Join(strings.Fields(wrap(text)), " "); got != strings.TrimSpace(text) {
		t.Errorf("wrapping changed the words: %q", got)
	}
}

func TestTheDocumentIsWritten(t *testing.T) {
	root := t.TempDir()
	if err := Write(root, Figures{}); err == nil || !strings.Contains(err.Error(), "no header") {
		t.Errorf("without headers: %v", err)
	}
	if err := os.MkdirAll(filepath.Join(root, Headers), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, Headers, "x.h"), []byte(header), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, fresh := range []Figures{{Costs: Costs{"pcn_add": "1.0 ns"}}, {Costs: Costs{"pcn_move": "2.0 ns"}}, {Weights: Costs{"pcn_add": "5 instructions"}},
		{Costs: Costs{"pcn_add": "3.0 ns"}}} {
		if err := Write(root, fresh); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(filepath.Join(root, Document))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := FiguresOf(text), (Figures{Costs{"pcn_add": "3.0 ns", "pcn_move": "2.0 ns"}, Costs{"pcn_add": "5 instructions"}}); !reflect.DeepEqual(got, want) {
		t.Errorf("figures are %v, want %v", got, want)
	}
}
