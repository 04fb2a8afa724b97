// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/polycube/polycube/internal/datapath"
	"github.com/polycube/polycube/internal/events"
	"github.com/polycube/polycube/internal/metrics"
	"github.com/polycube/polycube/internal/rest/observe"
	"github.com/polycube/polycube/internal/slowpath"
	"github.com/polycube/polycube/internal/store"
	"github.com/polycube/polycube/internal/tally"
	"github.com/polycube/polycube/internal/topology"
	"github.com/polycube/polycube/test/netns"
)

// madeUpLinker is a data plane's linker with one program.
type madeUpLinker struct{}

func (madeUpLinker) Activity() datapath.Activity {
	h := tally.NewHistogram()
	h.Observe(0.002)
	return datapath.Activity{Relinks: map[string]tally.Snapshot{"call": h.Snapshot(), "inline": h.Snapshot()},
		Failures: map[string]uint64{"too-large": 2}}
}

func (madeUpLinker) Segments() []datapath.Segment {
	return []datapath.Segment{{First: "l1", Cubes: 2, Mode: "inline", Instructions: 77, Verified: 99, Stack: 208, Maps: 3},
		{First: "t1", Cubes: 1, Mode: "call", Reason: "it is too large", Instructions: 9, Maps: 1}}
}

// madeUpStore is a store that was repaired, and is broken if it says so.
type madeUpStore struct{ broken bool }

func (s madeUpStore) Stats() store.Stats {
	return store.Stats{Commits: tally.NewHistogram().Snapshot(), JournalBytes: 4096, JournalRecords: 7, StateBytes: 100, Snapshots: 1,
		SnapshotAt: time.Unix(1, 0), Broken: s.broken, Repaired: []string{"generation 1: journal damaged at byte 9, 3 records kept"}}
}

// everything is all that there can be to see of a daemon.
func everything() observe.Observed {
	return observe.Observed{Instance: "lab", Linker: madeUpLinker{}, Store: madeUpStore{}, Events: events.New("run", 0),
		SlowPath: func() (slowpath.Load, bool) {
			return slowpath.Load{Stats: slowpath.Stats{Packets: 12}, Size: 8 << 20, Used: 512}, true
		}}
}

