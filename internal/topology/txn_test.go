// SPDX-License-Identifier: Apache-2.0

package topology

// Transactions happen whole or not at all, whichever step fails, and one at a time.

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath"
	"github.com/polycube/polycube/internal/topology/service"
	"github.com/polycube/polycube/internal/topology/world"
	"github.com/polycube/polycube/internal/yang"
)

// stand is a topology in which each request below changes something.
func stand(t *testing.T) *lab {
	l := newLab(t, "veth1", "veth2")
	l.must(bridges...)
	l.must(`connect br1:p1 br2:p1`, `connect br1:p2 veth1`, `attach th1 br1:p1`, `attach th2 veth1`,
		`post br1 fdb entry aa <<< {"port":"p1"}`)
	return l
}

// changes are valid requests that reach every step of a transaction.
var changes = []string{
	`create toybridge new <<< {"ports":[{"name":"p1","peer":"veth2"}]}`,
	`many <<< [{"service-name":"toyfilter","name":"f9"},{"service-name":"toybridge","name":"b9","ports":[{"name":"p","tcubes":["f9"]}]}]`,
	`patch br1 <<< {"fdb":{"aging-time":5},"loglevel":"DEBUG"}`,
	`post br1 ports p3 <<< {"peer":"veth2"}`,
	`del br1 ports p1`,
	`delete br1`,
	`disconnect br1:p1 br2:p1`,
	`attach th3 br1:p1 position=last`,
	`act br1 fdb learn <<< {"address":"bb"}`,
}

func TestWhateverFailsLeavesNoTrace(t *testing.T) {
	// A step of the data plane and the store, or "NAME Method" of a cube's code.
	steps := []string{"CreateCube", "Prepare", "Commit", "store", "br1 Prepare", "br1 Commit", "br2 Prepare", "br2 Commit",
		"new New", "new Prepare", "new Commit", "b9 Prepare", "b9 Commit", "br1 Action"}
	hit := map[string]int{}
	for _, how := range []string{"error", "panic"} {
		for _, step := range steps {
			for _, change := range changes {
				l := stand(t)
				before := l.state()
				reached := false
				fail := func(at string) error {
					if at != step || reached {
						return nil
					}
					reached = true
					if how == "panic" {
						panic(errInjected)
					}
					return errInjected
				}
				l.plane.setFail(fail)
				l.b.setFail(fail)
				err := l.do(change)
				l.plane.setFail(nil)
				l.b.setFail(nil)
				if reached != (err != nil) || (reached && !strings.Contains(err.Error(), "injected")) {
					t.Errorf("%s with %s at %q (reached: %v) answers %v", change, how, step, reached, err)
				}
				if !reached {
					continue
				}
				hit[step]++
				l.wantState(before)
				if step != "br1 Action" || how == "error" {
					l.must(change) // and it works when nothing fails
				}
			}
		}
	}
	for _, step := range steps {
		if hit[step] == 0 {
			t.Errorf("no request reaches the step %q", step)
		}
	}
}

func TestUndoGoesBackwards(t *testing.T) {
	l := stand(t)
	l.b.calls()
	l.plane.setFail(func(step string) error {
		if step == "store" {
			return errInjected
		}
		return nil
	})
	if err := l.do(`disconnect br1:p1 br2:p1`); !errors.Is(err, errInjected) {
		t.Fatalf("answers %v", err)
	}
	want := []string{"br1 Prepare", "br2 Prepare", "br1 Commit", "br2 Commit", "br2 Undo", "br1 Undo"}
	if got := l.b.calls(); !slices.Equal(got, want) {
		t.Errorf("the cubes were called %q, want %q", got, want)
	}
}

func TestAFailedUndoDegradesTheCube(t *testing.T) {
	l := stand(t)
	l.b.setFail(func(call string) error {
		if call == "br1 Undo" {
			return errInjected
		}
		return nil
	})
	l.plane.setFail(func(step string) error {
		if step == "Commit" {
			return errInjected
		}
		return nil
	})
	if err := l.do(`patch br1 <<< {"fdb":{"aging-time":5}}`); err == nil {
		t.Fatal("no error")
	}
	l.plane.setFail(nil)
	if got := l.Degraded("br1"); !strings.Contains(got, "undoing a change: injected") {
		t.Errorf("degraded: %q", got)
	}
}

