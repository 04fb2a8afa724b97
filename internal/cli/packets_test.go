// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

func TestTraceTakesAFilterAndFlagsInAnyOrder(t *testing.T) {
	for words, want := range map[string]string{
		"":                            "trace/",
		"icmp":                        "trace/?filter=icmp",
		"tcp port 80 -c 5":            "trace/?count=5&filter=tcp+port+80",
		"-c 5 --cube br1 not arp":     "trace/?count=5&cube=br1&filter=not+arp",
		"--cube=br1 -t=60":            "trace/?cube=br1&seconds=60",
		"ip[0]=0x45 and tcp[13]&2!=0": "trace/?filter=ip%5B0%5D%3D0x45+and+tcp%5B13%5D%262%21%3D0",
		"-json show set add":          "trace/?filter=show+set+add",
		"-c 1 -- -x -c":               "trace/?count=1&filter=-x+-c",
	} {
		w, err := parseWatching("trace", strings.Fields(words))
		if got := w.request().target(); err != nil || got != want {
			t.Errorf("trace %s: %s, %v; want %s", words, got, err, want)
		}
		if w.json != strings.Contains(words, "-json") {
			t.Errorf("trace %s: json is %t", words, w.json)
		}
	}
	for words, says := range map[string]string{
		"-c": "-c needs a value", "--cube": "--cube needs a value", "-c 1 -c 2": "given twice", "-c x": "1 or greater",
		"-t -1": "1 or greater", "-x": "unknown flag", "icmp --cubes br1": "unknown flag",
	} {
		if _, err := parseWatching("trace", strings.Fields(words)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("trace %s: %v, want %q", words, err, says)
		}
	}
}

func TestStepsAreOneLineEach(t *testing.T) {
	at := time.Date(2026, 11, 20, 17, 4, 5, 678901000, time.UTC)
	for line, want := range map[string]string{
		`{"cube":"br1","port":"p1","direction":"ingress","verdict":"send","out":"p2"}`: "br1:p1          in   send p2              s",
		`{"cube":"br1","port":"p1","direction":"egress","program":3,"verdict":"pass"}`: "br1:p1          out/3 pass                 s",
		`{"cube":"fw","direction":"ingress","verdict":"drop","reason":"too-big"}`:      "fw              in   drop too-big         s",
		`{"cube":"br1","verdict":"drop","reason":"no-peer"}`:                           "br1                  drop no-peer         s",
		`{"cube":"\u001b[31mred","verdict":"leave","out":"veth1"}`:                     `\x1b[31mred          leave veth1          s`,
	} {
		one := step{Time: at, Packet: "00ff", Summary: "s"}
		if err := json.Unmarshal([]byte(line), &one); err != nil {
			t.Fatal(err)
		}
		if got := one.text(); got != at.Local().Format("15:04:05.000000")+" 00ff "+want {
			t.Errorf("%s:\n%q, want\n%q", line, got, want)
		}
	}
}
