// SPDX-License-Identifier: Apache-2.0

package evnf

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/perf/contest"
	"github.com/polycube/polycube/test/perf/report"
)

func TestTheReportOfWrkIsItsLastLine(t *testing.T) {
	text := "Running 1s test @ http://10.3.0.1:80/\n  {\"requests\":1}\n\n" + `{"requests":20300,"us":1047557,"mean":1632.719,"median":1560,"failed":[0,0,0,0,0]}` + "\n"
	r, err := readWrk([]byte(text), load{})
	if want := (wrkReport{Requests: 20300, Took: 1047557, Mean: 1632.719, Median: 1560}); err != nil || r != want {
		t.Errorf("%+v, %v; want %+v", r, err, want)
	}
	for _, text := range []string{
		"", "\n", "no report\n", `{"requests":0,"us":1,"failed":[0,0,0,0,0]}` + "\n", `{"requests":1,"us":1,"failed":[0,1,0,0,0]}` + "\n",
		`{"requests":1,"us":0,"failed":[0,0,0,0,0]}` + "\n",
	} {
		if r, err := readWrk([]byte(text), load{}); err == nil {
			t.Errorf("%q is the report %+v", text, r)
		}
	}
}

// TestFewNewConnectionsMayBeReset: the kernel does so, to a connection in thousands, and never to one that is open.
func TestFewNewConnectionsMayBeReset(t *testing.T) {
	const text = `{"requests":%d,"us":1,"failed":[%d,%d,0,0,0]}` + "\n"
	for _, c := range []struct {
		each                    bool
		requests, connect, read int
		ok                      bool
	}{{true, 4500, 0, 5, true}, {true, 4500, 0, 6, false}, {true, 10, 0, 1, true}, {true, 10, 0, 2, false}, {true, 4500, 1, 0, false}, {false, 4500, 0, 1, false}} {
		_, err := readWrk(fmt.Appendf(nil, text, c.requests, c.connect, c.read), load{each: c.each})
		if (err == nil) != c.ok {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func TestCountersOfAStack(t *testing.T) {
	const text = "Ip: Forwarding DefaultTTL ForwDatagrams\nIp: 1 64 12\nIcmp: InMsgs\nIcmp: 7\nTcp: RtoMin MaxConn InSegs\nTcp: 200 -1 345\n"
	for _, c := range []struct {
		protocol, name string
		want           uint64
	}{{"Ip", "ForwDatagrams", 12}, {"Tcp", "InSegs", 345}} {
		if n, err := readCounter(text, c.protocol, c.name); err != nil || n != c.want {
			t.Errorf("%s %s: %d, %v; want %d", c.protocol, c.name, n, err, c.want)
		}
	}
	for _, c := range [][2]string{{"Udp", "InDatagrams"}, {"Ip", "InSegs"}, {"Ip", "Ip:"}} {
		if n, err := readCounter(text, c[0], c[1]); !errors.Is(err, cube.ErrNotFound) {
			t.Errorf("%v: %d, %v", c, n, err)
		}
	}
}

// TestALoadThatTookAnotherWayIsNoResult: each of the counters alone shows it.
func TestALoadThatTookAnotherWayIsNoResult(t *testing.T) {
	before := passed{opened: 7, refused: 1, segments: 50, datagrams: 3}
	good := passed{opened: 11, refused: 1, segments: 90, datagrams: 3}
	if err := before.fast(good, load{connections: 4}, 1000); err != nil {
		t.Error(err)
	}
	some := good
	some.refused, some.segments = before.refused+10, before.segments+250
	if err := before.fast(some, load{connections: 4, each: true}, 1000); err != nil {
		t.Errorf("one new connection in a hundred is HAProxy's: %v", err)
	}
	some.refused++
	if err := before.fast(some, load{connections: 4, each: true}, 1000); !errors.Is(err, contest.ErrLost) {
		t.Errorf("more than one new connection in a hundred are HAProxy's: %v", err)
	}
	for name, change := range map[string]func(*passed){
		"HAProxy has a connection": func(p *passed) { p.opened-- }, "a SYN is left to it": func(p *passed) { p.refused++ },
		"its segments": func(p *passed) { p.segments += 2000 }, "packets that iptables has judged": func(p *passed) { p.datagrams += 2000 },
	} {
		after := good
		change(&after)
		if err := before.fast(after, load{connections: 4}, 1000); !errors.Is(err, contest.ErrLost) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestFiguresArePerRequest(t *testing.T) {
	var f figures
	f.add(measured{wrkReport{Requests: 1000, Took: 2e6, Mean: 3, Median: 2}, spent{all: 1e8, proxy: 1e6, firewall: 2e6, balancer: 3e6}})
	for _, c := range []struct {
		what string
		got  report.Sample
		want float64
	}{
		{"requests per second", f.wall, 500}, {"per second of CPU", f.cpu, 10000}, {"mean", f.mean, 3}, {"median", f.median, 2}, {"balancer", f.balancer, 4},
		{"firewall", f.firewall, 2}, {"functions", f.functions, 6}, {"share", f.share, 0.3},
	} {
		if len(c.got) != 1 || math.Abs(c.got[0]-c.want) > 1e-9 {
			t.Errorf("%s: %v, want %g", c.what, c.got, c.want)
		}
	}
}

func TestGoalsAreForOpenConnectionsAtBothEnds(t *testing.T) {
	results := map[string]*figures{}
	for _, y := range webWays {
		f := &figures{wall: report.Sample{100}, cpu: report.Sample{100}, mean: report.Sample{10}, median: report.Sample{10}, balancer: report.Sample{20}, firewall: report.Sample{0},
			functions: report.Sample{20}, share: report.Sample{50}}
		if y.fast {
			f.wall, f.median, f.balancer, f.functions = report.Sample{130}, report.Sample{7}, report.Sample{0.8}, report.Sample{1.2}
		}
		results[y.name] = f
	}
	for _, c := range []struct {
		l            load
		checks, pass int
	}{{load{4, false, 1}, 7, 5}, {load{36, false, 1}, 7, 1}, {load{12, false, 1}, 0, 0}, {load{4, true, 1}, 0, 0}} {
		checks := webChecks(cube.TC, c.l, results)
		if got := len(checks) - report.Misses(checks); len(checks) != c.checks || got != c.pass {
			t.Errorf("%s: %d of %d checks pass, want %d of %d: %+v", c.l, got, len(checks), c.pass, c.checks, checks)
		}
	}
	table := webTable(cube.TC, false)
	addRows(table, load{4, false, 1}, results)
	if len(table.Rows) != len(webWays) || !strings.Contains(table.Markdown(), "| 1.30 |") || !strings.Contains(table.Markdown(), "4 open connections: 1.00 times the requests") || len(table.Rows[0]) != len(table.Columns) {
		t.Errorf("the table is\n%s", table.Markdown())
	}
}
