// SPDX-License-Identifier: Apache-2.0

// The commands the client adds to the models: their requests, and what is said
// when they are used wrongly.

package cli

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

func TestAnAliasBecomesItsRequest(t *testing.T) {
	tests := []struct{ line, want string }{
		{"connect r1:p1 veth1", `POST /connect/ {"peer1":"r1:p1","peer2":"veth1"}`},
		{"connect 1:2 3", `POST /connect/ {"peer1":"1:2","peer2":"3"}`},
		{"disconnect r1:p1 br1:p2", `POST /disconnect/ {"peer1":"r1:p1","peer2":"br1:p2"}`},
		{"attach fw r1:p1", `POST /attach/ {"cube":"fw","port":"r1:p1"}`},
		{"attach fw r1:p1 position=auto", `POST /attach/ {"cube":"fw","port":"r1:p1","position":"auto"}`},
		{"attach fw r1:p1 position=first", `POST /attach/ {"cube":"fw","port":"r1:p1","position":"first"}`},
		{"attach fw veth1 position=last", `POST /attach/ {"cube":"fw","port":"veth1","position":"last"}`},
		{"attach fw r1:p1 before=7", `POST /attach/ {"cube":"fw","port":"r1:p1","before":"7"}`},
		{"attach fw r1:p1 after=nat", `POST /attach/ {"cube":"fw","port":"r1:p1","after":"nat"}`},
		{"detach fw r1:p1", `POST /detach/ {"cube":"fw","port":"r1:p1"}`},
		{"services", `GET /services/ `},
		{"services show", `GET /services/ `},
		{"show services", `GET /services/ `},
		{"services show router", `GET /services/router/ `},
		{"services add type=lib uri=libx.so name=x", `POST /services/ {"type":"lib","uri":"libx.so","name":"x"}`},
		{"services add name=x uri=127.0.0.1:9001 type=grpc", `POST /services/ {"type":"grpc","uri":"127.0.0.1:9001","name":"x"}`},
		{"services del router", `DELETE /services/router/ `},
		{"cubes", `GET /cubes/ `},
		{"cubes show", `GET /cubes/ `},
		{"cubes show r1 -json", `GET /cubes/r1/ `},
		{"cubes show r1 stats", `GET /cubes/r1/stats/ `},
		{"topology", `GET /topology/ `},
		{"topology show veth1", `GET /topology/veth1/ `},
		{"netdevs", `GET /netdevs/ `},
		{"drops", `GET /drops/ `},
		{"drops br1", `GET /drops/br1/ `},
		{"drops show br1", `GET /drops/br1/ `},
		{"netdevs show", `GET /netdevs/ `},
		{"netdevs show veth1", `GET /netdevs/veth1/ `},
		{"version", `GET /version/ `},
	}
	for _, tt := range tests {
		t.Run(tt.line, func(t *testing.T) {
			d := newDaemon(t, "unix", reply(http.StatusOK, "{}"))
			if r := d.run(words(tt.line)...); r.code != ExitOK || r.err != "" {
				t.Fatalf("exit %d, stderr %q", r.code, r.err)
			}
			want := "[" + strings.Replace(tt.want, " /", " /polycube/v1/", 1) + "]"
			if got := fmt.Sprint(d.requests()); got != want {
				t.Errorf("sent %s\nwant %s", got, want)
			}
		})
	}
}