func TestPanicInAHandlerDegradesTheCubeAlone(t *testing.T) {
	l := stand(t)
	l.b.setFail(func(call string) error {
		if call == "br1 State" {
			panic("no state today")
		}
		return nil
	})
	if _, err := l.read("br1"); err == nil {
		t.Error("a panic in State reads as if nothing was")
	}
	l.b.setFail(nil)
	if got := l.Degraded("br1"); got != "State: no state today" {
		t.Errorf("degraded: %q", got)
	}
	if n := graphNode(l, "br1"); n == nil {
		t.Error("the cube is out of the graph: its traffic stopped")
	}
	l.wantRead(`300`, "br1", "fdb", "aging-time") // configuration is still readable
	before := l.state()
	if err := l.do(`patch br1 fdb aging-time <<< 5`); !errors.Is(err, cube.ErrUnsupported) || !strings.Contains(err.Error(), "delete the cube and create it again") {
		t.Errorf("a change answers %v", err)
	}
	l.wantState(before)
	l.wantRead(`300`, "br2", "fdb", "aging-time")
	l.must(`patch br2 fdb aging-time <<< 5`, `del br2 ports p1`) // the other side's peer is still cleared
	l.wantRead(`""`, "br1", "ports", "p1", "peer")
	l.must(`delete br1`, bridges[0])
	if got := l.Degraded("br1"); got != "" {
		t.Errorf("the new cube is degraded: %q", got)
	}
}

func TestConstantsAndLevelReachTheGraph(t *testing.T) {
	l := newLab(t)
	l.must(`create toybridge br <<< {"loglevel":"warn"}`)
	n := graphNode(l, "br")
	if n.LogLevel != datapath.LogWarn || n.Constants["aging_time"] != uint32(300) {
		t.Errorf("the graph has %v and %v", n.LogLevel, n.Constants)
	}
	prepared := l.plane.prepared
	l.must(`post br fdb entry aa <<< {"port":"p1"}`)
	if l.plane.prepared != prepared {
		t.Error("a list entry relinked the programs")
	}
	l.must(`patch br fdb aging-time <<< 20`)
	if got := graphNode(l, "br").Constants["aging_time"]; got != uint32(20) {
		t.Errorf("after the change the graph has %v", got)
	}
}

func TestMapSizesComeWithTheCreation(t *testing.T) {
	l := newLab(t)
	l.b.sizes = map[string]uint32{"fdb": 77}
	l.must(`create toybridge br`)
	for _, spec := range l.plane.cubes {
		if spec.MapSizes["fdb"] != 77 || spec.Name != "br" || spec.Service != "toybridge" || spec.Transparent {
			t.Errorf("the cube was made as %+v", spec)
		}
	}
}

func TestMapSizesChangeWithTheConfiguration(t *testing.T) {
	l := newLab(t)
	l.b.sizes = map[string]uint32{"fdb": 77}
	l.must(`create toybridge br`)
	size := func() uint32 {
		l.plane.mu.Lock()
		defer l.plane.mu.Unlock()
		return l.plane.cubes[1].MapSizes["fdb"]
	}
	l.b.resized = map[string]uint32{"fdb": 99}
	for _, step := range []string{"ResizeMaps", "Prepare", "br Commit", "Commit", "store"} {
		fail := func(at string) error {
			if at == step {
				return errInjected
			}
			return nil
		}
		l.plane.setFail(fail)
		l.b.setFail(fail)
		if err := l.do(`patch br note <<< "x"`); !errors.Is(err, errInjected) {
			t.Errorf("%s fails: %v", step, err)
		}
		if got := size(); got != 77 {
			t.Errorf("after %s failed, the size is %d, want 77", step, got)
		}
	}
	l.plane.setFail(nil)
	l.b.setFail(nil)
	for i, note := range []string{"x", "y"} {
		was := graphNode(l, "br").Maps
		l.must(`patch br note <<< "` + note + `"`)
		if got, linked := size(), graphNode(l, "br").Maps != was; got != 99 || linked != (i == 0) {
			t.Errorf("change %d: the size is %d, linked anew %v", i, got, linked)
		}
	}
}

func TestDeletingStateAsksTheCube(t *testing.T) {
	l := newLab(t)
	l.must(bridges[0], `post br1 fdb entry aa <<< {"port":"p1"}`)
	l.b.learned["bb"] = "p2"
	l.must(`del br1 fdb entry aa`, `del br1 fdb entry bb`)
	if len(l.b.learned) != 0 {
		t.Error("bb is still learned")
	}
	var missing *yang.Error
	if err := l.do(`del br1 fdb entry bb`); !errors.As(err, &missing) || missing.Tag != yang.DataMissing {
		t.Errorf("deleting it again answers %v", err)
	}
}

