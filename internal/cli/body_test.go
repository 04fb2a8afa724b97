// SPDX-License-Identifier: Apache-2.0

// The types that words get, and YAML and JSON as people write them.

package cli

import (
	"strings"
	"testing"

	"github.com/polycube/polycube/internal/cli/output"
)

func TestAWordGetsATypeByItsLooks(t *testing.T) {
	tests := []struct{ word, want string }{
		{"5", "5"}, {"-5", "-5"}, {"+5", "5"}, {"0", "0"}, {"-0", "0"}, {"007", "7"}, {"00", "0"},
		{"18446744073709551615", "18446744073709551615"},
		{"9007199254740993", "9007199254740993"},
		{"0.5", "0.5"}, {"1.50", "1.50"}, {"-1e3", "-1e3"}, {".5", "0.5"}, {"5.", "5"}, {"+1.5", "1.5"},
		{"true", "true"}, {"True", "true"}, {"TRUE", "true"}, {"t", "true"}, {"T", "true"},
		{"false", "false"}, {"f", "false"}, {"F", "false"}, {"1", "1"},
		{"tRuE", `"tRuE"`}, {"yes", `"yes"`}, {"", `""`}, {"null", `"null"`},
		{"1e999", `"1e999"`}, {"NaN", `"NaN"`}, {"Inf", `"Inf"`}, {"0x1F", `"0x1F"`}, {"0x1p4", `"0x1p4"`}, {"1_000", `"1_000"`},
		{"+", `"+"`}, {"-", `"-"`}, {"--5", `"--5"`}, {"+-5", `"+-5"`}, {"e", `"e"`}, {".", `"."`}, {"1.2.3", `"1.2.3"`},
		{"10.0.0.1", `"10.0.0.1"`}, {"10.0.0.1/24", `"10.0.0.1/24"`}, {"aa:bb:cc:dd:ee:ff", `"aa:bb:cc:dd:ee:ff"`},
		{`"007"`, `"007"`}, {`"a\"b"`, `"a\"b"`}, {`""`, `""`}, {`"`, `"\""`}, {`"a"b"`, `"\"a\"b\""`},
		{"a\tb", `"a\tb"`}, {"ü", `"ü"`}, {"٣", `"٣"`},
	}
	for _, tt := range tests {
		if got := string(typed(tt.word).AppendJSON(nil)); got != tt.want {
			t.Errorf("%q became %s, want %s", tt.word, got, tt.want)
		}
	}
}

func TestADocumentBecomesJSON(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"JSON keeps order and numbers", "{\"b\": 18446744073709551615,\n\t\"a\": 1.50}", `{"b":18446744073709551615,"a":1.50}`},
		{"single quotes and a trailing comma", `{'b': 'x', 'a': [1, 2,],}`, `{"b":"x","a":[1,2]}`},
		{"block YAML", "- name: r1\n  service-name: router\n- name: br1\n", `[{"name":"r1","service-name":"router"},{"name":"br1"}]`},
		{"scalars", "a: ~\nb: true\nc: 0x1F\nd: 1_000\ne: '5'\nf: 1.5\ng: yes\nh: 2001-01-01\ni: .5\nj: 80:22\n",
			`{"a":null,"b":true,"c":31,"d":1000,"e":"5","f":1.5,"g":"yes","h":"2001-01-01","i":0.5,"j":"80:22"}`},
		{"a big integer", "a: 18446744073709551615\nb: 123456789012345678901234567890\n", `{"a":18446744073709551615,"b":123456789012345678901234567890}`},
		{"a block of text", "code: |\n  int f;\n  int g;\n", `{"code":"int f;\nint g;\n"}`},
		{"an alias", "a: &x {p: 1}\nb: *x\n", `{"a":{"p":1},"b":{"p":1}}`},
		{"a merge, own members first", "base: &x {p: 1, q: 2}\nc:\n  <<: *x\n  p: 3\n", `{"base":{"p":1,"q":2},"c":{"p":3,"q":2}}`},
		{"a merge of several, the first wins", "c:\n  <<: [{p: 1}, {p: 2, q: 3}]\n", `{"c":{"p":1,"q":3}}`},
		{"keys that are numbers", "80: web\n", `{"80":"web"}`},
		{"a lone scalar", "veth1", `"veth1"`},
		{"nothing", " \n\t\n", ""},
		{"only comments", "# nothing\n", ""},
		{"an empty document", "---\n", "null"},
	}
	for _, tt := range tests {
		got, err := output.BodyFromYAML([]byte(tt.in))
		if err != nil || string(got) != tt.want {
			t.Errorf("%s: %s, %v; want %s", tt.name, got, err, tt.want)
		}
	}
}

func TestADocumentThatIsNotJSONIsRefused(t *testing.T) {
	bomb := "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n"
	for i := 1; i < 10; i++ {
		prev := string(rune('0' + i - 1))
		bomb += "a" + string(rune('0'+i)) + ": &a" + string(rune('0'+i)) + " [" + strings.Repeat("*a"+prev+",", 9) + "*a" + prev + "]\n"
	}
	tests := []struct{ name, in, want string }{
		{"broken", "a: [1", "line 1"},
		{"a key twice", "a: 1\na: 2\n", `"a" is given twice`},
		{"two documents", "a: 1\n---\nb: 2\n", "more than one document"},
		{"infinity", "a: .inf", "cannot represent the number .inf"},
		{"not a number", "a: .nan", "cannot represent the number .nan"},
		{"a key that is a list", "? [a, b]\n: 1\n", "plain scalar"},
		{"an alias of nothing", "a: *x", "unknown anchor"},
		{"an alias of itself", "a: &x [*x]", "nested deeper"},
		{"a merge of a scalar", "a:\n  <<: 5\n", "merges mappings only"},
		{"aliases that multiply", bomb, "once aliases are expanded"},
		{"a long text that aliases repeat", "a: &a " + strings.Repeat("x", 1<<20) + "\nb: [" + strings.Repeat("*a,", 9) + "]\n", "once aliases are expanded"},
		{"too deep", strings.Repeat("[", output.MaxDepth+2) + "'x'" + strings.Repeat("]", output.MaxDepth+2), "nested deeper"},
		{"a bad boolean", "a: !!bool maybe", "not a boolean"},
		{"a bad number", "a: !!int maybe", "not a number"},
	}
	for _, tt := range tests {
		got, err := output.BodyFromYAML([]byte(tt.in))
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %.60s and error %v, want %q", tt.name, got, err, tt.want)
		}
	}
}

func TestOneJSONValueIsDecoded(t *testing.T) {
	for _, in := range []string{"", "{", "[1,", `{"a"}`, "1 2", "{} {}", strings.Repeat("[", output.MaxDepth+2)} {
		if v, err := output.DecodeJSON([]byte(in)); err == nil {
			t.Errorf("%.20q was decoded to %v", in, v)
		}
	}
	const same = `{"z":[1,2.50,{"y":null,"x":true}],"a":"<\u0001>","n":18446744073709551615}`
	v, err := output.DecodeJSON([]byte(same))
	if err != nil || string(v.AppendJSON(nil)) != same {
		t.Errorf("%s, %v", v.AppendJSON(nil), err)
	}
}
