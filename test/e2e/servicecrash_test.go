// SPDX-License-Identifier: Apache-2.0

// An external service dies at each point of a change, identified by the name of the current call: the change is applied
// completely or not at all, the answer reports what happened, packets pass, and with the next process everything works
// again.

package e2e

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/polycube/polycube/api/polycube/service/v1"
	"github.com/polycube/polycube/test/extservice"
	"github.com/polycube/polycube/test/netns"
)

// Versions of the service tally that die in the call that a cube's colour names: "dies CALL NUMBER", where calls are
// counted from that configuration on. In a process with crashing@CALL@NUMBER they are counted from its start.
const (
	crashing     = "crashing"
	crashingWide = "crashing-wide"
)

// markFails is a mark that is prepared and cannot be committed.
const markFails = 98

// Keys in the map seen, which record the mark with which the plan was carried out, and Commit.
const (
	byPlan   = 99
	byCommit = 98
)

// fuse ends the process.
type fuse struct {
	mu   sync.Mutex
	call string
	left int
}

func (f *fuse) light(call, number string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := strconv.Atoi(number)
	if err != nil {
		panic(err) // the test is wrong
	}
	f.call, f.left = call, n
}

// reach reports a call that has begun.
func (f *fuse) reach(call string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.call != call {
		return
	}
	if f.left--; f.left == 0 {
		fmt.Println("dies in", call)
		os.Exit(3)
	}
}

// crashingService is tally with a fuse; version is crashing or crashingWide, with the call that triggers the fuse at once.
func crashingService(version string) *extservice.Server {
	words := strings.Split(version, "@")
	s, width := tallyService(tallyFirst), 4
	if words[0] == crashingWide {
		s, width = tallyService(tallyWide), 8
	}
	s.Description.Deadlines = &pb.Deadlines{Prepare: 30_000, Commit: 30_000} // none of its deadlines is tested
	m := &crashingCubes{width: width, marks: map[string]uint32{}}
	if len(words) == 3 {
		m.light(words[1], words[2])
	}
	s.Heard, s.Plan, s.Committed = m.heard, m.plan, m.committed
	if translate := s.Translate; translate != nil {
		s.Translate = func(start *pb.MigrateStart, e *pb.Entry) *pb.Entry {
			m.reach("Migrate")
			return translate(start, e)
		}
	}
	return s
}

// crashingCubes are the cubes of the service.
type crashingCubes struct {
	fuse
	width int
	mu    sync.Mutex
	marks map[string]uint32
}

func (m *crashingCubes) heard(cube, what string) {
	call, _, _ := strings.Cut(what, " ")
	if dies, ok := strings.CutPrefix(cube, "dies-"); ok && dies == strings.ToLower(call) {
		m.light(call, "1")
	}
	if call != "Prepare" { // which may light the fuse first
		m.reach(call)
	}
}

// entry records the mark with which something was done.
func (m *crashingCubes) entry(key, mark uint32) []*pb.Entry {
	value := make([]byte, 2*m.width)
	binary.LittleEndian.PutUint32(value, mark)
	return []*pb.Entry{{Key: binary.LittleEndian.AppendUint32(nil, key), Value: value}}
}

