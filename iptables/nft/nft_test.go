// SPDX-License-Identifier: Apache-2.0

package nft

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/polycube/polycube/iptables/language"
	"github.com/polycube/polycube/iptables/source"
)

func read(t testing.TB, file string) string {
	t.Helper()
	raw, err := os.ReadFile("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// described is what was read, as text: chains, then each rule with what it becomes, or why it does not.
func described(s *source.Set) string {
	var out strings.Builder
	for _, family := range families["inet"] {
		fmt.Fprintln(&out, family, s.Chains[family])
	}
	for _, r := range s.Rules {
		fmt.Fprintf(&out, "%d %s: %s [%s]\n", r.At, r.Where, r.Text, r.Effect)
		for _, why := range r.Reasons {
			fmt.Fprintln(&out, "  left out:", why)
		}
		for _, one := range r.Rules {
			fmt.Fprintln(&out, strings.TrimRight(fmt.Sprintf("  %s [%d:%d] -A %s %s", one.Family, one.Packets, one.Bytes, r.Chain, one), " "))
		}
	}
	return out.String()
}

// TestARuleSetOfNftBecomesTheseRules: the input is what nft has printed.
func TestARuleSetOfNftBecomesTheseRules(t *testing.T) {
	s, err := Read(read(t, "ruleset.json"))
	if err != nil {
		t.Fatal(err)
	}
	got, want := strings.Split(described(s), "\n"), strings.Split(read(t, "ruleset.txt"), "\n")
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(want):
			t.Fatalf("line %d: unexpected %q", i+1, got[i])
		case i >= len(got):
			t.Fatalf("line %d: %q is missing", i+1, want[i])
		case got[i] != want[i]:
			t.Fatalf("line %d:\n got %s\nwant %s", i+1, got[i], want[i])
		}
	}
}

// in returns a rule set with a table of a family that has an input chain with rules.
func in(family string, rules ...string) string {
	out := fmt.Sprintf(`{"nftables":[{"chain":{"family":%q,"table":"t","name":"in","type":"filter","hook":"input","prio":0,"policy":"accept"}}`, family)
	for i, r := range rules {
		out += fmt.Sprintf(`,{"rule":{"family":%q,"table":"t","chain":"in","handle":%d,"expr":[%s]}}`, family, i+1, r)
	}
	return out + "]}"
}

func TestStatementsThatNftDoesNotPrintAreLeftOut(t *testing.T) {
	const port = `{"payload":{"protocol":"tcp","field":"dport"}}`
	const source = `{"payload":{"protocol":"ip","field":"saddr"}}`
	match := func(left, op, right string) string {
		return fmt.Sprintf(`{"match":{"op":%q,"left":%s,"right":%s}},{"drop":null}`, op, left, right)
	}
	for rule, want := range map[string]string{
		`{"drop":null},{"accept":null}`:                                                        "accept follows the verdict",
		`{"jump":{"target":"nowhere"}}`:                                                        `there is no chain "nowhere" in the table`,
		`{"jump":null}`:                                                                        `there is no chain "" in the table`,
		`{"match":null}`:                                                                       "null cannot be compared",
		`{"match":{"op":"==","left":{"meta":"x"},"right":1}}`:                                  `iptables cannot compare {"meta":"x"}`,
		`{"vmap":{"key":` + port + `,"data":{"set":[[1]]}}}`:                                   "1 is no element of a map",
		`{"vmap":{"key":` + port + `,"data":{"set":[[1,2]]}}}`:                                 "2 is no verdict",
		`{"vmap":{"key":` + port + `,"data":"@none"}}`:                                         "there is no set @none in the table",
		`{"vmap":null}`:                                                                        "this map cannot be imported\nnull cannot be compared",
		`{"limit":"named"}`:                                                                    "iptables has rates of packets per second, minute, hour or day, which are in the rule",
		`{"mangle":{"key":{"meta":{"key":"mark"}},"value":{}}}`:                                "of what packets carry, iptables sets the mark alone, to a number",
		`{"reject":{"type":"odd","expr":"port-unreachable"}}`:                                  "reject with odd port-unreachable cannot be imported",
		match(port, "~", "1"):                                                                  `the operator "~" is not known`,
		match(port, "==", "70000"):                                                             "70000-70000 is no range of numbers up to 65535",
		match(port, "==", `{"range":[9,2]}`):                                                   "9-2 is no range of numbers up to 65535",
		match(port, "==", `{"range":[9]}`):                                                     `9 is no value that iptables can compare with`,
		match(port, "==", `"@none"`):                                                           "there is no set @none in the table",
		match(port, "==", "true"):                                                              "true is no value",
		match(port, "<", `{"set":[1,2]}`):                                                      "< needs one number",
		match(port, "in", `[1,2]`):                                                             `the operator "in" is for flags`,
		match(port, "==", `{"set":[{"elem":{"val":{"elem":{"val":1}}}}]}`):                     `{"elem":{"val":{"elem":{"val":1}}}} is no value`,
		match(port, "==", `{"set":[{"elem":{"val":1,"timeout":9}}]}`):                          "an element of a set expires",
		match(source, "==", `"::1"`):                                                           `"::1" is no address of IPv4`,
		match(source, "==", `{"prefix":{"addr":"10.0.0.0","len":99}}`):                         "10.0.0.0/99 is no prefix",
		match(source, "==", `{"range":["10.0.0.9","10.0.0.1"]}`):                               "the range 10.0.0.9-10.0.0.1 is reversed",
		match(`{"&":[`+source+`,"255.0.0.x"]}`, "==", `"10.0.0.0"`):                            `"255.0.0.x" is no address of IPv4`,
		match(`{"&":[{"&":[`+source+`,"255.0.0.0"]},"255.0.0.0"]}`, "==", `"10.0.0.0"`):        `ip saddr & 255.0.0.0 & 255.0.0.0 has two masks`,
		match(port, "==", `{"set":[`+strings.TrimSuffix(strings.Repeat("1,", 257), ",")+`]}`):  "a set of 257 elements: up to 256 are imported; use -m set with an ipset cube",
		match(`{"meta":{"key":"iifname"}}`, "==", `"-j"`):                                      "",
		match(`{"meta":{"key":"iifname"}}`, "==", `"a b"`):                                     `invalid character in interface name "a b"`,
		match(`{"meta":{"key":"iifname"}}`, "==", `"7"`):                                       `"7" is no name of a netdev for iptables`,
		match(`{"meta":{"key":"mark"}}`, "==", `"1/0"`):                                        `"1/0" is no mark`,
		match(`{"ct":{"key":"state","dir":"original"}}`, "==", `"new"`):                        `iptables cannot compare ct state`,
		match(`{"payload":{"protocol":"tcp","field":"flags"}}`, "in", `"ecn"`):                 `iptables cannot compare the TCP flags "ecn"`,
		match(`{"payload":{"protocol":"icmp","field":"type"}}`, "==", `"echo-request\" -j x"`): `echo-request" -j x-echo-request" -j x is no range of numbers up to 255`,
	} {
		s, err := Read(in("ip", rule))
		if err != nil {
			t.Errorf("%s: %v", rule, err)
			continue
		}
		r := s.Rules[0]
		if got := strings.Join(r.Reasons, "; "); got != want || (len(r.Rules) > 0) != (want == "") {
			t.Errorf("%s: %d rules\n got %s\nwant %s", rule, len(r.Rules), got, want)
		}
	}
}