func TestNames(t *testing.T) {
	l := newLab(t)
	long := strings.Repeat("n", 1000)
	for _, name := range []string{"connect", "disconnect", "attach", "detach", "services", "cubes", "topology", "netdevs", "version",
		"add", "del", "show", "set", "metrics", "openapi.json", "toybridge", "toyfilter", "", ".", "..", "../x", "a/b", "a:b", "a b", "-a",
		"ä", "a\x00b", "a\n", long, strings.Repeat("n", 65)} {
		before := l.state()
		if err := l.Create(context.Background(), "toybridge", name, nil); !errors.Is(err, cube.ErrInvalid) || len(err.Error()) > 400 {
			t.Errorf("a cube can be named %.20q: %v", name, err)
		}
		if name != "" {
			body := fmt.Sprintf(`{"ports":[{"name":%q}]}`, name)
			err := l.Create(context.Background(), "toybridge", "br", []byte(body))
			if world.Reserved[name] || strings.HasPrefix(name, "toy") {
				if err != nil {
					t.Errorf("a port cannot be named %q: %v", name, err)
				}
				l.must(`delete br`)
				continue
			}
			if err == nil {
				t.Errorf("a port can be named %.20q", name)
			}
		}
		l.wantState(before)
	}
	if err := l.do(`create toybridge br <<< {"ports":[{"name":"ns_port_p1"}]}`); !errors.Is(err, cube.ErrInvalid) {
		t.Errorf("a port can take a name of shadow cubes: %v", err)
	}
	l.must(`create toybridge br`)
	for _, line := range []string{`create toybridge br`, `create toyfilter br`} {
		if err := l.do(line); !errors.Is(err, cube.ErrExists) {
			t.Errorf("%s answers %v", line, err)
		}
	}
	if err := l.Delete(context.Background(), "toyfilter", "br"); !errors.Is(err, cube.ErrNotFound) {
		t.Errorf("deleting a bridge as a filter answers %v", err)
	}
}

func TestRefusedBodies(t *testing.T) {
	cases := []struct{ line, says string }{
		{`create toybridge x <<< {"shadow":true}`, "does not support namespaces"},
		{`create toybridge x <<< {"name":"y"}`, "the body has"},
		{`create toybridge x <<< {"na\u006de":"y"}`, "the body has"},
		{`create toybridge x <<< {"name":5}`, "the body has"},
		{`create toybridge x <<< {"service-name":"toyfilter"}`, "toyfilter"},
		{`create toybridge x <<< {"uuid":"00000000-0000-0000-0000-000000000000"}`, "read-only"},
		{`create toybridge x <<< {"nope":1}`, "nope"},
		{`create toybridge x <<< {"name":"x"`, ""},
		{`create toybridge x <<< {"type":"XDP"}`, "XDP_DRV"},
		{`create nope x`, "not found"},
		{`patch br1 <<< {"type":"XDP_DRV"}`, "type"},
		{`patch br1 ports p9 mac <<< "x"`, "p9"},
		{`patch br1 <<< {"ports":[{"name":"p1","peer":"nodev0"}],"note":"x"}`, "netdev nodev0: not found"},
		{`put br1 ports <<< [{"name":"p1"},{"name":"p2"},{"name":"3"},{"name":"4"},{"name":"5"},{"name":"6"},{"name":"7"},{"name":"8"},{"name":"9"}]`, "the maximum is 8"},
		{`del br1 ports p9`, "p9"},
		{`delete br9`, "cube br9: not found"},
	}
	l := stand(t)
	for _, c := range cases {
		before := l.state()
		if err := l.do(c.line); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s answers %v, want %q", c.line, err, c.says)
		}
		l.wantState(before)
	}
}

func TestReadsDoNotWaitForAChange(t *testing.T) {
	l := stand(t)
	inside, release := make(chan struct{}), make(chan struct{})
	l.plane.setFail(func(step string) error {
		if step == "Prepare" {
			close(inside)
			<-release
		}
		return nil
	})
	done := make(chan error, 1)
	go func() { done <- l.do(`patch br1 fdb aging-time <<< 5`) }()
	<-inside
	l.wantRead(`300`, "br1", "fdb", "aging-time")
	l.wantRead(`"br1:p1"`, "th1", "parent")
	if _, err := l.Topology(context.Background()); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := l.Connect(ctx, "br2:p2", "veth2"); !errors.Is(err, context.Canceled) {
		t.Errorf("a change that is not waited for any more answers %v", err)
	}
	close(release)
	if err := <-done; err != nil {
		t.Error(err)
	}
	l.wantRead(`5`, "br1", "fdb", "aging-time")
}

