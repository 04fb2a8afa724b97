// SPDX-License-Identifier: Apache-2.0

package jsonscan

import (
	"encoding/json"
	"reflect"
	"testing"
)

// FuzzScanner: what is JSON, and what an object holds, is what encoding/json says.
func FuzzScanner(f *testing.F) {
	for _, text := range []string{
		`{}`, ` { "a" : 1 , "b" : [ true, false,null ] } `, `[]`, `[1,]`, `[,1]`, `{"a":1,}`, `{"a" 1}`, `{1:2}`, `{"a":1}}`, `{"a":1} x`, ``, ` `,
		`"a\u00e9\ud83d\ude00\ud800"`, `"\x"`, "\"\n\"", `"a`, `-`, `-0`, `01`, `1.`, `1.5e`, `1E+5`, `.5`, `+1`, `tru`, `nulll`, `truefalse`,
		`{"a\"":{"b":[{"c":"}"}]},"a\u0022":2}`, `{"a":1,"a":2}`, `[[[[[[[[]]]]]]]]`, `{"a":}`, `[1 2]`, `{"a":1 "b":2}`, "{\"a\":1}\x00", `"\`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		s := New(text)
		_, err := s.Skip()
		if ok := err == nil && s.End(); ok != json.Valid(text) {
			t.Fatalf("%q: JSON %t, encoding/json says %t", text, ok, !ok)
		}
		checkObject(t, text)
		var want []json.RawMessage
		err = json.Unmarshal(text, &want)
		got, ok := ReadArray(text)
		if ok != (err == nil && want != nil) || len(got) != len(want) {
			t.Fatalf("%q: %d elements, %t; encoding/json: %d, %v", text, len(got), ok, len(want), err)
		}
		for i := range got {
			if string(got[i]) != string(want[i]) {
				t.Fatalf("%q: element %d is %s, want %s", text, i, got[i], want[i])
			}
		}
	})
}

func checkObject(t *testing.T, text []byte) {
	t.Helper()
	var want map[string]json.RawMessage
	err := json.Unmarshal(text, &want)
	o, ok := ReadObject(text)
	if ok != (err == nil && want != nil) {
		t.Fatalf("%q: an object %t; encoding/json: %v", text, ok, err)
	}
	for name, value := range want {
		if got, ok := o.Get(name); !ok || string(got) != string(value) {
			t.Fatalf("%q: %q is %s, want %s", text, name, got, value)
		}
		delete(want, name)
		var left map[string]json.RawMessage
		if err := json.Unmarshal(o.Without(name), &left); err != nil || len(left) != len(want) || len(want) > 0 && !reflect.DeepEqual(left, want) {
			t.Fatalf("%q without %q: %s, %v", text, name, o.Without(name), err)
		}
		want[name] = value
		var more map[string]json.RawMessage
		if err := json.Unmarshal(o.With("zz", []byte("1")), &more); err != nil || string(more["zz"]) != "1" {
			t.Fatalf("%q with one more: %s, %v", text, o.With("zz", []byte("1")), err)
		}
	}
}

// TestWhatIsLeftStaysAsItIsWritten: order, spaces within values, the text of numbers, and members that are there twice.
func TestWhatIsLeftStaysAsItIsWritten(t *testing.T) {
	o, ok := ReadObject([]byte(`{ "z":1.50, "name":"x","a": { "b" : 1 }, "a":2 }`))
	if got := string(o.Without("name")); !ok || got != `{"z":1.50,"a": { "b" : 1 },"a":2}` {
		t.Errorf("%t %s", ok, got)
	}
	if got := string(o.Without("none")); got != `{ "z":1.50, "name":"x","a": { "b" : 1 }, "a":2 }` {
		t.Errorf("nothing is taken out, and it is %s", got)
	}
	o, _ = ReadObject([]byte(` { } `))
	if got := string(o.With("a", []byte("1"))); got != `{ "a":1}` {
		t.Errorf("with a member: %s", got)
	}
}

func TestWhatIsWrittenCanBeRead(t *testing.T) {
	for _, tt := range []struct {
		write func(w *Writer)
		want  string
	}{
		{func(*Writer) {}, `{}`},
		{func(w *Writer) { w.Add("a", nil) }, `{}`},
		{func(w *Writer) { w.Extend([]byte("{}")) }, `{}`},
		{func(w *Writer) { w.Add("a", []byte("1")); w.Extend([]byte("{}")); w.Add("\"b\n", []byte("{}")) }, `{"a":1,"\"b\n":{}}`},
		{func(w *Writer) { w.Extend([]byte(`{"a":1}`)); w.Add("b", []byte("[]")) }, `{"a":1,"b":[]}`},
		{func(w *Writer) { w.Add("b", []byte("2")); w.Extend([]byte(`{"a":{}}`)) }, `{"b":2,"a":{}}`},
	} {
		w := NewWriter(0)
		tt.write(w)
		text := w.Bytes()
		if _, ok := ReadObject(text); string(text) != tt.want || !ok {
			t.Errorf("wrote %s, want %s", text, tt.want)
		}
	}
}