func (m *crashingCubes) plan(c *extservice.Cube, r *pb.PrepareRequest) (*pb.Plan, error) {
	var conf struct {
		Mark   uint32
		Colour string
	}
	if err := json.Unmarshal(r.GetAfter(), &conf); err != nil {
		return nil, err
	}
	if words := strings.Fields(conf.Colour); len(words) == 3 && (len(r.GetOld()) > 0 || !c.GetTakenOver()) {
		m.light(words[1], words[2])
	}
	m.reach("Prepare")
	if conf.Mark == markRefused {
		return nil, status.Error(codes.InvalidArgument, "mark 99 brings bad luck")
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.marks[c.GetName()] = conf.Mark
	return &pb.Plan{Commit: true, Constants: map[string][]byte{"mark": binary.LittleEndian.AppendUint32(nil, conf.Mark)},
		Writes: []*pb.MapWrite{{Map: "seen", Entries: m.entry(byPlan, conf.Mark)}}}, nil
}

func (m *crashingCubes) committed(c *extservice.Cube, _ uint64) error {
	m.mu.Lock()
	mark := m.marks[c.GetName()]
	m.mu.Unlock()
	if mark == markFails {
		return status.Error(codes.InvalidArgument, "mark 98 cannot be committed")
	}
	_, err := c.Map(&pb.MapRequest{Map: "seen", Operation: &pb.MapRequest_Update{Update: &pb.MapUpdate{Entries: m.entry(byCommit, mark)}}})
	m.reach("Committed")
	return err
}

// crashingPort is where the process listens.
const crashingPort = 7001

// deaths are changes in which the service dies. t1 and t2 are its cubes, br1 is not.
var deaths = []struct {
	name, method, path, body string
	// says is a part of the refusal; "" means that the change succeeds.
	says string
}{
	{"it prepares", "PATCH", "/tally/t1", `{"mark":20,"colour":"dies Prepare 1"}`, "tally was lost during Prepare"},
	{"it commits, and has changed nothing", "PATCH", "/tally/t1", `{"mark":20,"colour":"dies Commit 1"}`, "tally was lost during Commit"},
	{"it commits, and has changed a map", "PATCH", "/tally/t1", `{"mark":20,"colour":"dies Committed 1"}`, "tally was lost during Commit"},
	{"it prepares the second of two cubes", "PATCH", "/config", document(20, "dies Prepare 2", 21), "tally was lost during Prepare"},
	{"it commits the first of two cubes", "PATCH", "/config", document(20, "dies Commit 1", 21), "tally was lost during Commit"},
	{"it commits the second of two cubes", "PATCH", "/config", document(20, "dies Commit 2", 21), "tally was lost during Commit"},
	{"it has committed the second of two cubes", "PATCH", "/config", document(20, "dies Committed 2", 21), "tally was lost during Commit"},
	{"it undoes the first, as the second refuses", "PATCH", "/config", document(20, "dies Undo 1", markFails), "mark 98 cannot be committed"},
	{"it drops the plan of the first, as the second refuses", "PATCH", "/config", document(20, "dies Abort 1", markRefused), "mark 99 brings bad luck"},
	{"it opens a new cube", "POST", "/tally/dies-open", `{"mark":20}`, "tally was lost during Prepare"},
	{"it prepares a new cube", "POST", "/tally/t3", `{"mark":20,"colour":"dies Prepare 1"}`, "tally was lost during Prepare"},
	{"it commits a new cube", "POST", "/tally/t3", `{"mark":20,"colour":"dies Committed 1"}`, "tally was lost during Commit"},
	{"it closes a deleted cube", "DELETE", "/tally/dies-close", "", ""},
}

// document changes two cubes of the service, and a bridge.
func document(mark int, colour string, other int) string {
	return fmt.Sprintf(`[{"service-name":"simplebridge","name":"br2","fdb":{"aging-time":77}},{"service-name":"tally","name":"t1","mark":%d,"colour":%q},
		{"service-name":"tally","name":"t2","mark":%d}]`, mark, colour, other)
}

func TestAServiceDiesWithinAChange(t *testing.T) {
	eachCrashingChain(t, func(t *testing.T, d *crashingDaemon, traffic *stream) {
		service := d.now
		for i, c := range deaths {
			if c.method == "DELETE" {
				d.Must(http.StatusCreated, "POST", c.path, "")
			}
			before := d.documents()
			status, text, err := d.Request(c.method, c.path, c.body)
			want := http.StatusOK
			if c.says != "" {
				want = http.StatusBadRequest
			}
			if strings.Contains(c.says, "lost") {
				want = http.StatusServiceUnavailable
			}
			if err != nil || status != want || !strings.Contains(text, c.says) {
				t.Errorf("%s: status %d, %v: %s; want %d with %q", c.name, status, err, clip(text), want, c.says)
			}
			traffic.Flowing(100)
			d.asShown(c.name + ", and it is dead") // the next process writes the maps once more
			service = d.again(service, c.name, i == 0)
			now := d.documents()
			if c.says == "" && (now == before || strings.Contains(now, "dies-")) {
				t.Errorf("%s: the change is not done: %s", c.name, now)
			}
			if c.says != "" && now != before {
				t.Errorf("%s: the configuration is\n%s\nbefore\n%s", c.name, now, before)
			}
			traffic.Flowing(100)
			d.asShown(c.name)
			for _, name := range []string{"t1", "t2"} { // later changes work
				d.Must(http.StatusOK, "PATCH", "/tally/"+name+"/mark", strconv.Itoa(30+i))
			}
			traffic.Flowing(100)
			d.asShown("after " + c.name)
		}
	})
}

// crashingDaemon is a daemon with a crashing service and its cubes.
type crashingDaemon struct {
	*daemon
	now *service
}

// documents are the bodies that would create the cubes.
func (d *crashingDaemon) documents() string {
	d.t.Helper()
	return d.Must(http.StatusOK, "GET", "/config", "")
}

// eachCrashingChain runs a test on a chain of each type, in the short form of the first, while frames flow along it.
func eachCrashingChain(t *testing.T, test func(*testing.T, *crashingDaemon, *stream)) {
	t.Parallel()
	kinds := types[:1]
	if soak {
		kinds = types
	}
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			d, traffic := crashingChain(t, kind)
			test(t, d, traffic)
			traffic.Stop()
		})
	}
}

