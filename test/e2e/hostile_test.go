// SPDX-License-Identifier: Apache-2.0

// Services that hang, crash, lie and flood, many at once on one daemon. Whatever they do, it answers, reports the
// problem, and the traffic of other cubes flows without a loss.

package e2e

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/polycube/polycube/test/executable"
	"github.com/polycube/polycube/test/netns"
)

// attack is the behaviour of a service and the daemon's reaction.
type attack struct {
	name string
	// add is the answer to the request that adds the service: "" is success. create is the same for a cube of it.
	add, create string
	// then is a request for the cube, with its answer.
	method, path, body string
	status             int
	says               string
	// lost says that the service is lost as a result, degraded that the cube is.
	lost, degraded bool
	// adopted says that the service restarts and the cube with it, unharmed.
	adopted bool
}

var attacks = []attack{
	{name: "crash-start", add: "crashes in start"},
	{name: "hang-start", add: "no such file"},
	{name: "crash-describe", add: "crashes in describe"},
	{name: "hang-describe", add: "query its description"},
	{name: "crash-session", add: "crashes in session"},
	{name: "hang-session", add: "not ready"},
	{name: "lie-session", add: "Ready"},
	{name: "lie-empty", add: "protocol"},
	{name: "lie-protocol", add: "protocol"},
	{name: "lie-name", add: "helloworld"},
	{name: "lie-kernel", add: "99.0"},
	{name: "lie-model", add: "model"},
	{name: "lie-size", add: "larger than max"},
	{name: "lie-elf", add: "tc object"},
	{name: "lie-hook", add: "tc object"},
	{name: "lie-twice", add: "twice"},
	{name: "lie-helper", add: "global variables must be constants"},
	{name: "lie-verifier", create: "verif"},
	{name: "lie-constant", create: "nonsense"},
	{name: "lie-constants", create: "ingress_action"},
	{name: "lie-program", create: "nonsense"},
	{name: "lie-more", create: "global variables must be constants"},
	{name: "lie-map", create: "pcn_entries"},
	{name: "lie-maps", create: "1048576"},
	{name: "hang-open", create: "did not answer"},
	{name: "hang-prepare", create: "did not answer"},
	{name: "hang-commit", create: "did not answer"},
	{name: "crash-open", create: "service crash-open", lost: true},
	{name: "crash-prepare", create: "service crash-prepare", lost: true},
	{name: "crash-commit", create: "service crash-commit", lost: true},
	{name: "hang-state", method: "GET", path: "/cubes/CUBE", status: 200, says: "loglevel", degraded: true},
	{name: "crash-state", method: "GET", path: "/cubes/CUBE", status: 200, says: "loglevel", lost: true, adopted: true},
	{name: "lie-json", method: "GET", path: "/cubes/CUBE", status: 200, says: "loglevel", degraded: true},
	{name: "lie-array", method: "GET", path: "/cubes/CUBE", status: 200, says: "loglevel", degraded: true},
	{name: "lie-type", method: "GET", path: "/cubes/CUBE", status: 200, says: "loglevel"},
	{name: "lie-deep", method: "GET", path: "/cubes/CUBE", status: 200, says: "loglevel", degraded: true},
	{name: "lie-long", method: "GET", path: "/cubes/CUBE", status: 200, says: "loglevel", degraded: true},
	{name: "lie-bytes", method: "GET", path: "/cubes/CUBE", status: 200, says: "loglevel", degraded: true},
	{name: "hang-action", method: "POST", path: "/SERVICE/CUBE/box/act", body: "{}", status: 503, says: "Action", degraded: true},
	{name: "crash-action", method: "POST", path: "/SERVICE/CUBE/box/act", body: "{}", status: 503, says: "crash-action", lost: true, adopted: true},
	{name: "lie-output", method: "POST", path: "/SERVICE/CUBE/box/act", body: "{}", status: 500, says: "done"},
	{name: "lie-edit", method: "POST", path: "/SERVICE/CUBE/box/act", body: "{}", status: 400, says: "lie-edit has no"},
	{name: "flood-logs"}, {name: "flood-metrics"}, {name: "flood-maps"}, {name: "flood-programs"},
	{name: "flood-packets", method: "POST", path: "/attach", body: `{"cube":"CUBE","port":"veth3"}`, status: 200},
	{name: "eat-memory", method: "GET", path: "/cubes/CUBE", status: 200, says: "loglevel", lost: true}, {name: "eat-processes"},
}

// maliciousModel is a transparent cube with an action.
const maliciousModel = `// SPDX-License-Identifier: Apache-2.0
module NAME {
  yang-version 1.1;
  namespace "http://polycube.network/NAME";
  prefix NAME;
  import polycube-base { prefix polycube-base; }
  import polycube-transparent-base { prefix polycube-transparent-base; }
  organization "Polycube";
  description "A service that means harm.";
  revision 2026-11-20 { description "First revision."; }
  polycube-base:service-name "NAME";
  polycube-base:service-description "A service that means harm";
  polycube-base:service-version "1.0";
  polycube-base:service-min-kernel-version "5.15";
  uses polycube-transparent-base:transparent-base-yang-module;
  container box {
    description "A place for an action.";
    action act {
      description "Acts.";
      output {
        leaf done { type boolean; description "Whether it did."; }
      }
    }
  }
}
`

