// SPDX-License-Identifier: Apache-2.0

// What users type and what daemons answer is arbitrary; these hold for all of it.

package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/url"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/polycube/polycube/internal/cli/output"
)

// FuzzParse: a command line is a usage error, or a request whose URL holds the
// words exactly and whose body is JSON.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"router add r1 loglevel=DEBUG", "r1 route show 10.0.0.0/8", "r1 set a.b=5", "fw batch rules=", "r1 ?",
		"attach a b before=c", "services add type=lib uri=a name=b", "show -hide=a,b -json x", "x add y a=1e999 b=\"q\"", "%2F show ;#&",
	} {
		f.Add(seed, true)
		f.Add(seed, false)
	}
	f.Fuzz(func(t *testing.T, line string, single bool) {
		cmd, err := parse(strings.Split(line, " "))
		var p plan
		if err == nil {
			p, err = resolve(cmd, single)
		}
		if err != nil {
			var wrong *usageError
			if !errors.As(err, &wrong) || wrong.message == "" {
				t.Fatalf("%q: %v is no usage error", line, err)
			}
			return
		}
		if p.req.body != nil && !json.Valid(p.req.body) {
			t.Errorf("%q: body %q is not JSON", line, p.req.body)
		}
		checkTarget(t, p.req)
	})
}

func checkTarget(t *testing.T, r request) {
	t.Helper()
	u, err := url.Parse("http://localhost" + basePath + r.target())
	if err != nil || u.Host != "localhost" || u.RawQuery != r.query {
		t.Fatalf("%q: %v, %v", r.path, u, err)
	}
	rest, found := strings.CutPrefix(u.EscapedPath(), basePath)
	if !found {
		t.Fatalf("%q left the base: %s", r.path, u)
	}
	var got []string
	for segment := range strings.SplitSeq(strings.TrimSuffix(rest, "/"), "/") {
		word, err := url.PathUnescape(segment)
		if err != nil {
			t.Fatal(err)
		}
		if word != "" {
			got = append(got, word)
		}
	}
	if !slices.Equal(got, r.path) {
		t.Errorf("the URL %s holds %q, want %q", u, got, r.path)
	}
}

// FuzzPrint: any answer prints in every form without a control character, and
// JSON and YAML can be read back.
func FuzzPrint(f *testing.F) {
	for _, seed := range []string{
		`{"a":1,"b":[{"c":[{"d":[1]}]}],"_links":[]}`, `[{"a":{"b":{"c":1}}},5,[1],null]`, `"x\u001by"`, `1e5`, "\x1b[2J", `{"":{"":[{"":""}]}}`,
		`{"ietf-restconf:errors":{"error":[{"error-message":"x"}]}}`, `{"params":{"a":{"type":"key"}},"elements":[["a"]]}`,
		`[{"` + strings.Repeat("k", 2000) + `":{"a":1}}]`,
	} {
		f.Add([]byte(seed), "a,b.c")
	}
	f.Fuzz(func(t *testing.T, body []byte, hide string) {
		var out bytes.Buffer
		for _, form := range output.Forms {
			out.Reset()
			o := output.Options{Form: form, Hide: strings.Split(hide, ",")}
			if err := output.Print(&out, body, o, true); err != nil {
				t.Fatalf("%s: %v", form, err)
			}
			checkHarmless(t, string(form), out.String())
			if v, err := output.DecodeJSON(body); err == nil {
				v.Prune("", o.Hide)
				checkSame(t, form, v, out.Bytes())
			}
		}
		out.Reset()
		if err := printHelp(&out, body, helpFor{verb: verbAdd}, 60); err != nil {
			t.Fatal(err)
		}
		checkHarmless(t, "help", out.String())
		checkHarmless(t, "error", sentences(answer{line: "HTTP/1.1 400", body: body}))
	})
}

// checkSame reads JSON and YAML back. A member that is there twice has no YAML
// form that can be read.
func checkSame(t *testing.T, f output.Form, want output.Value, printed []byte) {
	t.Helper()
	var got output.Value
	var err error
	switch f {
	case output.FormJSON:
		got, err = output.DecodeJSON(printed)
	case output.FormYAML:
		var body []byte
		if body, err = output.BodyFromYAML(printed); err == nil {
			got, err = output.DecodeJSON(body)
		} else if strings.Contains(err.Error(), "given twice") {
			return
		}
	default:
		return
	}
	if err != nil || !bytes.Equal(got.AppendJSON(nil), want.AppendJSON(nil)) {
		t.Errorf("%s %q is read as %s, %v; want %s", f, printed, got.AppendJSON(nil), err, want.AppendJSON(nil))
	}
}

func checkHarmless(t *testing.T, what, text string) {
	t.Helper()
	if !utf8.ValidString(text) {
		t.Errorf("%s: not UTF-8: %q", what, text)
	}
	for _, r := range text {
		if output.Hazardous(r) && r != '\n' && r != '\t' {
			t.Errorf("%s: %U reaches the terminal: %q", what, r, text)
		}
	}
}

// FuzzBody: a document becomes JSON or an error, and JSON stays what it is.
func FuzzBody(f *testing.F) {
	for _, seed := range []string{"a: 1", "{'a': [1,],}", "[1, 2.50]", "a: &x {b: 1}\nc: {<<: *x}", "? a", "--- 5\n...", "\t"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		body, err := output.BodyFromYAML(data)
		if err != nil || body == nil {
			return
		}
		if !json.Valid(body) {
			t.Fatalf("%q became %q, which is not JSON", data, body)
		}
		if again, err := output.BodyFromYAML(body); err != nil || !bytes.Equal(again, body) {
			t.Errorf("%q is not stable: %q, %v", body, again, err)
		}
	})
}
