// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// TestMetrics: the models' families, with six decimals and the label cubeName, and what
// the data plane counts, readable by Prometheus' own parser.
func TestMetrics(t *testing.T) {
	l := newLab(t, Options{}, true)
	l.must(t, 201, "POST", "/cubes", labSetUp)
	l.must(t, 201, "POST", "/lab/l2", `{"mode":"FORWARD"}`)
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
		`polycube_packets_total{cubeName="t1",fate="pass"} 5.000000`,
		`polycube_cubes{service="lab"} 2.000000`,
		`polycube_cubes{service="tap"} 1.000000`,
		`polycube_build_info{version="1.2.3"} 1.000000`,
	} {
		if !strings.Contains("\n"+a.body, "\n"+line+"\n") {
			t.Errorf("no line %s in\n%s", line, a.body)
		}
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	if _, err := parser.TextToMetricFamilies(strings.NewReader(a.body)); err != nil {
		t.Errorf("Prometheus cannot parse it: %v", err)
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