// installMalicious installs this test binary, with its model and objects, where services are started from.
func installMalicious(t *testing.T) string {
	t.Helper()
	dir := installed(t)
	files := map[string]string{
		"good": "../../cubes/transparenthelloworld/transparenthelloworld", "liar": "testdata/liar",
		"forbidden": "../../cube/foreign/testdata/forbidden",
	}
	copies := map[string]string{"service": "/proc/self/exe"}
	for name, from := range files {
		for _, hook := range []string{".tc.o", ".xdp.o"} {
			copies[name+hook] = from + hook
		}
	}
	for name, from := range copies {
		text, err := os.ReadFile(from)
		if err == nil {
			err = executable.Write(filepath.Join(dir, name), text)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "model.yang"), []byte(maliciousModel), 0o644); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "service")
}

// answers fails unless a request has the expected answer; want "" is success.
func (d *daemon) answers(t *testing.T, want, method, path, body string) (ok bool) {
	t.Helper()
	status, text, err := d.Request(method, path, body)
	switch {
	case err != nil:
		t.Errorf("%s %s: %v", method, path, err)
	case want == "" && status >= 300:
		t.Errorf("%s %s: %d %s", method, path, status, clip(text))
	case want != "" && (status < 400 || !strings.Contains(text, want)):
		t.Errorf("%s %s: %d %s, want %q", method, path, status, clip(text), want)
	default:
		return want == ""
	}
	return false
}

// perform has one service do its attack.
func (d *daemon) perform(t *testing.T, executable string, e attack, traffic *stream) {
	t.Helper()
	cube := "c-" + e.name
	if !d.answers(t, e.add, "POST", "/services", fmt.Sprintf(`{"type":"lib","uri":%q,"name":%q}`, executable, e.name)) {
		d.answers(t, "", "GET", "/cubes", "")
		return
	}
	if d.answers(t, e.create, "POST", "/"+e.name+"/"+cube, "{}") && e.status != 0 {
		names := strings.NewReplacer("SERVICE", e.name, "CUBE", cube)
		path := names.Replace(e.path)
		status, text, err := d.Request(e.method, path, names.Replace(e.body))
		if err != nil || status != e.status || !strings.Contains(text, e.says) {
			t.Errorf("%s %s: %d, %v: %s; want %d with %q", e.method, path, status, err, clip(text), e.status, e.says)
		}
	}
	d.answers(t, "", "GET", "/cubes", "")
	if e.lost {
		netns.Eventually(t, patience, func() error {
			if st := d.serviceState(e.name); st.Restarts == 0 {
				return fmt.Errorf("the service was not started again: %+v", st)
			}
			return nil
		})
	}
	netns.Eventually(t, patience, func() error {
		degraded, err := d.isDegraded(cube)
		if e.degraded && !degraded {
			degraded = d.saidDegraded(cube) // and was taken over again since
		}
		if err == nil && degraded != e.degraded && (!e.lost || e.adopted) {
			err = fmt.Errorf("degraded is %v, want %v", degraded, e.degraded)
		}
		return err
	})
	if strings.HasPrefix(e.name, "flood") || strings.HasPrefix(e.name, "eat") {
		traffic.Flowing(4000)
	}
	if e.create == "" {
		d.answers(t, "", "DELETE", "/"+e.name+"/"+cube, "")
	}
	d.answers(t, "", "DELETE", "/services/"+e.name, "")
}

// isDegraded reports whether a cube, if it exists, is degraded.
func (d *daemon) isDegraded(cube string) (bool, error) {
	status, text, err := d.Request("GET", "/cubes/"+cube+"/stats", "")
	if err != nil || status == http.StatusNotFound {
		return false, err
	}
	return strings.Contains(text, `"degraded":`) && !strings.Contains(text, `"degraded":""`), nil
}

// saidDegraded reports whether the daemon logged that a cube was degraded.
func (d *daemon) saidDegraded(cube string) bool {
	for line := range strings.Lines(d.out.String()) {
		if strings.Contains(line, cube) && strings.Contains(line, "degraded: its code is no longer called") {
			return true
		}
	}
	return false
}

func TestServicesThatMeanHarm(t *testing.T) {
	t.Parallel()
	executable := installMalicious(t)
	d := start(t)
	h1, h2 := d.lab.Host("veth1", "10.0.0.1/24"), d.lab.Host("veth2", "10.0.0.2/24")
	d.lab.Host("veth3", "10.0.3.1/24")
	d.Do("simplebridge add br1")
	d.Do("br1 ports add p1 peer=veth1")
	d.Do("br1 ports add p2 peer=veth2")
	traffic := startStream(t, h1, h2)
	t.Run("attacks", func(t *testing.T) {
		// A few at a time: the number of processes that the machine can start at once is not tested.
		turn := make(chan struct{}, 6)
		var done sync.WaitGroup
		for _, e := range attacks {
			done.Go(func() {
				turn <- struct{}{}
				defer func() { <-turn }()
				t.Run(e.name, func(t *testing.T) { d.perform(t, executable, e, traffic) })
			})
		}
		done.Wait()
	})
	traffic.Flowing(100)
	if sent := traffic.Stop(); sent < 1000 {
		t.Errorf("only %d frames were sent", sent)
	}
	reaches(t, h1, "10.0.0.2")
	if services := d.Must(http.StatusOK, "GET", "/services", ""); strings.Contains(services, executable) {
		t.Errorf("services are left: %s", services)
	}
	if lines := bytes.Count([]byte(d.out.String()), []byte("\n")); lines > 5000 {
		t.Errorf("%d lines were logged", lines)
	}
}
