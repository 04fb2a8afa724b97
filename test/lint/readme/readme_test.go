// SPDX-License-Identifier: Apache-2.0

package readme

import (
	"reflect"
	"strings"
	"testing"
)

// doc writes fences as ”' because a raw string cannot hold them.
func doc(text string) string { return strings.ReplaceAll(text, "'''", "```") }

func TestExamplesOfADocumentAreRead(t *testing.T) {
	tests := []struct {
		name, doc string
		want      []Example
	}{
		{"a command without output", "# T\n\n'''console\n$ polycubectl br add br1\n'''\n",
			[]Example{{Line: 4, Command: "polycubectl br add br1"}}},
		{"two commands in a block and one in another", "'''console\n$ a\n1\n\n2\n\n$ b\n'''\ntext\n'''console\n$ c\n3\n'''\n",
			[]Example{{Line: 2, Command: "a", Output: []string{"1", "", "2"}}, {Line: 7, Command: "b"},
				{Line: 11, Block: 1, Command: "c", Output: []string{"3"}}}},
		{"blocks of other languages and inline code are text", "'''sh\n$ a\n'''\n'''\n$ b\n'''\n'''console'''\n", nil},
		{"a command that goes on", "'''console\n$ a \\\n  b\nout\n$ cat <<E\n> x\n>\n> E\n> y\n'''\n",
			[]Example{{Line: 2, Command: "a \\\n  b", Output: []string{"out"}}, {Line: 5, Command: "cat <<E\nx\n\nE\ny"}}},
		{"output that looks like a continuation", "'''console\n$ a\nout\n> b\n'''\n",
			[]Example{{Line: 2, Command: "a", Output: []string{"out", "> b"}}}},
		{"an exit code", "'''console\n$ a\nno such cube\n\n[exit 2]\n$ b\n[exit 64]\n'''\n",
			[]Example{{Line: 2, Command: "a", Output: []string{"no such cube"}, Exit: 2}, {Line: 6, Command: "b", Exit: 64}}},
		{"a longer fence holds a shorter one", "'''`console\n$ a\n'''\nx\n'''`\n",
			[]Example{{Line: 2, Command: "a", Output: []string{"```", "x", "```"}[:2]}}},
		{"carriage returns and blanks at the ends", "'''console\r\n$ a  \r\nout \r\n'''\r\n",
			[]Example{{Line: 2, Command: "a", Output: []string{"out"}}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Parse(strings.NewReader(doc(tt.doc)))
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, tt.want) {
				t.Errorf("\n got %+v\nwant %+v", got, tt.want)
			}
		})
	}
}

func TestExamplesThatCannotBeRunAreErrors(t *testing.T) {
	tests := []struct{ name, doc, want string }{
		{"a block without a command", "'''console\n\n'''\n", "line 3: the console block holds no command"},
		{"output before the command", "'''console\n# a\n$ b\n'''\n", `line 2: output "# a" stands before`},
		{"a block that is never closed", "x\n'''console\n$ a\n", "line 2: the fenced block is never closed"},
		{"a command that stops in the middle", "'''console\n$ a \\\n'''\n", "line 3: the command ends in a backslash"},
		{"a line without end", "'''console\n$ " + strings.Repeat("a", 1<<21), "read line 2"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Parse(strings.NewReader(doc(tt.doc)))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v and error %v, want an error with %q", got, err, tt.want)
			}
		})
	}
}

func TestOutputIsCompared(t *testing.T) {
	tests := []struct {
		name, want, printed, mismatch string
	}{
		{"the same text", "a\nb", "a\nb\n", ""},
		{"nothing and nothing", "", "\n", ""},
		{"blanks at the ends", "a\nb", "a \nb\t\n\n\n", ""},
		{"something where nothing is promised", "", "a\n", "no text fits the end"},
		{"nothing where something is promised", "a", "", `no text fits "a"`},
		{"a line too many", "a", "a\nb\n", "no text fits the end"},
		{"another line", "a\nb\nc", "a\nx\nc\n", `no text fits "b"`},
		{"blanks at the beginning count", "a", " a", `no text fits "a"`},
		{"any text in a line", "uuid: ...\nage: ... s", "uuid: 1-2\nage: 7 s\n", ""},
		{"any text is not two lines", "a...b", "a\nb\n", `no text fits "a...b"`},
		{"any text three times", "a...b...c", "axxbbcbc", ""},
		{"any text does not overlap", "ab...ba", "aba", `no text fits "ab...ba"`},
		{"any text in a wrong order", "...b...a...", "ab", `no text fits "...b`},
		{"bytes that are no text", "\xf8...", "\xf8a", ""},
		{"any lines", "a\n...\nd", "a\nb\nc\nd\n", ""},
		{"any lines may be none", "...\na\n...", "a\n", ""},
		{"any lines, indented", "a\n  ...", "a\nb\nc", ""},
		{"any lines that end elsewhere", "a\n...\nd\n...\nz", "a\nd\nb\nd\nc\n", `no text fits "z"`},
		{"the characters of patterns are plain", "a.c [1] (x)* $", "abc [1] (x)* $", `no text fits "a.c`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := Example{Line: 3, Command: "cmd"}
			if tt.want != "" {
				e.Output = strings.Split(tt.want, "\n")
			}
			err := e.Match(tt.printed)
			switch {
			case tt.mismatch == "" && err != nil:
				t.Error(err)
			case tt.mismatch != "" && (err == nil || !strings.Contains(err.Error(), tt.mismatch)):
				t.Errorf("got %v, want an error with %q", err, tt.mismatch)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add(doc("'''console\n$ a \\\n> b\nout ...\n[exit 2]\n'''\n"))
	f.Fuzz(func(t *testing.T, text string) {
		examples, err := Parse(strings.NewReader(text))
		if err != nil {
			return
		}
		for _, e := range examples {
			if err := e.Match(strings.Join(e.Output, "\n")); err != nil {
				t.Errorf("an example does not match itself: %v", err)
			}
		}
	})
}
