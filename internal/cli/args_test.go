// SPDX-License-Identifier: Apache-2.0

// Every line of the grammar, as the request it puts on the wire.

package cli

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// words splits on blanks; a test that needs a blank in a word builds its own slice.
func words(line string) []string { return strings.Fields(line) }

func TestACommandLineBecomesOneRequest(t *testing.T) {
	tests := []struct {
		name string
		line string
		want string
	}{
		{"add is POST", "router add r1 loglevel=DEBUG", `POST /router/r1/ {"loglevel":"DEBUG"}`},
		{"a cube's name can come first", "r1 ports add p1 ip=10.0.0.1/24 peer=veth1", `POST /r1/ports/p1/ {"ip":"10.0.0.1/24","peer":"veth1"}`},
		{"add without pairs sends an empty object", "router add r1", `POST /router/r1/ {}`},
		{"set of one pair is a scalar on the leaf", "r1 ports p1 set peer=veth2", `PATCH /r1/ports/p1/peer/ "veth2"`},
		{"set of one number", "br1 set aging-time=300", `PATCH /br1/aging-time/ 300`},
		{"set of one boolean", "br1 set stp=true", `PATCH /br1/stp/ true`},
		{"set of nothing is an empty string", "r1 ports p1 set peer=", `PATCH /r1/ports/p1/peer/ ""`},
		{"set of quotes is an empty string", `r1 ports p1 set peer=""`, `PATCH /r1/ports/p1/peer/ ""`},
		{"set of a quoted number is text", `r1 set name="007"`, `PATCH /r1/name/ "007"`},
		{"set of a dotted key descends", "br1 set stp.hello=2", `PATCH /br1/stp/hello/ 2`},
		{"set of several is an object on the node", "sf actions p1 set action=FORWARD outport=p2", `PATCH /sf/actions/p1/ {"action":"FORWARD","outport":"p2"}`},
		{"show is GET", "r1 show ports p1 ip", `GET /r1/ports/p1/ip/ `},
		{"show alone is the root", "show", `GET / `},
		{"the verb can be first", "show r1 ports", `GET /r1/ports/ `},
		{"the verb can be last", "r1 ports show", `GET /r1/ports/ `},
		{"del is DELETE", "br1 ports del p1", `DELETE /br1/ports/p1/ `},
		{"del in the middle", "br1 del ports p1", `DELETE /br1/ports/p1/ `},
		{"del first", "del br1 ports p1", `DELETE /br1/ports/p1/ `},
		{"del of a service's cube", "del router r1", `DELETE /router/r1/ `},
		{"no verb is an action with pairs", "fw chain EGRESS append src=10.0.0.1 l4proto=TCP dport=80 action=DROP", `POST /fw/chain/EGRESS/append/ {"src":"10.0.0.1","l4proto":"TCP","dport":80,"action":"DROP"}`},
		{"no verb is an action without a body", "nat1 rule masquerade enable", `POST /nat1/rule/masquerade/enable/ `},
		{"an action of a list", "br1 fdb flush", `POST /br1/fdb/flush/ `},
		{"two keys, one with a slash", "r1 route add 10.0.3.0/24 10.0.1.2 pathcost=5", `POST /r1/route/10.0.3.0%2F24/10.0.1.2/ {"pathcost":5}`},
		{"three keys", "lb0 service add 10.0.0.1 80 TCP name=web", `POST /lb0/service/10.0.0.1/80/TCP/ {"name":"web"}`},
		{"keys before the verb and after it", "lb0 service 10.0.0.1 80 TCP backend add 192.0.2.10 port=80 weight=20", `POST /lb0/service/10.0.0.1/80/TCP/backend/192.0.2.10/ {"port":80,"weight":20}`},
		{"a number as key", "fw chain INGRESS rule show 0", `GET /fw/chain/INGRESS/rule/0/ `},
		{"an enum set by the leaf", "fw chain INGRESS set default=DROP", `PATCH /fw/chain/INGRESS/default/ "DROP"`},
		{"percent and hash in a key", "r1 show 100%25#?x", `GET /r1/100%2525%23%3Fx/ `},
		{"an IPv6 prefix as key", "r1 route show 2001:db8::/32", `GET /r1/route/2001:db8::%2F32/ `},
		{"a dotted key nests", "x add y a.b=1 a.c=two d=3", `POST /x/y/ {"a":{"b":1,"c":"two"},"d":3}`},
		{"nothing is escaped for HTML", "x add y a=<b>&c", `POST /x/y/ {"a":"<b>&c"}`},
		{"a value may begin with a dash", "x add y metric=-5", `POST /x/y/ {"metric":-5}`},
		{"help of an action or a node", "r1 ?", `OPTIONS /r1/?help=NONE `},
		{"help of add", "r1 ports add ?", `OPTIONS /r1/ports/?help=ADD `},
		{"help of set", "r1 set ?", `OPTIONS /r1/?help=SET `},
		{"help of show", "show r1 ?", `OPTIONS /r1/?help=SHOW `},
		{"help of del", "r1 ports del ?", `OPTIONS /r1/ports/?help=DEL `},
		{"help of the root with a verb", "add ?", `OPTIONS /?help=ADD `},
		{"help ignores pairs typed so far", "r1 ports add p1 peer=veth1 ?", `OPTIONS /r1/ports/p1/?help=ADD `},
		{"cubes has the daemon's help", "cubes ?", `OPTIONS /cubes/?help=NONE `},
	}
	for _, network := range []string{"unix", "tcp"} {
		for _, tt := range tests {
			t.Run(network+"/"+tt.name, func(t *testing.T) {
				d := newDaemon(t, network, reply(http.StatusOK, "{}"))
				if r := d.run(words(tt.line)...); r.code != ExitOK || r.err != "" {
					t.Fatalf("exit %d, stderr %q", r.code, r.err)
				}
				want := strings.Replace(tt.want, " /", " /polycube/v1/", 1)
				if got := fmt.Sprint(d.requests()); got != "["+want+"]" {
					t.Errorf("sent %s\nwant [%s]", got, want)
				}
			})
		}
	}
}

