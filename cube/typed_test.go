// SPDX-License-Identifier: Apache-2.0

package cube

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
)

type typedPort struct {
	Name string `json:"name"`
	Peer string `json:"peer"`
}

type typedCommon struct {
	A int `json:"a"`
}

type typedConf struct {
	typedCommon
	B     string              `json:"b"`
	C     *uint32             `json:"c"`
	Ports []typedPort         `json:"ports"`
	Inner struct{ X, Y int }  `json:"inner"`
	Map   map[string][]string `json:"map"`
	left  int                 //nolint:unused // not decoded
}

// randomConf returns an object with some of the members, in the order of a model.
func randomConf(r *rand.Rand) string {
	var members []string
	add := func(name, format string, values ...any) {
		if r.IntN(4) > 0 {
			members = append(members, fmt.Sprintf("%q:", name)+fmt.Sprintf(format, values...))
		}
	}
	few := func() int { return []int{1, 11, 111, 1111}[r.IntN(4)] }
	add("a", "%d", few())
	add("b", "%q", strings.Repeat("1", r.IntN(3))+[]string{"", "a", "\"", "{", "é"}[r.IntN(5)])
	add("unknown", "%d", few())
	add("c", "%d", few())
	var ports []string
	for i := range r.IntN(4) {
		ports = append(ports, fmt.Sprintf(`{"name":"p%d","peer":"%d"}`, i, few()))
	}
	add("ports", "[%s]", strings.Join(ports, ","))
	add("inner", `{"X":%d,"Y":%d}`, few(), few())
	add("map", `{"k%d":["%d"]}`, few(), few())
	return "{" + strings.Join(members, ",") + "}"
}

// What is decoded from the difference to the last configuration is what is decoded from the whole text.
func TestConfigurationsAreDecodedByTheirDifference(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	d, before, amended := newDecoded[typedConf](), "", 0
	var kept []*typedConf
	var texts []string
	for range 20000 {
		text := randomConf(r)
		var want typedConf
		if err := json.Unmarshal([]byte(text), &want); err != nil {
			t.Fatal(err)
		}
		if d.is != nil && d.amend([]byte(text)) {
			amended++
		} else if err := d.decode([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(*d.is, want) {
			t.Fatalf("%s after %s:\n%+v, want\n%+v", text, before, *d.is, want)
		}
		if at := membersOf([]byte(text)); !reflect.DeepEqual(d.members, at) && len(at)+len(d.members) > 0 {
			t.Fatalf("%s after %s: members at %v, want %v", text, before, d.members, at)
		}
		before = text
		kept, texts = append(kept, d.is), append(texts, text)
	}
	for i, is := range kept {
		var want typedConf
		if err := json.Unmarshal([]byte(texts[i]), &want); err != nil || !reflect.DeepEqual(*is, want) {
			t.Fatalf("%s became %+v when others were decoded (%v)", texts[i], *is, err)
		}
	}
	if amended < 10000 {
		t.Errorf("%d of 20000 were decoded by their difference", amended)
	}
}

// Entries of a list that are added, removed and changed are what is decoded.
func TestListsAreDecodedByTheirDifference(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 4))
	d, byElements := newDecoded[typedConf](), 0
	var ports []string
	for range 20000 {
		port := fmt.Sprintf(`{"name":"p%d","peer":%q}`, r.IntN(1000), []string{"", "],[", "}{", "p1"}[r.IntN(4)])
		from := r.IntN(len(ports) + 1)
		switch to := min(from+r.IntN(3), len(ports)); r.IntN(3) {
		case 0:
			ports = slices.Insert(ports, from, port)
		case 1:
			ports = slices.Delete(ports, from, to)
		default:
			ports = slices.Replace(ports, from, to, port)
		}
		text, before := fmt.Sprintf(`{"a":1,"ports":[%s],"inner":{"X":7}}`, strings.Join(ports, ",")), d.raw
		var want typedConf
		if err := json.Unmarshal([]byte(text), &want); err != nil {
			t.Fatal(err)
		}
		if err := d.decode([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(*d.is, want) {
			t.Fatalf("%s after %s:\n%+v, want\n%+v", text, before, *d.is, want)
		}
		if m := d.members[1]; m.elements != nil {
			byElements++
			if at := elementsOf([]byte(text[m.from:m.to])); !slices.Equal(m.elements, at) {
				t.Fatalf("%s after %s: elements at %v, want %v", text, before, m.elements, at)
			}
		}
	}
	if byElements < 15000 {
		t.Errorf("%d of 20000 were decoded by the difference of their elements", byElements)
	}
}

type selfMade struct{ Text string }

func (s *selfMade) UnmarshalJSON(text []byte) error { s.Text = string(text); return nil }

func TestTypesThatAreDecodedWhole(t *testing.T) {
	t.Parallel()
	type embeds struct {
		*typedPort
		A int `json:"a"`
	}
	type twice struct {
		typedPort
		Other string `json:"name"`
	}
	type untagged struct{ Name string }
	for _, fields := range []map[string][]int{fieldsOf(reflect.TypeFor[selfMade]()), fieldsOf(reflect.TypeFor[embeds]()), fieldsOf(reflect.TypeFor[twice]()),
		fieldsOf(reflect.TypeFor[untagged]()), fieldsOf(reflect.TypeFor[map[string]int]())} {
		if fields != nil {
			t.Errorf("fields %v", fields)
		}
	}
	d := newDecoded[selfMade]()
	for _, text := range []string{`{"a":1}`, `{"a":2}`} {
		if err := d.decode([]byte(text)); err != nil || d.is.Text != text {
			t.Errorf("%s is decoded as %+v, %v", text, d.is, err)
		}
	}
}

func TestAMistakeInAConfigurationIsNamed(t *testing.T) {
	t.Parallel()
	prepare := Typed(func(_ context.Context, c ChangeOf[typedConf]) (Plan, error) {
		return Plan{Constants: map[string]any{"old": c.Old, "new": c.New}}, nil
	})
	good := json.RawMessage(`{"a":1,"b":"x"}`)
	if _, err := prepare(t.Context(), Change{New: good}); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{`{"a":"1","b":"x"}`, `{"a":1,"b":"x"`, `[]`, ``} {
		_, err := prepare(t.Context(), Change{Old: good, New: json.RawMessage(bad)})
		if err == nil || !strings.Contains(err.Error(), "decode the new configuration") {
			t.Errorf("%s: %v", bad, err)
		}
		plan, err := prepare(t.Context(), Change{Old: good, New: json.RawMessage(`{"a":2,"b":"x"}`)})
		if err != nil || plan.Constants["old"].(*typedConf).A != 1 || plan.Constants["new"].(*typedConf).A != 2 {
			t.Errorf("after %s: %+v, %v", bad, plan.Constants, err)
		}
	}
}
