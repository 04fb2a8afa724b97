// SPDX-License-Identifier: Apache-2.0

package perf

// Hundreds of instances of one service on one machine, each with its own configuration.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/perf/lab"
	"github.com/polycube/polycube/test/perf/report"
)

// fleetShape is how the instances of a service are connected.
type fleetShape struct {
	service string
	// together: each is at a port of one bridge, so that all are one component; otherwise each is one of its own.
	together bool
}

func (s fleetShape) String() string {
	if s.together {
		return s.service + ", one component"
	}
	return s.service + ", a component each"
}

var fleetShapes = []fleetShape{
	{"pbforwarder", false}, {"pbforwarder", true}, {"transparenthelloworld", false}, {"transparenthelloworld", true},
	{"ministate", false}, {"ministate", true}, {"firewall", false}, {"firewall", true},
}

// transparent reports whether the instances are transparent cubes, constant whether a constant of theirs is changed instead
// of rules.
func (s fleetShape) transparent() bool { return s.service != "pbforwarder" }
func (s fleetShape) constant() bool    { return s.service == "transparenthelloworld" }

// linked reports whether a port of the bridge leads to each instance.
func (s fleetShape) linked() bool { return s.together && !s.transparent() }

// fleetRules is the number of rules that each instance with rules gets at once after the first one.
const fleetRules = 3

// fleetConstants is how many instances get another constant.
const fleetConstants = 10

// fleetRate is that of the running flow, in packets per second: it must not use up the CPU of the daemon.
const fleetRate = 5000

const fleetText = "One instance after the other is created through the API of polycubed with persistence, each with a veth " +
	"of its own; wall time, from the request to the end of the answer: by then packets go through it. A pbforwarder has a port " +
	"at its veth and another port, which leads nowhere, or to one simplebridge for all. It gets its first rule in one request " +
	"and more in a second. A transparenthelloworld, a firewall or a ministate, the stateful firewall of the examples, is attached to " +
	"its veth, or to a port of the bridge; both firewalls get rules in the same way, a constant of some transparenthelloworld is changed when all " +
	"exist and the daemon is idle. After 10 s, the rest is created in one request. *maps* and *programs* are the " +
	"kernel memory that an instance adds, including machine code; *daemon* is the increase of the process. *restart* is from " +
	"exec after a kill to the first answer, under a flow through a pbforwarder between two more netdevs."

// fleetLimit is how long attaching one by one may take: the instances that are left then are created in one request. The
// time for all follows from those that were attached.
const fleetLimit = 10 * time.Second

// fleetResult is the result of a shape; times in ms.
type fleetResult struct {
	attach, change report.Sample
	all            time.Duration // of those that were attached one by one
	maps, programs float64       // bytes per instance
	resident       float64
	refused        error // why the rest could not be created
	restart        time.Duration
	sent, lost     int
}

// fleet is the part "fleet".
func fleet(ctx context.Context, r *Run) error {
	n := 500
	if r.Quick {
		n = 10
	}
	t := &report.Table{Columns: []string{"", "attach, ms", "p99", "first rule or constant, ms", "p99", "one by one", "s",
		"maps, KB", "programs, KB", "daemon, KB", "restart, s", "packets", "lost"}}
	var checks []report.Check
	for _, s := range fleetShapes {
		r.progress("fleet: %d of %s", n, s)
		got := &fleetResult{}
		if err := lab.With(ctx, func(rig *lab.Rig) error { return s.run(rig, r, n, got) }); err != nil {
			return fmt.Errorf("%s: %w", s, err)
		}
		kb := func(bytes float64) string { return fmt.Sprintf("%.1f", bytes/1024) }
		row := []string{s.String(), got.attach.Spread(1), p99(got.attach), got.change.Spread(1), p99(got.change),
			fmt.Sprint(len(got.attach)), fmt.Sprintf("%.1f", got.all.Seconds()), kb(got.maps), kb(got.programs), kb(got.resident),
			fmt.Sprintf("%.2f", got.restart.Seconds()), fmt.Sprint(got.sent), fmt.Sprint(got.lost)}
		r.progress("fleet: %s", strings.Join(row, " | "))
		t.Add(row...)
		checks = append(checks, s.checks(n, got)...)
	}
	r.add(Section{Title: fmt.Sprintf("%d instances on one machine", n), Text: fleetText, Tables: []*report.Table{t}}, checks...)
	return nil
}

func (s fleetShape) checks(n int, got *fleetResult) []report.Check {
	all := report.AtMost("", "%.1f s", got.all.Seconds()*float64(n)/float64(len(got.attach)), 25)
	if got.refused != nil {
		all.Measured, all.Pass = fmt.Sprintf("%d, the rest is refused", len(got.attach)), false
	}
	what := fmt.Sprintf("%d of %s: ", n, s)
	change, limit := "first rule", 50.0
	if s.constant() {
		change, limit = "a constant", 20
	}
	all.What = what + "all attached"
	return []report.Check{
		report.AtMost(what+"attach, p99", "%.1f ms", got.attach.Quantile(0.99), 50),
		report.AtMost(what+change+", p99", "%.1f ms", got.change.Quantile(0.99), limit),
		all,
		report.AtMost(what+"kernel memory of one", "%.1f KB", (got.maps+got.programs)/1024, float64(32+runtime.NumCPU())),
		report.AtMost(what+"restart", "%.2f s", got.restart.Seconds(), 10),
		report.AtMost(what+"packets lost in a restart", "%.0f", float64(got.lost), 0),
	}
}