// TestMetrics: the models' families, with six decimals and the label cubeName, and what
// the data plane counts.
func TestMetrics(t *testing.T) {
	l := newLab(t, Options{Observed: everything()}, true)
	l.must(t, 201, "POST", "/cubes", labSetUp)
	l.must(t, 201, "POST", "/lab/l2", `{"mode":"FORWARD"}`)
	l.must(t, 400, "POST", "/lab/l3", `{"mode":"NONSENSE"}`)
	a := l.must(t, 200, "GET", "/metrics", "")
	for _, line := range []string{
		`# HELP lab_entries Number of entries`,
		`# TYPE lab_entries gauge`,
		`lab_entries{cubeName="l1"} 1.000000`,
		`lab_entries{cubeName="l2"} 0.000000`,
		`lab_forwards{cubeName="l1"} 0.000000`,
		`lab_forwards{cubeName="l2"} 1.000000`,
		`# TYPE polycube_port_packets_total counter`,
		`polycube_port_packets_total{cubeName="l1",direction="rx",port="p1"} 10.000000`,
		`polycube_port_bytes_total{cubeName="l1",direction="tx",port="p1"} 300.000000`,
		`polycube_drops_total{cubeName="l1",reason="no-peer"} 7.000000`,
		`polycube_drops_total{cubeName="framework",reason="no-peer"} 7.000000`,
		`polycube_packets_total{cubeName="t1",fate="pass"} 5.000000`,
		`polycube_cubes{service="lab"} 2.000000`,
		`polycube_cubes{service="tap"} 1.000000`,
		`polycube_cube_healthy{cubeName="l1",service="lab"} 1.000000`,
		`polycube_build_info{version="1.2.3"} 1.000000`,
		`polycube_segment_inlined{cubeName="t1"} 0.000000`,
		`polycube_segment_verified_instructions{cubeName="l1"} 99.000000`,
		`polycube_segment_stack_bytes{cubeName="l1"} 208.000000`,
		`polycube_relink_duration_seconds_bucket{mode="call",le="0.003"} 1`,
		`polycube_relink_failures_total{reason="too-large"} 2.000000`,
		`polycube_slowpath_records_total{kind="packet"} 12.000000`,
		`polycube_transaction_failures_total{reason="invalid"} 1.000000`,
		`polycube_store_journal_bytes 4096.000000`,
		`polycube_api_request_duration_seconds_count{method="POST",route="/cubes",status="201"} 1`,
		`polycube_api_request_duration_seconds_count{method="POST",route="/{service}/{cube}",status="400"} 1`,
	} {
		if !strings.Contains("\n"+a.body, "\n"+line+"\n") {
			t.Errorf("no line %s in\n%s", line, a.body)
		}
	}
	resp, err := http.Get("http://" + l.tcp + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if got := resp.Header.Get("Content-Type"); resp.StatusCode != 200 || !strings.HasPrefix(got, "text/plain; version=0.0.4") {
		t.Errorf("/metrics: status %d, content type %q", resp.StatusCode, got)
	}
}

// outsideManager is a real one with a service in a process of its own.
type outsideManager struct{ *topology.Manager }

func (outsideManager) ServiceStates() []topology.ServiceState {
	return []topology.ServiceState{{Registration: topology.Registration{Name: "knock"}, Running: true, Restarts: 3}}
}

// slowManager is a real one that counts how often it is walked over, which takes a while.
type slowManager struct {
	*topology.Manager
	walks *atomic.Int64
	began chan struct{}
	goOn  chan struct{}
}

func (m slowManager) Numbers() []topology.CubeNumbers {
	if m.walks.Add(1) == 1 {
		close(m.began)
		<-m.goOn
	}
	return m.Manager.Numbers()
}

// TestScrapesAtOnce: those who ask while a walk is in progress share the next one, and see what was there when they
// asked.
func TestScrapesAtOnce(t *testing.T) {
	m := slowManager{newManager(t), &atomic.Int64{}, make(chan struct{}), make(chan struct{})}
	l := newLab(t, Options{Manager: m, Observed: everything()}, false)
	var done sync.WaitGroup
	done.Go(func() { l.must(t, 200, "GET", "/metrics", "") })
	<-m.began
	l.must(t, 201, "POST", "/lab/l9", "")
	for range 20 {
		done.Go(func() {
			if a := l.do(t, "GET", "/metrics", ""); !strings.Contains(a.body, `polycube_cube_healthy{cubeName="l9",service="lab"} 1`) {
				t.Error("a cube that was there is missing")
			}
		})
	}
	netns.Eventually(t, eventPatience, func() error {
		if a := l.server.observer.Exports().Requests.InFlight(); a < 21 {
			return fmt.Errorf("%d requests under way", a)
		}
		return nil
	})
	close(m.goOn)
	done.Wait()
	if n := m.walks.Load(); n > 21 || n < 2 {
		t.Errorf("%d walks for 21 scrapes", n)
	}
}

// families parses a response of metrics as Prometheus does.
func families(t *testing.T, text string) map[string]*dto.MetricFamily {
	t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	found, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Fatalf("Prometheus cannot parse it: %v", err)
	}
	return found
}