func TestConflictingRequestsAreSerialised(t *testing.T) {
	l := newLab(t, "veth1")
	l.must(bridges...)
	var wg sync.WaitGroup
	results := make([]error, 32)
	for i := range results {
		wg.Add(1)
		go func() {
			defer wg.Done()
			results[i] = l.do(fmt.Sprintf(`connect %s:p%d veth1`, []string{"br1", "br2"}[i%2], i/2%2+1))
		}()
	}
	// Readers and packets run concurrently.
	ctx, cancel := context.WithCancel(context.Background())
	var readers sync.WaitGroup
	for range 2 {
		readers.Add(1)
		go func() {
			defer readers.Done()
			for ctx.Err() == nil {
				_, _ = l.read("br1")
				_, _ = l.NetdevTopology(ctx, "veth1")
				l.PacketIn(1, &cube.PacketIn{Data: []byte("x")})
			}
		}()
	}
	wg.Wait()
	won := 0
	for _, err := range results {
		if err == nil {
			won++
		} else if !errors.Is(err, cube.ErrInUse) {
			t.Errorf("a loser is told %v", err)
		}
	}
	// Repetitions by the winner change nothing and succeed; all others are refused.
	if won != 8 {
		t.Errorf("%d of 32 requests succeeded, want the 8 for one port", won)
	}
	for i := range 50 {
		name := fmt.Sprint("c", i%5)
		wg.Add(1)
		go func() {
			defer wg.Done()
			_ = l.do(`create toybridge ` + name)
			_ = l.do(`delete ` + name)
		}()
	}
	wg.Wait()
	cancel()
	readers.Wait()
	l.state()
}

func TestAThousandLives(t *testing.T) {
	l := newLab(t, "veth1")
	before := l.state()
	l.b.log = nil
	seen := map[string]bool{}
	for i := range 1000 {
		l.must(`create toybridge br <<< {"ports":[{"name":"p1","peer":"veth1"},{"name":"p2"}]}`)
		rec := l.view.Load().Cubes["br"]
		if seen[rec.UUID] || rec.Ports["p1"].Slot != 0 || rec.Ports["p2"].Index != 1 || int(rec.ID) != i+1 {
			t.Fatalf("life %d has id %d and UUID %s, ports %+v", i, rec.ID, rec.UUID, rec.Ports["p1"])
		}
		seen[rec.UUID] = true
		l.must(`delete br`)
	}
	l.wantState(before)
	closed := 0
	for _, call := range l.b.calls() {
		if call == "br Close" {
			closed++
		}
	}
	if closed != 1000 {
		t.Errorf("%d of 1000 instances were closed", closed)
	}
	l.byID.Range(func(id, _ any) bool { t.Errorf("cube %v is still known to the slow path", id); return true })
}

func TestCloseEndsEverything(t *testing.T) {
	l := stand(t)
	l.b.calls()
	graph := l.plane.now()
	if err := l.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := l.do(`create toybridge late`); !errors.Is(err, service.ErrClosed) {
		t.Errorf("a request after Close answers %v", err)
	}
	if l.plane.now() != graph || len(l.plane.cubes) != 7 {
		t.Error("Close touched the data plane: traffic stops with the daemon")
	}
	got := l.b.calls()
	slices.Sort(got)
	if want := []string{"br1 Close", "br2 Close", "th1 Close", "th2 Close", "th3 Close", "xbr Close", "xth Close"}; !slices.Equal(got, want) {
		t.Errorf("closed: %q, want %q", got, want)
	}
}

func TestAPrepareThatHangsEndsWithItsRequest(t *testing.T) {
	l := stand(t)
	before := l.state()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	l.plane.setFail(func(step string) error {
		if step == "Prepare" {
			<-ctx.Done()
			return ctx.Err()
		}
		return nil
	})
	if err := l.Delete(ctx, "toybridge", "br1"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("answers %v", err)
	}
	l.plane.setFail(nil)
	l.wantState(before)
}