func (s fleetShape) run(rig *lab.Rig, r *Run, n int, got *fleetResult) error {
	w, d, err := s.prepare(rig, r, n)
	if err != nil {
		return err
	}
	c := d.Client()
	var first, last lab.Memory
	for i := 0; i < n && got.all < fleetLimit; i++ {
		if err := s.attach(c, i, got); err != nil {
			return err
		}
		if i == 0 {
			if first, err = fleetMemory(d); err != nil {
				return err
			}
		}
	}
	if got.refused = s.rest(d, len(got.attach), n); got.refused != nil {
		r.progress("fleet: after %d of %d: %v", len(got.attach), n, got.refused)
		n = len(got.attach)
	}
	if last, err = fleetMemory(d); err != nil {
		return err
	}
	each := func(last, first uint64) float64 { return (float64(last) - float64(first)) / float64(n-1) }
	got.maps, got.programs = each(last.Maps, first.Maps), each(last.Programs, first.Programs)
	got.resident = each(last.Resident, first.Resident)
	if s.constant() {
		if err := errors.Join(fleetQuiet(d), s.constants(c, n, got)); err != nil {
			return err
		}
	}
	return s.restart(rig, w, d, got)
}

// fleetMemory reads the memory when the daemon has nothing to do in the background.
func fleetMemory(d *lab.Daemon) (lab.Memory, error) {
	if err := fleetQuiet(d); err != nil {
		return lab.Memory{}, err
	}
	return d.Memory()
}

// fleetQuiet waits until the daemon has nothing to do in the background.
func fleetQuiet(d *lab.Daemon) error {
	const quiet, nothing = 500 * time.Millisecond, 10 * time.Millisecond
	for start := time.Now(); time.Since(start) < startSettled; {
		before, err := d.CPU()
		if err != nil {
			return err
		}
		time.Sleep(quiet)
		after, err := d.CPU()
		if err != nil || after-before < nothing {
			return err
		}
	}
	return nil
}

// prepare starts a daemon with what the instances need, and with the forwarder for the running flow.
func (s fleetShape) prepare(rig *lab.Rig, r *Run, n int) (*lab.Wire, *lab.Daemon, error) {
	w, d, err := s.daemon(rig, r)
	if err != nil {
		return nil, nil, err
	}
	ports := make([]map[string]string, n)
	for i := range n {
		ports[i] = map[string]string{"name": fmt.Sprintf("p%d", i)}
		if s.transparent() {
			ports[i]["peer"] = fmt.Sprintf("v%d", i)
		}
		if err := w.Spare(fmt.Sprintf("v%d", i)); err != nil {
			return nil, nil, err
		}
	}
	cubes := []map[string]any{{"service-name": "pbforwarder", "name": "flow",
		"ports": []map[string]string{{"name": "left", "peer": lab.In}, {"name": "right", "peer": lab.Out}},
		"rules": []map[string]any{{"id": 1, "in_port": "left", "action": "FORWARD", "out_port": "right"}}}}
	if s.together {
		cubes = append(cubes, map[string]any{"service-name": "simplebridge", "name": "hub", "ports": ports})
	}
	document, err := json.Marshal(cubes)
	if err != nil {
		return nil, nil, err
	}
	return w, d, d.Request("POST", "/cubes", string(document))
}

// daemon starts polycubed, with the examples if the service is one of them.
func (s fleetShape) daemon(rig *lab.Rig, r *Run) (*lab.Wire, *lab.Daemon, error) {
	bin := r.bin()
	if s.service == "ministate" {
		bin = rig.TempDir()
		build := exec.CommandContext(rig.Context(), "go", "build", "-trimpath", "-o", filepath.Join(bin, "polycubed"), "./test/perf/cmd/fleetd")
		build.Dir = r.Root
		if out, err := build.CombinedOutput(); err != nil {
			return nil, nil, fmt.Errorf("build the daemon with the examples: %w: %s", err, out)
		}
	}
	return daemonOnWire(rig, bin)
}

// attach creates an instance and changes its configuration.
func (s fleetShape) attach(c *lab.Client, i int, got *fleetResult) error {
	text, err := json.Marshal([]any{s.instance(i)})
	if err != nil {
		return err
	}
	took, err := timed(c, "POST", "/cubes", string(text))
	if err == nil && s.linked() {
		var more time.Duration
		more, err = timed(c, "PATCH", "/simplebridge/hub/ports", hubPorts(i, i+1))
		took += more
	}
	if err != nil {
		return err
	}
	got.attach = append(got.attach, ms(took))
	got.all += took
	if s.constant() {
		return nil
	}
	rules := s.rulesOf(i)
	for k, some := range [][]any{rules[:1], rules[1:]} {
		if text, err = json.Marshal(some); err != nil {
			return err
		}
		if took, err = timed(c, "POST", fmt.Sprintf("/%s/f%d/%s", s.service, i, s.list()), string(text)); err != nil {
			return err
		}
		if k == 0 {
			got.change = append(got.change, ms(took))
		}
		got.all += took
	}
	return nil
}