func TestAWrongAliasIsAnsweredWithItsUsage(t *testing.T) {
	tests := []struct{ line, want string }{
		{"connect r1:p1", "takes 2 names, but 1"},
		{"connect a b c", "takes 2 names, but 3"},
		{"connect add a b", `no verb, but "add"`},
		{"connect a b c=d", `does not take "c="`},
		{"connect a b -", "takes no body"},
		{"disconnect a", "takes 2 names"},
		{"attach fw", "takes 2 names"},
		{"attach fw r1:p1 position=middle", "auto, first or last"},
		{"attach fw r1:p1 position=first before=x", "takes only one of"},
		{"attach fw r1:p1 where=x", `does not know "where="`},
		{"attach fw r1:p1 before=", "needs the name of a cube"},
		{"attach show fw r1:p1", "no verb"},
		{"detach fw", "takes 2 names"},
		{"detach fw r1:p1 position=first", "does not take"},
		{"services router", "does not take"},
		{"services show a b", "takes one name"},
		{"cubes show r1 ports", "takes one name"},
		{"services set router", `no verb "set"`},
		{"services del", "takes one name"},
		{"services add type=lib uri=x", "needs name="},
		{"services add type=lib uri=x name=", "needs name="},
		{"services add type=lib uri=x name=y z=1", `does not know "z="`},
		{"services add type=tcp uri=x name=y", `lib or grpc, not "tcp"`},
		{"services add x type=lib uri=x name=y", `options only, but "x"`},
		{"services add type=lib uri=x name=y -", "takes no body"},
		{"cubes r1", "does not take"},
		{"cubes del r1", `no verb "del"`},
		{"cubes add r1", "SERVICE add r1"},
		{"cubes add a=b", `does not take "a="`},
		{"topology veth1", "does not take"},
		{"topology add veth1", `no verb "add"`},
		{"netdevs del veth1", `no verb "del"`},
		{"version x", "takes no name"},
		{"version add", "no verb"},
		{"completion", "the name of a shell: bash, zsh or fish"},
		{"completion zhs", "did you mean zsh?"},
		{"completion bash zsh", "the name of a shell"},
		{"attach n1 r1:p1 positon=last", `"positon=": did you mean position=?`},
		{"attach n1 r1:p1 position=lats", "did you mean last?"},
		{"services add tpye=lib uri=x name=y", "did you mean type=?"},
		{"services add type=gprc uri=x name=y", "did you mean grpc?"},
		{"services shwo", `"shwo": did you mean show?`},
		{"cubes ad", `"ad": did you mean add?`},
		{"topology veth1", `"veth1": write topology show veth1`},
		{"services router", `"router": write services show router`},
	}
	for _, tt := range tests {
		t.Run(tt.line, func(t *testing.T) {
			d := newDaemon(t, "unix", reply(http.StatusOK, "{}"))
			r := d.run(words(tt.line)...)
			usage := "Usage: polycubectl " + aliases[words(tt.line)[0]].Usage
			if r.code != ExitUsage || r.out != "" || !strings.Contains(r.err, tt.want) || !strings.Contains(r.err, usage) {
				t.Errorf("exit %d, stdout %q, stderr %q", r.code, r.out, r.err)
			}
			if n := len(d.requests()); n != 0 {
				t.Errorf("%d requests were sent", n)
			}
		})
	}
}

func TestAnAliasExplainsItselfWithoutTheDaemon(t *testing.T) {
	for _, name := range []string{"connect", "disconnect", "attach", "detach", "services", "cubes", "topology", "netdevs", "drops", "trace", "capture", "version", "completion"} {
		r := runWith(func(string) string { return "" }, nil, name, "?")
		want := aliases[name].help()
		if r.code != ExitOK || r.err != "" || r.out != want || !strings.HasPrefix(want, "Usage: polycubectl "+aliases[name].Usage+"\n") {
			t.Errorf("%s: exit %d, stdout %q, stderr %q", name, r.code, r.out, r.err)
		}
	}
}

func TestTopologyIsVerboseAndHidesIdentifiers(t *testing.T) {
	const body = `[{"name":"r1","uuid":"U","ports":[{"name":"p1","peer":"v1"},{"name":"p2","peer":"v2"}]},{"name":"br1","uuid":"V","ports":[]}]`
	d := newDaemon(t, "unix", reply(http.StatusOK, body))
	want := "name  name (ports)  peer (ports)\nr1    p1            v1\n      p2            v2\nbr1\n"
	if r := d.run("topology"); r.out != want {
		t.Errorf("got\n%s\nwant\n%s", r.out, want)
	}
}

func TestAServiceIsShownWithItsModelReadable(t *testing.T) {
	d := newDaemon(t, "unix", reply(http.StatusOK, `[{"name":"x","servicecontroller":"libx.so","datamodel":"module x {\n\tleaf y;\n}\n"}]`))
	want := "name: x\nservicecontroller: libx.so\ndatamodel:\n module x {\n \tleaf y;\n }\n"
	if r := d.run("services", "show", "x"); r.out != want {
		t.Errorf("got\n%s\nwant\n%s", r.out, want)
	}
}

func TestVersionShowsBothSides(t *testing.T) {
	d := newDaemon(t, "unix", reply(http.StatusOK, `{"polycubed":{"version":"2.0"}}`))
	if r := d.run("version"); r.code != ExitOK || r.out != "polycubectl:\n version: dev\npolycubed:\n version: 2.0\n" {
		t.Errorf("exit %d, stdout %q, stderr %q", r.code, r.out, r.err)
	}
	if r := d.run("version", "show", "-yaml"); r.out != "polycubectl:\n  version: dev\npolycubed:\n  version: \"2.0\"\n" {
		t.Errorf("stdout %q", r.out)
	}
	absent := map[string]string{"POLYCUBECTL_SOCKET": "/nonexistent/d.sock"}
	r := runWith(func(k string) string { return absent[k] }, nil, "version")
	if r.code != ExitContact || r.out != "polycubectl:\n version: dev\n" || !strings.Contains(r.err, "/nonexistent/d.sock") {
		t.Errorf("without a daemon: exit %d, stdout %q, stderr %q", r.code, r.out, r.err)
	}
}