func TestAWrongCommandLineIsAUsageErrorAndSendsNothing(t *testing.T) {
	tests := []struct {
		name string
		args []string
		want string // in the text on stderr
	}{
		{"two verbs", words("r1 add show"), `two verbs are given, "add" and "show"`},
		{"the same verb twice", words("show r1 show"), "two verbs"},
		{"a path word after a pair", words("r1 add a=b p1"), `"p1" comes after "a="`},
		{"a verb after a pair", words("r1 a=b add"), `"add" comes after "a="`},
		{"two equal signs", words("r1 add a=b=c"), `"a=b=c" is not a valid format`},
		{"no key", words("r1 add =c"), "the key is missing"},
		{"blanks around =", words("r1 set loglevel = debug"), `write key=value, without spaces around "="`},
		{"an empty part of a dotted key", words("r1 add a..b=c"), "a part of the key is empty"},
		{"a mistyped flag", words("show r1 -jsno"), `unknown flag "-jsno": did you mean -json?`},
		{"a flag of del with a dash too few", words("r1 route del -all"), `unknown flag "-all": did you mean --all?`},
		{"a flag of del with a value", words("r1 route del --all=1"), `unknown flag "--all=1"`},
		{"a flag of del before it", words("r1 route --all del"), `"--all" is accepted only after the verb del`},
		{"a flag with a dash too many", words("show r1 --yaml"), `unknown flag "--yaml": did you mean -yaml?`},
		{"a value without its key", words("r1 set loglevel debug"), "set needs key=value, as in"},
		{"a repeated key", words("r1 add a=b a=c"), `"a=" is given twice`},
		{"a key that is a value and an object", words("r1 add a=b a.c=d"), "conflicts with another key"},
		{"a key that is an object and a value", words("r1 add a.c=d a=b"), "conflicts with another key"},
		{"a flag without show", words("r1 -json"), "only after the verb show"},
		{"a flag before show", words("-json show r1"), "only after the verb show"},
		{"a flag with add", words("r1 add p1 -json"), "only after the verb show"},
		{"a page of a change", words("add r1 -limit=5"), "only after the verb show"},
		{"two limits", words("show r1 list -limit=5 -limit=6"), `"-limit=" is given twice`},
		{"a filter without a condition", words("show r1 list -filter="), "needs a value"},
		{"an unknown flag", words("show r1 -xml"), `unknown flag "-xml"`},
		{"a negative list key", words("fw rule del -1"), `unknown flag "-1"`},
		{"a flag with a value it does not take", words("show r1 -json=1"), "unknown flag"},
		{"two forms", words("show r1 -json -yaml"), "two output formats"},
		{"an empty hidden key", words("show r1 -hide=a,,b"), "an empty key"},
		{"help in the middle", words("r1 ? ports"), `"?" must be the last word`},
		{"-h between other words", words("r1 -h show"), "as the last word"},
		{"--help with other words", words("--help r1"), "as the last word"},
		{"an empty word", []string{"r1", "show", ""}, "empty word"},
		{"the parent folder", words("show r1 .."), "cannot be a name"},
		{"this folder", words("router add ."), "cannot be a name"},
		{"not UTF-8", []string{"show", "r\xff"}, "not valid UTF-8"},
		{"pairs with show", words("r1 show a=b"), "show takes no key=value"},
		{"pairs with del", words("r1 del a=b"), "del takes no key=value"},
		{"a body asked for with show", words("r1 show -"), "show takes no body"},
		{"only a verb", words("del"), "specify a service, a cube or a command"},
		{"only a pair", words("a=b"), "specify a service, a cube or a command"},
		{"set of nothing", words("r1 set"), "set needs key=value"},
		{"an instance later", words("r1 show --instance a"), "before everything else"},
		{"an instance without a name", words("--instance"), "needs the name"},
		{"an instance that is a path", words("--instance ../x show r1"), "not the name of an instance"},
		{"an empty instance", []string{"--instance=", "show"}, "not the name of an instance"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := newDaemon(t, "unix", reply(http.StatusOK, "{}"))
			r := d.run(tt.args...)
			if r.code != ExitUsage || r.out != "" || !strings.Contains(r.err, tt.want) {
				t.Errorf("exit %d, stdout %q, stderr %q; want 64 and %q", r.code, r.out, r.err, tt.want)
			}
			if n := len(d.requests()); n != 0 {
				t.Errorf("%d requests were sent", n)
			}
		})
	}
}

func TestTheSingleParameterFormCanBeTurnedOff(t *testing.T) {
	cmd, err := parse(words("r1 ports p1 set peer=veth2"))
	if err != nil {
		t.Fatal(err)
	}
	p, err := resolve(cmd, false)
	if err != nil {
		t.Fatal(err)
	}
	if got := p.req.method + " " + p.req.target() + " " + string(p.req.body); got != `PATCH r1/ports/p1/ {"peer":"veth2"}` {
		t.Error(got)
	}
}

func TestUsageIsPrintedWithoutADaemon(t *testing.T) {
	for _, args := range [][]string{nil, {"-h"}, {"--help"}, {"--instance", "a"}} {
		r := runWith(func(string) string { return "" }, nil, args...)
		if r.code != ExitOK || r.err != "" || !strings.Contains(r.out, "attach CUBE PORT") {
			t.Errorf("%q: exit %d, stdout %q, stderr %q", args, r.code, r.out, r.err)
		}
	}
}
