// SPDX-License-Identifier: Apache-2.0

package yang

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// loadServices loads a model of services, which are in the tree, with servers.
func loadServices(t *testing.T) *Schema {
	t.Helper()
	text := modelText(t, "bulk")
	end := strings.LastIndex(text, "}")
	return loadText(t, text[:end]+`
  list service {
    key "vip port";
    max-elements 5;
    leaf vip { type string; }
    leaf port { type uint16; }
    leaf kind { type string; mandatory true; }
    leaf weight { type uint8; default "1"; }
    leaf-list tags { type string; }
    container check { leaf every { type uint8; default "5"; } leaf path { type string; } container tls { leaf name { type string; } } }
    list server {
      polycube-base:bulk;
      key "ip";
      leaf ip { type string; }
      leaf weight { type uint8; default "1"; }
    }
  }
}
`)
}

// Whatever an edit prints again, the text is that of the whole tree (state).
func TestEntriesArePrintedAsTheWholeTreeIs(t *testing.T) {
	s := loadServices(t)
	tree := cube(t, s, `{}`)
	r := rand.New(rand.NewPCG(7, 8))
	done, refused := 0, map[string]int{}
	for range 4000 {
		words := fmt.Sprintf("service v%d %d", r.IntN(4), r.IntN(2))
		body := []string{`{"kind":"a"}`, `{"kind":"b","weight":7}`, `{}`, `{"weight":null}`, `{"kind":"c","tags":["x"]}`, `{"kind":"a","server":[{"ip":"1"}]}`,
			`{"kind":"a","check":{"every":7}}`, `{"check":{"every":null,"path":"/x"}}`, `{"check":{"tls":{"name":"y"}}}`}[r.IntN(9)]
		op := []Op{Create, Create, Create, Replace, Merge, Merge, Delete}[r.IntN(7)]
		switch r.IntN(10) {
		case 0:
			words, op, body = words+" weight", Replace, "9"
		case 1:
			words, op = words+" weight", Delete
		case 2:
			words, op, body = words+" server 2", []Op{Create, Delete}[r.IntN(2)], `{}`
		case 4:
			words, op, body = words+" check", []Op{Replace, Merge}[r.IntN(2)], []string{`{}`, `{"path":"/y"}`, `{"tls":{"name":"z"},"every":5}`}[r.IntN(3)]
		case 5:
			words, op = words+[]string{" check", " check every", " check tls", " check tls name"}[r.IntN(4)], Delete
		case 3:
			words, op, body = "service", Merge, fmt.Sprintf(`[{"vip":"v%d","port":0,"kind":"d"},{"vip":"v%d","port":1,"weight":3}]`, r.IntN(4), r.IntN(4))
		}
		before := state(t, tree)
		change, err := tree.Edit(t.Context(), op, at(t, s, words), []byte(body))
		if err != nil {
			if after := state(t, tree); after != before {
				t.Fatalf("%s %s %s: %v left\n%s, it was\n%s", op, words, body, err, after, before)
			}
			for _, why := range []string{"kind is mandatory but missing", "too many entries, at most 5"} {
				if strings.Contains(err.Error(), why) {
					refused[why]++
				}
			}
			continue
		}
		done++
		_ = state(t, tree)
		if r.IntN(4) == 0 {
			if err := change.Revert(); err != nil {
				t.Fatal(err)
			}
			if after := state(t, tree); after != before {
				t.Fatalf("%s %s %s, reverted, left\n%s, it was\n%s", op, words, body, after, before)
			}
		}
	}
	if done < 300 || len(refused) != 2 {
		t.Errorf("%d edits were made, refused were %v", done, refused)
	}
}

// An edit of an entry of a bulk list, and one that changes nothing, leave the text as it is.
func TestTheTextIsMadeAgainOnlyIfTheTreeChanged(t *testing.T) {
	s := loadServices(t)
	tree := cube(t, s, `{"service":[{"vip":"a","port":1,"kind":"x"}]}`)
	text := func() *Text {
		t.Helper()
		x, err := tree.Text()
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	before := text()
	for _, e := range []struct {
		op          Op
		words, body string
	}{{Create, "service a 1 server 1", `{}`}, {Merge, "service a 1 server 1", `{"weight":2}`}, {Merge, "", `{"service":[{"vip":"a","port":1,"server":[{"ip":"2"}]}]}`},
		{Merge, "service a 1", `{"kind":"x"}`}, {Delete, "service a 1 server 1", ""}} {
		if _, err := tree.Edit(t.Context(), e.op, at(t, s, e.words), []byte(e.body)); err != nil {
			t.Fatal(err)
		}
		if text() != before {
			t.Errorf("%s %s %s has another text", e.op, e.words, e.body)
		}
	}
	if _, err := tree.Edit(t.Context(), Merge, at(t, s, "service a 1"), []byte(`{"kind":"y"}`)); err != nil {
		t.Fatal(err)
	}
	if is := text(); is == before || !strings.Contains(string(is.Full), `"kind":"y","weight":1`) {
		t.Errorf("the text is %s", is.Full)
	}
}