func TestInputThatNftDoesNotPrintIsRefused(t *testing.T) {
	for input, want := range map[string]string{
		"":                              "read JSON: EOF",
		"{":                             "read JSON: unexpected EOF",
		"{} x":                          "read JSON: something follows the first object",
		"{}":                            "the JSON has no member \"nftables\"",
		`{"nftables":[]} {}`:            "read JSON: something follows the first object",
		`{"nftables":{}}`:               "read JSON: ",
		`{"nftables":[{}]}`:             "object 0 has 0 members",
		`{"nftables":[{"a":1,"b":2}]}`:  "object 0 has 2 members",
		`{"nftables":[{"add":{}}]}`:     "object 0 (add): this is a command for nft",
		`{"nftables":[{"rule":7}]}`:     "object 0 (rule): ",
		`{"nftables":[{"rule":{}}]}`:    "rule 0: there is no chain",
		in("ip", `{"a":1,"drop":null}`): "rule 1: a statement has 2 members",
		in("ip", `7`):                   "object 1 (rule): ",
		strings.Repeat("[", 1<<20):      "read JSON: ",
		`{"nftables":[{"chain":{"name":"a"}},{"chain":{"name":"a"}}]}`: "chain   a is there twice",
	} {
		if s, err := Read(input); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%.60q: got %v (%v), want %s", input, err, s, want)
		}
	}
}

// TestProductsOfSetsAreBounded: a rule with two sets of 256 elements would be 65536 rules.
func TestProductsOfSetsAreBounded(t *testing.T) {
	var list []string
	for i := range 256 {
		list = append(list, fmt.Sprintf(`"10.0.0.%d"`, i))
	}
	set := fmt.Sprintf(`{"set":[%s]}`, strings.Join(list, ","))
	one := fmt.Sprintf(`{"match":{"op":"==","left":{"payload":{"protocol":"ip","field":"saddr"}},"right":%s}}`, set)
	other := strings.Replace(one, "saddr", "daddr", 1)
	s, err := Read(in("ip", one+`,{"drop":null}`, one+","+other+`,{"drop":null}`))
	if err != nil || len(s.Rules[0].Rules) != 256 || len(s.Rules[1].Reasons) != 1 || !strings.Contains(s.Rules[1].Reasons[0], "more than 256 rules") {
		t.Errorf("got %d rules and %v (%v)", len(s.Rules[0].Rules), s.Rules[1].Reasons, err)
	}
	var rules []string
	for range maxRules/256 + 1 {
		rules = append(rules, one)
	}
	if _, err := Read(in("ip", rules...)); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("too many rules: %v", err)
	}
}

// FuzzRead checks that what becomes of any input are rules that can be printed and read again, with a reason if there are none.
func FuzzRead(f *testing.F) {
	f.Add(read(f, "ruleset.json"))
	for _, line := range strings.Split(read(f, "ruleset.json"), "\n") {
		if strings.HasPrefix(line, `{"rule"`) {
			f.Add(`{"nftables":[{"chain":{"family":"inet","table":"filter","name":"input","type":"filter","hook":"input","prio":0,"policy":"drop"}},` +
				strings.TrimSuffix(line, ",") + "]}")
		}
	}
	f.Fuzz(func(t *testing.T, input string) {
		s, err := Read(input)
		if err != nil {
			return
		}
		for _, r := range s.Rules {
			for _, one := range r.Rules {
				args, err := language.SplitLine("-A " + r.Chain + " " + one.String())
				if err != nil {
					t.Fatalf("%s is printed as %q: %v", r.Text, one, err)
				}
				if again, err := language.ReadCommand(one.Family, args); err != nil || again.Rules[0].String() != one.String() {
					t.Fatalf("%s is printed as %q: %v", r.Text, one, err)
				}
			}
		}
	})
}