// constants changes the constant of instances that are spread over all.
func (s fleetShape) constants(c *lab.Client, n int, got *fleetResult) error {
	for i := range fleetConstants {
		took, err := timed(c, "PATCH", fmt.Sprintf("/transparenthelloworld/f%d/egress-action", i*n/fleetConstants), `"DROP"`)
		if err != nil {
			return err
		}
		got.change = append(got.change, ms(took))
	}
	return nil
}

// instance is the configuration of an instance when it is created.
func (s fleetShape) instance(i int) map[string]any {
	netdev, hub := fmt.Sprintf("v%d", i), fmt.Sprintf("hub:p%d", i)
	of := map[string]any{"service-name": s.service, "name": fmt.Sprintf("f%d", i)}
	if s.transparent() {
		of["parent"] = netdev
		if s.together {
			of["parent"] = hub
		}
		return of
	}
	in := map[string]string{"name": "in"}
	if s.together {
		in["peer"] = hub
	}
	of["ports"] = []map[string]string{{"name": "out", "peer": netdev}, in}
	return of
}

// filter is the service whose rules are those of a chain, by other names.
const filter = "firewall"

// list is the list of an instance's rules.
func (s fleetShape) list() string {
	if s.service == filter {
		return "chain/INGRESS/rule"
	}
	return "rules"
}

// rulesOf are the rules of an instance.
func (s fleetShape) rulesOf(i int) []any {
	source, protocol, port := "src_ip", "l4_proto", "dst_port"
	if s.service == filter {
		source, protocol, port = "src", "l4proto", "dport"
	}
	rules := []any{s.rule(1, "in", map[string]any{source: fmt.Sprintf("10.%d.%d.0/24", i>>8, i&255)})}
	for n := range fleetRules {
		rules = append(rules, s.rule(n+2, "out", map[string]any{protocol: "TCP", port: 1000*n + i}))
	}
	return rules
}

// rule completes a rule; a forwarder sends its packets out of a port.
func (s fleetShape) rule(id int, to string, rule map[string]any) map[string]any {
	rule["id"] = id
	switch {
	case s.service == filter:
		rule["id"], rule["action"] = id-1, "ACCEPT" // positions begin with 0
	case !s.transparent():
		rule["action"], rule["out_port"] = "FORWARD", to
	}
	return rule
}

// rest creates the instances from one number to another in one request.
func (s fleetShape) rest(d *lab.Daemon, from, to int) error {
	all := []any{}
	for i := from; i < to; i++ {
		of := s.instance(i)
		switch {
		case s.constant():
		case s.service == filter:
			of["chain"] = []map[string]any{{"name": "INGRESS", "rule": s.rulesOf(i)}}
		default:
			of["rules"] = s.rulesOf(i)
		}
		all = append(all, of)
	}
	if len(all) == 0 {
		return nil
	}
	text, err := json.Marshal(all)
	if err != nil {
		return err
	}
	if err := d.Request("POST", "/cubes", string(text)); err != nil || !s.linked() {
		return err
	}
	return d.Request("PATCH", "/simplebridge/hub/ports", hubPorts(from, to))
}

// hubPorts is the configuration of the bridge's ports that lead to instances.
func hubPorts(from, to int) string {
	var ports []string
	for i := from; i < to; i++ {
		ports = append(ports, fmt.Sprintf(`{"name":"p%d","peer":"f%d:in"}`, i, i))
	}
	return "[" + strings.Join(ports, ",") + "]"
}

func timed(c *lab.Client, method, path, body string) (time.Duration, error) {
	took, _, _, err := c.Do(method, path, body)
	return took, err
}

// restart kills the daemon and starts it again under a flow.
func (s fleetShape) restart(rig *lab.Rig, w *lab.Wire, d *lab.Daemon, got *fleetResult) error {
	before, err := w.Settle()
	if err != nil {
		return err
	}
	sending, stop := context.WithCancel(rig.Context())
	defer stop()
	var sendErr error
	var wg sync.WaitGroup
	wg.Go(func() { got.sent, sendErr = lab.Load(sending, w.Left, fleetRate, stations) })
	err = d.Kill()
	began := time.Now()
	if err == nil {
		_, err = d.Start()
		got.restart = time.Since(began)
	}
	stop()
	wg.Wait()
	if err := errors.Join(err, sendErr); err != nil {
		return err
	}
	after, err := w.Settle()
	if got.lost = got.sent - int(after.Received-before.Received); err == nil && got.sent == 0 {
		err = fmt.Errorf("no packets were sent: %w", cube.ErrInvalid)
	}
	return err
}
