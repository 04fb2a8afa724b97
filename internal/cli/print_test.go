// SPDX-License-Identifier: Apache-2.0

// What answers look like, held in files next to the answers: look at the
// difference before you accept it with -update.

package cli

import (
	"bytes"
	"encoding/json"
	"flag"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/polycube/polycube/internal/cli/output"
)

var update = flag.Bool("update", false, "accept the printed answers")

func TestAnswersLookAsTheyDid(t *testing.T) {
	inputs, err := filepath.Glob("testdata/print/*.json")
	if err != nil || len(inputs) == 0 {
		t.Fatalf("no inputs: %v", err)
	}
	hide := "-hide=uuid,ports.status,limits.per-host,rule.stats.bytes"
	for _, input := range inputs {
		body, err := os.ReadFile(input)
		if err != nil {
			t.Fatal(err)
		}
		d := newDaemon(t, "unix", reply(http.StatusOK, string(body)))
		for name, flags := range map[string][]string{
			"default": nil, "brief": {"-brief"}, "verbose": {"-verbose"},
			"hide": {"-verbose", hide}, "json": {"-json", hide}, "yaml": {"-yaml", hide},
		} {
			golden := strings.TrimSuffix(input, ".json") + "." + name + ".golden"
			t.Run(filepath.Base(golden), func(t *testing.T) {
				r := d.run(append([]string{"show", "x"}, flags...)...)
				if r.code != ExitOK || r.err != "" {
					t.Fatalf("exit %d, stderr %q", r.code, r.err)
				}
				if *update {
					if err := os.WriteFile(golden, []byte(r.out), 0o644); err != nil {
						t.Fatal(err)
					}
				}
				want, err := os.ReadFile(golden)
				if err != nil {
					t.Fatal(err)
				}
				if r.out != string(want) {
					t.Errorf("got\n%s\nwant\n%s", r.out, want)
				}
			})
		}
	}
}

func TestNormalIsTheDefault(t *testing.T) {
	d := newDaemon(t, "unix", reply(http.StatusOK, `{"a":{"b":{"c":1}},"d":[{"e":[1,2]}]}`))
	want := "a:\n b: {1 members}\n\nd:\ne\n[2 items]\n"
	for _, line := range []string{"show x", "show x -normal", "x act"} {
		if r := d.run(words(line)...); r.out != want {
			t.Errorf("%s: %q", line, r.out)
		}
	}
}

func TestEntriesWithTextsOfSeveralLinesFollowEachOther(t *testing.T) {
	d := newDaemon(t, "unix", reply(http.StatusOK, `[{"family":"IPV4","text":"Chain A\n  1 DROP\n\nChain B\n","n":[{"x":1}]},{"family":"IPV6","text":"family: X\u001b\n"},7]`))
	const want = "family: IPV4\ntext:\n Chain A\n   1 DROP\n \n Chain B\n\nn:\nx\n1\n\nfamily: IPV6\ntext:\n family: X\\x1b\n\n7\n"
	if r := d.run("show", "x"); r.out != want {
		t.Errorf("got\n%q\nwant\n%q", r.out, want)
	}
	d = newDaemon(t, "unix", reply(http.StatusOK, `{"listing":[{"family":"IPV4","text":"a\nb\n"}]}`))
	if r := d.run("show", "x"); r.out != "\nlisting:\nfamily: IPV4\ntext:\n a\n b\n" {
		t.Errorf("in an object: %q", r.out)
	}
}

func TestALeafIsPrintedBare(t *testing.T) {
	tests := []struct{ body, want string }{
		{`"10.0.0.1/24"`, "10.0.0.1/24\n"},
		{`""`, "\n"},
		{`5`, "5\n"},
		{`18446744073709551615`, "18446744073709551615\n"},
		{`-9007199254740993`, "-9007199254740993\n"},
		{`0.5`, "0.500000\n"},
		{`1e3`, "1000.000000\n"},
		{`1e999`, "1e999\n"},
		{`true`, "true\n"},
		{`null`, "null\n"},
		{`"two\nlines\tand a tab"`, "two\nlines\tand a tab\n"},
		{`"esc\u001b[2J\u009b\u007f\u2028\u202e"`, `esc\x1b[2J\u009b\x7f\u2028\u202e` + "\n"},
		{`"a\\b"`, "a\\b\n"},
		{`[]`, ""},
		{`{}`, ""},
		{`[{}]`, ""},
		{`["a","b"]`, "a\nb\n"},
		{" \n", ""},
	}
	for _, tt := range tests {
		d := newDaemon(t, "unix", reply(http.StatusOK, tt.body))
		if r := d.run("show", "x"); r.code != ExitOK || r.out != tt.want {
			t.Errorf("%s: exit %d, %q, want %q", tt.body, r.code, r.out, tt.want)
		}
	}
}

func TestJSONAndYAMLKeepTheValue(t *testing.T) {
	inputs, err := filepath.Glob("testdata/print/*.json")
	if err != nil || len(inputs) == 0 {
		t.Fatalf("no inputs: %v", err)
	}
	inputs = append(inputs, "")
	for _, input := range inputs {
		body := []byte(`{"yes":"no","5":"5","~":"~","n":-1.50,"s":" a ","t":"2001-01-01","x":"0x1f","e":"","m":"a\n b\n\n","o":"on","u":"12345678-0123-4567-8901-234567890123","<<":"=","z":"\u0085\ufeff\u0000"}`)
		if input != "" {
			if body, err = os.ReadFile(input); err != nil {
				t.Fatal(err)
			}
		}
		if strings.Contains(string(body), `"same"`) {
			continue // a repeated member has no YAML form that can be read back
		}
		want, err := output.DecodeJSON(body)
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := output.Print(&out, body, output.Options{Form: output.FormYAML}, false); err != nil {
			t.Fatal(err)
		}
		back, err := output.BodyFromYAML(out.Bytes())
		if err != nil || !bytes.Equal(back, want.AppendJSON(nil)) {
			t.Errorf("YAML\n%s\nis read as %s, %v\nwant %s", out.Bytes(), back, err, want.AppendJSON(nil))
		}
		out.Reset()
		if err := output.Print(&out, body, output.Options{Form: output.FormJSON}, false); err != nil {
			t.Fatal(err)
		}
		again, err := output.DecodeJSON(out.Bytes())
		if err != nil || !json.Valid(out.Bytes()) || !bytes.Equal(again.AppendJSON(nil), want.AppendJSON(nil)) {
			t.Errorf("JSON\n%s\n%v", out.Bytes(), err)
		}
	}
}

func TestALongCellMovesOnlyItsOwnLine(t *testing.T) {
	long := strings.Repeat("x", 3*output.MaxColumnWidth)
	var out bytes.Buffer
	v := output.Value{Kind: output.KindArray, Items: []output.Value{
		output.ObjectValue(output.Member{Key: "a", Val: output.StringValue(long)}, output.Member{Key: "b", Val: output.StringValue("1")}),
		output.ObjectValue(output.Member{Key: "a", Val: output.StringValue("s")}, output.Member{Key: "b", Val: output.StringValue("2")}),
	}}
	if err := output.PrintPretty(&out, v, output.Options{}); err != nil {
		t.Fatal(err)
	}
	pad := strings.Repeat(" ", output.MaxColumnWidth)
	if want := "a" + pad + " b\n" + long + "  1\ns" + pad + " 2\n"; out.String() != want {
		t.Errorf("%q", out.String())
	}
}