// TestMetricNames: what is written is what the table of families has, with its kinds and labels, and nothing else; names
// and units are as Prometheus recommends.
func TestMetricNames(t *testing.T) {
	l := newLab(t, Options{Manager: outsideManager{newManager(t)}, Observed: everything()}, false)
	l.must(t, 201, "POST", "/cubes", labSetUp)
	l.must(t, 400, "POST", "/lab/l3", `{"mode":"NONSENSE"}`)
	l.must(t, 201, "POST", "/lab/l4", `{"ports":[{"name":"q","peer":"veth2"}]}`)
	l.must(t, 200, "POST", "/services", `{"type":"grpc","uri":"home","name":"lodger"}`)
	l.server.observer.Exports().Requests.Denied("rate")
	l.server.observer.Exports().Requests.Dropped("silent")
	text := l.must(t, 200, "GET", "/metrics", "").body
	found := families(t, text)
	known := map[string]bool{"lab_entries": true, "lab_forwards": true, "polycube_custom_lodger_doors": true}
	for _, f := range metrics.Table() {
		known[f.Name] = true
		got := found[f.Name]
		if got == nil {
			if !strings.HasPrefix(f.Name, "polycube_map_") && !strings.HasPrefix(f.Name, "polycube_ring_") { // the lab has no maps
				t.Errorf("%s is in the table and not written", f.Name)
			}
			continue
		}
		if kind := strings.ToLower(got.GetType().String()); kind != string(f.Kind) {
			t.Errorf("%s is a %s, the table says %s", f.Name, kind, f.Kind)
		}
		var labels []string
		for _, pair := range got.GetMetric()[0].GetLabel() {
			labels = append(labels, pair.GetName())
		}
		if !slices.Equal(labels, f.Labels) || !slices.IsSorted(labels) {
			t.Errorf("%s has labels %v, the table says %v", f.Name, labels, f.Labels)
		}
	}
	for name := range found {
		if !known[name] && !strings.HasPrefix(name, "go_") && !strings.HasPrefix(name, "process_") {
			t.Errorf("%s is written and not in the table", name)
		}
	}
	lint, err := promlint.New(strings.NewReader(text)).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range lint {
		// The label is the first Polycube's, and rules of its users have it.
		if !strings.Contains(p.Text, "label names should be written in 'snake_case'") {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
}

// TestOpenMetrics: who asks for it gets it, and its parts are as the standard has them.
func TestOpenMetrics(t *testing.T) {
	l := newLab(t, Options{Observed: everything()}, false)
	l.must(t, 201, "POST", "/cubes", labSetUp)
	for accept, open := range map[string]bool{
		"": false, "text/plain": false, "*/*": false, "application/openmetrics-text": true,
		"application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.2":            true,
		"application/openmetrics-text;version=1.0.0;q=0.1,text/plain;version=0.0.4;q=0.3,*/*;q=0.05": false,
		"application/openmetrics-text;version=9":                                                     false, "application/openmetrics-text;q=x": false, ";;,": false,
	} {
		req, err := http.NewRequest(http.MethodGet, "http://daemon/metrics", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept", accept)
		a := l.send(t, l.client, req)
		if got := strings.HasPrefix(a.header.Get("Content-Type"), "application/openmetrics-text; version=1.0.0"); got != open {
			t.Errorf("Accept %q: content type %q", accept, a.header.Get("Content-Type"))
		}
		if !open {
			families(t, a.body)
			continue
		}
		if !strings.HasSuffix(a.body, "\n# EOF\n") || strings.Count(a.body, "# EOF") != 1 {
			t.Errorf("it does not end as it should: %q", a.body[max(0, len(a.body)-80):])
		}
		for _, line := range []string{"# TYPE polycube_drops counter", `polycube_drops_total{cubeName="l1",reason="no-peer"} 7.000000`,
			`polycube_relink_duration_seconds_bucket{mode="call",le="1.0"} 1`} {
			if !strings.Contains(a.body, "\n"+line+"\n") {
				t.Errorf("no line %s", line)
			}
		}
	}
}

// TestPatterns: requests are counted by a pattern, whatever clients make up.
func TestPatterns(t *testing.T) {
	l := newLab(t, Options{}, false)
	for path, want := range map[string]string{
		"/metrics": "/metrics", "/polycube/v1/": "/", "/polycube/v1/cubes/br1/stats": "/cubes/{}/{}", "/polycube/v1/lab": "/{service}",
		"/polycube/v1/lab/l1": "/{service}/{cube}", "/polycube/v1/lab/l1/ports/p1/peer": "/{service}/{cube}/{path}",
		"/polycube/v1/nothing/of/it": "", "/elsewhere": "", "/polycube/v1/cubes/a/b/c/d": "/cubes/{}/{}", "/healthz": "/healthz",
	} {
		req, err := http.NewRequest(http.MethodGet, "http://daemon"+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := l.server.pattern(req); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}

// BenchmarkScrape: what it takes to write the series of a thousand cubes with ten ports each.
func BenchmarkScrape(b *testing.B) {
	var many []topology.CubeNumbers
	for i := range 1000 {
		c := topology.CubeNumbers{Name: fmt.Sprintf("cube%04d", i), Service: "lab", Fates: make([]datapath.Fate, 16)}
		for j := range c.Fates {
			c.Fates[j] = datapath.Fate{Name: fmt.Sprint("reason", j), Drop: j > 4}
		}
		for j := range 10 {
			c.Ports = append(c.Ports, topology.PortNumbers{Name: fmt.Sprint("p", j), Up: true})
		}
		many = append(many, c)
	}
	l := newLab(b, Options{Manager: sickManager{newManager(b), many, ""}, Observed: everything()}, false)
	b.ReportAllocs()
	for b.Loop() {
		if err := l.server.observer.Exports().Write(b.Context(), io.Discard, metrics.Text); err != nil {
			b.Fatal(err)
		}
	}
}
