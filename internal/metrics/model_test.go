// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/polycube/polycube/internal/datapath"
	"github.com/polycube/polycube/internal/topology"
	"github.com/polycube/polycube/internal/yang"
)

// countingModel asks for metrics, good ones and others.
const countingModel = `module counting {
  yang-version 1.1; namespace "http://polycube.network/counting"; prefix counting;
  import polycube-base { prefix polycube-base; }
  import polycube-transparent-base { prefix polycube-transparent-base; }
  polycube-base:service-name "counting"; polycube-base:service-description "A test"; polycube-base:service-version "1.0.0";
  uses polycube-transparent-base:transparent-base-yang-module;
  list rule {
    key id; leaf id { type uint32; } leaf packets { type uint64; config false; }
    polycube-base:name-metric "counting_rules"; polycube-base:path-metric "$.rule.length()"; polycube-base:help-metric "Rules";
  }
  leaf all { type uint8; config false;
    polycube-base:name-metric "counting_packets_total"; polycube-base:path-metric "$.rule[*].packets"; polycube-base:type-metric COUNTER; }
  leaf ours { type uint8; polycube-base:name-metric "polycube_drops_total"; polycube-base:path-metric "$.ours"; }
  leaf odd { type uint8; polycube-base:name-metric "counting odd"; polycube-base:path-metric "$.odd"; }
  leaf lost { type uint8; polycube-base:name-metric "counting_lost"; polycube-base:path-metric "no path"; }
  leaf twice { type uint8; polycube-base:name-metric "counting_rules"; polycube-base:path-metric "$.twice"; }
}`

// oneCube is a topology with one cube of a service that comes and goes.
type oneCube struct {
	schema *yang.Schema
	cube   string
	// asked are the paths that were read.
	asked []string
}

func (o *oneCube) Services() []topology.ServiceInfo {
	if o.schema == nil {
		return nil
	}
	return []topology.ServiceInfo{{Name: "counting"}}
}

func (o *oneCube) Schema(string) (*yang.Schema, error) {
	if o.schema == nil {
		return nil, errors.New("there is no such service")
	}
	return o.schema, nil
}

func (o *oneCube) Read(_ context.Context, _, _ string, path yang.Path) (json.RawMessage, error) {
	o.asked = append(o.asked, path.String())
	members := map[string]json.RawMessage{}
	if err := json.Unmarshal([]byte(o.cube), &members); err != nil {
		return nil, err
	}
	if raw := members[path.String()]; raw != nil {
		return raw, nil
	}
	return nil, errors.New("it is not there")
}

func (o *oneCube) Numbers() []topology.CubeNumbers {
	if o.schema == nil {
		return nil
	}
	return []topology.CubeNumbers{{Name: "c1", Service: "counting"}}
}

func (o *oneCube) FrameworkFates() ([]datapath.Fate, error) { return nil, nil }
func (o *oneCube) NetdevNumbers() []topology.NetdevNumbers  { return nil }
func (o *oneCube) Maps(string) []datapath.MapUsage {
	return []datapath.MapUsage{{Name: "rules", MaxEntries: 9, Entries: 2}}
}
func (o *oneCube) Activity() topology.Activity            { return topology.Activity{} }
func (o *oneCube) Revision() uint64                       { return 1 }
func (o *oneCube) Trial() *topology.Trial                 { return nil }
func (o *oneCube) ServiceStates() []topology.ServiceState { return nil }
func (o *oneCube) ServiceSeries() []topology.Series       { return nil }

// TestModelMetricsComeAndGo: a service that is added while the daemon runs brings its metrics and takes them along; what a
// model asks for wrongly is left out with a line, once, and of a cube only what its paths need is read.
func TestModelMetricsComeAndGo(t *testing.T) {
	var log bytes.Buffer
	o := &oneCube{cube: `{"name":"c1","rule":[{"id":1,"packets":"18446744073709551615"},{"id":2,"packets":5}]}`}
	e := New(Sources{Topology: o, Version: "1", Logger: slog.New(slog.NewTextHandler(&log, nil))})
	scrape := func() string {
		t.Helper()
		var out bytes.Buffer
		if err := e.Write(t.Context(), &out, Text); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	if text := scrape(); strings.Contains(text, "counting") {
		t.Errorf("a service that is not there has metrics:\n%s", text)
	}
	var err error
	if o.schema, err = yang.Load(countingModel); err != nil {
		t.Fatal(err)
	}
	defer o.schema.Close()
	for range 2 {
		text := scrape()
		for _, line := range []string{`counting_rules{cubeName="c1"} 2.000000`, "# TYPE counting_packets_total counter",
			`counting_packets_total{cubeName="c1"} 18446744073709551616.000000`, `polycube_map_entries{cubeName="c1",map="rules"} 2.000000`} {
			if !strings.Contains(text, "\n"+line+"\n") {
				t.Errorf("no line %s in\n%s", line, text)
			}
		}
		if strings.Contains(text, "counting_lost") || strings.Contains(text, "counting odd") || strings.Count(text, "\ncounting_rules{") != 1 {
			t.Errorf("what is wrong is there:\n%s", text)
		}
	}
	if got := fmt.Sprint(o.asked); got != "[rule rule]" {
		t.Errorf("read %s, want what the paths need, once for each scrape", got)
	}
	if n := strings.Count(log.String(), "metric of a model omitted"); n != 4 {
		t.Errorf("%d lines about wrong metrics, want 4:\n%s", n, log.String())
	}
	o.cube = `{"name":"c1"}`
	if text := scrape(); !strings.Contains(text, `counting_rules{cubeName="c1"} 0.000000`) || strings.Contains(text, "counting_packets_total{") {
		t.Errorf("a list without entries:\n%s", text)
	}
	gone := o.schema
	o.schema = nil
	if text := scrape(); strings.Contains(text, "counting") {
		t.Errorf("a service that went has metrics:\n%s", text)
	}
	o.schema = gone
}