// crashingChain puts two cubes of the service on a path through a bridge, and sends frames along it.
func crashingChain(t *testing.T, kind string) (*crashingDaemon, *stream) {
	t.Helper()
	d := &crashingDaemon{daemon: start(t)}
	d.now = d.Service(crashing, crashingPort)
	d.Do(fmt.Sprintf("services add type=grpc uri=127.0.0.1:%d name=tally", crashingPort))
	hosts := threeHosts(d.machine, v4)
	d.Must(http.StatusCreated, "POST", "/cubes", fmt.Sprintf(`[
		{"service-name":"tally","name":"t1","type":%[1]q,"mark":7,"colour":"red","ports":[{"name":"a","peer":"veth1"},{"name":"b","peer":"t2:a"}]},
		{"service-name":"tally","name":"t2","type":%[1]q,"mark":8,"ports":[{"name":"a","peer":"t1:b"},{"name":"b","peer":"br1:t"}]},
		{"service-name":"simplebridge","name":"br1","type":%[1]q,"ports":[{"name":"t","peer":"t2:b"},{"name":"z","peer":"veth3"}]},
		{"service-name":"simplebridge","name":"br2"}]`, kind))
	reaches(t, hosts[0], "10.0.0.3")
	traffic := startStream(t, hosts[0], hosts[2])
	traffic.Flowing(100)
	d.asShown("at first")
	return d, traffic
}

// again waits until the service has died and starts its next process, which the daemon finds by itself or is notified
// of. It would retry a process that died often at increasing intervals.
func (d *crashingDaemon) again(s *service, when string, patient bool) *service {
	d.t.Helper()
	select {
	case <-s.ended:
	case <-time.After(patience):
		d.t.Fatalf("%s: the service lives, it never came that far", when)
	}
	d.turns("t1", true)
	d.refuses("t1 set mark=9", "its service takes it over again")
	s = d.Service(crashing, crashingPort)
	if !patient {
		d.Do("services update tally")
	}
	for _, name := range []string{"t1", "t2"} {
		d.turns(name, false)
	}
	return s
}

// asShown checks that the program of each cube, and the service's writes, have the mark that it shows.
func (d *daemon) asShown(when string) {
	d.t.Helper()
	for _, name := range []string{"t1", "t2"} {
		var shown struct {
			UUID string
			Mark uint32
		}
		d.Get("/tally/"+name, &shown)
		at := filepath.Join(d.pins, "cubes", shown.UUID)
		netns.Eventually(d.t, patience, func() error { // a packet must pass the program
			var errs []error
			for what, key := range map[string]uint32{"marks": 0, "seen": byPlan, "seen ": byCommit} {
				m, err := ebpf.LoadPinnedMap(filepath.Join(at, strings.TrimSpace(what)), nil)
				if err != nil {
					return err
				}
				value, err := m.LookupBytes(key)
				_ = m.Close()
				if err != nil {
					return err
				}
				if len(value) < 4 || binary.LittleEndian.Uint32(value) != shown.Mark {
					errs = append(errs, fmt.Errorf("%s: %s shows mark %d, and %d of map %s has %v", when, name, shown.Mark, key, what, value))
				}
			}
			return errors.Join(errs...)
		})
	}
}

// updates are versions of the service that die while they take over.
var updates = []struct{ name, dies, says string }{
	{"it describes itself", "Describe@1", "tally"},
	{"it opens the first cube", "Open@1", "tally was lost during Prepare"},
	{"it opens the second cube", "Open@2", "tally was lost during Prepare"},
	{"it prepares the first cube", "Prepare@1", "tally was lost during Prepare"},
	{"it prepares the second cube", "Prepare@2", "tally was lost during Prepare"},
	{"it translates the map of the first cube", "Migrate@1", "tally was lost during Migrate"},
	{"it translates the map of the second cube", "Migrate@5", "tally was lost during Migrate"},
	{"it commits the first cube", "Commit@1", "tally was lost during Commit"},
	{"it has committed the second cube", "Committed@2", "tally was lost during Commit"},
}

func TestAServiceDiesWithinItsUpdate(t *testing.T) {
	eachCrashingChain(t, func(t *testing.T, d *crashingDaemon, traffic *stream) {
		before := d.documents()
		last := d.counted()
		for i, c := range updates {
			next := d.Service(crashingWide+"@"+c.dies, crashingPort+1+i)
			d.refuses(fmt.Sprintf("services update tally uri=127.0.0.1:%d", crashingPort+1+i), c.says)
			select {
			case <-next.ended:
			case <-time.After(patience):
				t.Fatalf("%s: the new version lives, it never came that far", c.name)
			}
			traffic.Flowing(100)
			if now := d.counted(); now <= last {
				t.Errorf("%s: the old version has counted %d packets, before %d", c.name, now, last)
			} else {
				last = now
			}
			if now := d.documents(); now != before {
				t.Errorf("%s: the configuration is\n%s\nbefore\n%s", c.name, now, before)
			}
			d.asShown(c.name)
			d.Must(http.StatusOK, "PATCH", "/tally/t1/mark", "50") // the old version works
			traffic.Flowing(100)
			d.asShown("after " + c.name)
			d.Must(http.StatusOK, "PATCH", "/tally/t1/mark", "7")
		}
		port := crashingPort + 100
		d.Service(crashingWide, port)
		d.Do(fmt.Sprintf("services update tally uri=127.0.0.1:%d", port))
		traffic.Flowing(100)
		if now := d.counted(); now <= last {
			t.Errorf("the new version has counted %d packets, the old one %d", now, last)
		}
		d.Must(http.StatusOK, "PATCH", "/tally/t2/mark", "51")
		traffic.Flowing(100)
		d.asShown("after the update")
	})
}
