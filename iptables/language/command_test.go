// SPDX-License-Identifier: Apache-2.0

package language

import (
	"reflect"
	"strings"
	"testing"
)

func TestCommandsHaveTheirFields(t *testing.T) {
	for line, want := range map[string]Command{
		"-L":                          {Op: 'L'},
		"-nvL":                        {Op: 'L', Numeric: true, Verbose: true},
		"-vnxL INPUT":                 {Op: 'L', Chain: "INPUT", Numeric: true, Verbose: true, Exact: true},
		"-L INPUT 3 --line-numbers":   {Op: 'L', Chain: "INPUT", Number: 3, LineNumbers: true},
		"--list FORWARD --line":       {Op: 'L', Chain: "FORWARD", LineNumbers: true},
		"-t nat -S POSTROUTING 2":     {Op: 'S', Table: "nat", Chain: "POSTROUTING", Number: 2},
		"-L -Z":                       {Op: 'L', Zero: true},
		"-Z -S OUTPUT":                {Op: 'S', Chain: "OUTPUT", Zero: true},
		"-F":                          {Op: 'F'},
		"-tmangle -F PREROUTING -w 5": {Op: 'F', Table: "mangle", Chain: "PREROUTING", Wait: true, WaitSeconds: 5},
		"-w5 -Z INPUT 7":              {Op: 'Z', Chain: "INPUT", Number: 7, Wait: true, WaitSeconds: 5},
		"-N web":                      {Op: 'N', Chain: "web"},
		"--new-chain=web --wait":      {Op: 'N', Chain: "web", Wait: true},
		"-X":                          {Op: 'X'},
		"-X web":                      {Op: 'X', Chain: "web"},
		"-E web www":                  {Op: 'E', Chain: "web", Name: "www"},
		"-P INPUT DROP":               {Op: 'P', Chain: "INPUT", Name: "DROP"},
		"-D INPUT 4":                  {Op: 'D', Chain: "INPUT", Number: 4},
		"-I INPUT":                    {Op: 'I', Chain: "INPUT", Number: 1, Rules: []Rule{{}}},
		"-4 -I INPUT 9 -c 5 60 -f": {Op: 'I', Chain: "INPUT", Number: 9,
			Rules: []Rule{{Packets: 5, Bytes: 60, Fragment: LaterFragments}}},
		"-R INPUT 2 -j ACCEPT": {Op: 'R', Chain: "INPUT", Number: 2, Rules: []Rule{{Target: Verdict("ACCEPT")}}},
		"-D INPUT -i eth+ ! -p tcp": {Op: 'D', Chain: "INPUT", Rules: []Rule{
			{In: Interface{Name: "eth", Prefix: true}, Protocol: Protocol{Number: 6, Not: true}}}},
		"-C web -p udp --dport 53:54 -g dns": {Op: 'C', Chain: "web", Rules: []Rule{{Protocol: Protocol{Number: 17},
			Matches: []Match{Ports{Protocol: "udp", SPort: anyPort, DPort: PortRange{First: 53, Last: 54}}},
			Target:  Jump{Chain: "dns", Goto: true}}}},
	} {
		want.Family = IPv4
		if want.Table == "" {
			want.Table = "filter"
		}
		for i := range want.Rules {
			want.Rules[i].Family = IPv4
			if want.Rules[i].Source.Any() {
				want.Rules[i].Source = Address{}
			}
		}
		got, err := ReadCommand(IPv4, strings.Fields(line))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s is read as\n%#v (%v), want\n%#v", line, got, err, want)
			continue
		}
		if again, err := ReadCommand(IPv4, strings.Fields(got.String())); err != nil || !reflect.DeepEqual(again, got) {
			t.Errorf("%s is printed as %s, which is read as\n%#v (%v)", line, got, again, err)
		}
	}
}

func TestCommandsThatAreRefusedNameTheOption(t *testing.T) {
	for line, want := range map[string]string{
		"":                              "no command specified",
		"-L -F":                         "cannot use -F with -L",
		"-A":                            `option "-A" requires an argument`,
		"-F -n":                         `illegal option "-n" with -F`,
		"-L -p tcp":                     `illegal option "-p" with -L`,
		"-S --line-numbers":             `illegal option "--line-numbers" with -S`,
		"-D INPUT 3 -j DROP":            `illegal option "-j" with -D`,
		"-D INPUT 0":                    `invalid rule number "0"`,
		"-R INPUT -j DROP":              "-R requires a rule number",
		"-R C 1 -s 1.1.1.1,2.2.2.2":     "replacing with multiple source or destination addresses is not allowed",
		"-E web":                        "-E requires an old and a new chain name",
		"-P INPUT REJECT":               `bad policy name "REJECT": it is ACCEPT or DROP`,
		"-P web DROP":                   `bad built-in chain name "web": only built-in chains have a policy`,
		"-N INPUT":                      `chain "INPUT" already exists`,
		"-N DROP":                       `chain name "DROP" may not clash with the name of a target`,
		"-t security -L":                `the table "security" is not supported: the tables are filter, nat, mangle and raw`,
		"-6 -L":                         "the command is for the other family: -4 is for iptables, -6 for ip6tables",
		"-A OUTPUT -i lo":               "can't use -i with OUTPUT",
		"-A INPUT -o lo":                "can't use -o with INPUT",
		"-A INPUT -j INPUT":             "INPUT: a rule cannot jump to a built-in chain",
		"-A INPUT -j SNAT --to 1.1.1.1": "SNAT: the target works only in the table nat",
		"-t nat -A PREROUTING -j MASQUERADE": "MASQUERADE: the target works only in the chains POSTROUTING and in " +
			"user-defined chains that they jump to",
		"-A INPUT -m owner --uid-owner 1": "owner: the match works only in the chains OUTPUT, POSTROUTING and in " +
			"user-defined chains that they jump to",
		"-A INPUT -m recent --set":    `the match "recent" is not supported: consider -m set with -j SET --add-set`,
		"-A INPUT -m time":            `the match "time" is not supported`,
		"-A INPUT -j TCPMSS":          `the target "TCPMSS" is not supported`,
		"-A INPUT -s ! 10.0.0.1":      "write ! before the option: ! -s 10.0.0.1",
		"-A INPUT -p tcp --dport ! 1": "tcp: write ! before the option: ! --destination-port 1",
		"-A INPUT --syn":              `unknown option "--syn": it must follow -p tcp`,
		"-A INPUT -p tcp --s 5":       `ambiguous option "--s": --source or --set-counters`,
		"-A INPUT -s example.com":     `bad IPv4 address "example.com": host names are not resolved`,
		"-A INPUT !":                  "the last ! precedes no option",
		"-A INPUT -y":                 `unknown option "-y"`,
	} {
		_, err := ReadCommand(IPv4, strings.Fields(line))
		if err == nil || err.Error() != want {
			t.Errorf("%s\n got %v\nwant %s", line, err, want)
		}
	}
}
