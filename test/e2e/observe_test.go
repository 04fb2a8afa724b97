// SPDX-License-Identifier: Apache-2.0

// What an operator monitors: metrics that match the packets, events as they occur, health as an exit status.

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/output"
	"github.com/polycube/polycube/test/pkt"
)

// scrape reads metrics as Prometheus does: the value of each series by its text, such as a_total{b="c"}.
func (m *machine) scrape() map[string]float64 {
	m.t.Helper()
	resp, err := m.http.Get("http://polycubed/metrics")
	if err != nil {
		m.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		m.t.Fatalf("status %d, %v", resp.StatusCode, err)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		m.t.Fatal(err)
	}
	out := map[string]float64{}
	for name, f := range families {
		for _, one := range f.GetMetric() {
			var labels []string
			for _, l := range one.GetLabel() {
				labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			key := name
			if len(labels) > 0 {
				key += "{" + strings.Join(labels, ",") + "}"
			}
			out[key] = one.GetCounter().GetValue() + one.GetGauge().GetValue() + float64(one.GetHistogram().GetSampleCount())
		}
	}
	return out
}

// TestMetricsAreThePackets: as many packets and bytes as were sent are in the statistics, in the metrics and among the
// drops, no more and no fewer, on each kind of hook.
func TestMetricsAreThePackets(t *testing.T) {
	t.Parallel()
	for _, kind := range types {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			const sent, size = 250, 64
			d := start(t)
			host := d.lab.Host("veth1", "")
			d.Do("helloworld add h1 type=" + kind)
			d.Do("h1 ports add p1 peer=veth1")
			in := netns.OpenRaw(t, host, netns.Inner)
			frame := pkt.EthernetFrame([]byte{255, 255, 255, 255, 255, 255}, host.MAC, streamType, make([]byte, size-14))
			for range sent {
				if err := in.Send(frame); err != nil {
					t.Fatal(err)
				}
			}
			netns.Eventually(t, patience, func() error {
				got := d.scrape()
				for series, want := range map[string]float64{
					`polycube_port_packets_total{cubeName="h1",direction="rx",port="p1"}`: sent,
					`polycube_port_bytes_total{cubeName="h1",direction="rx",port="p1"}`:   sent * size,
					`polycube_port_packets_total{cubeName="h1",direction="tx",port="p1"}`: 0,
					`polycube_drops_total{cubeName="h1",reason="action-drop"}`:            sent,
					`polycube_port_up{cubeName="h1",port="p1"}`:                           1,
					`polycube_netdev_up{netdev="veth1"}`:                                  1,
					`polycube_cube_healthy{cubeName="h1",service="helloworld"}`:           1,
				} {
					if v, there := got[series]; !there || v != want {
						return fmt.Errorf("%s is %v (%v), want %v", series, v, there, want)
					}
				}
				return nil
			})
			s := d.Stats("h1")
			if s.Rx(t, "p1") != sent || s.Fate(t, "action-drop") != sent {
				t.Errorf("statistics %+v, want %d packets", s, sent)
			}
		})
	}
}

// TestMetricsOfTheDaemon: the learned addresses are in the bridge's map, and links, disk writes and packets of the slow
// path are counted.
func TestMetricsOfTheDaemon(t *testing.T) {
	t.Parallel()
	d := start(t)
	a, b := d.lab.Host("veth1", "10.0.0.1/24"), d.lab.Host("veth2", "10.0.0.2/24")
	d.Do("simplebridge add br1")
	d.Do("br1 ports add p1 peer=veth1")
	d.Do("br1 ports add p2 peer=veth2")
	if err := a.Ping("10.0.0.2"); err != nil {
		t.Fatal(err)
	}
	_ = b
	netns.Eventually(t, patience, func() error {
		got := d.scrape()
		entries, inlined := -1.0, got[`polycube_segment_inlined{cubeName="br1"}`]
		for series, v := range got {
			if strings.HasPrefix(series, `polycube_map_entries{cubeName="br1"`) && strings.Contains(series, "fdb") {
				entries = v
			}
		}
		if entries != 2 || inlined != 1 {
			return fmt.Errorf("%v entries of the fdb, want 2; inlined %v", entries, inlined)
		}
		for series, least := range map[string]float64{
			`polycube_relink_duration_seconds{mode="call"}`: 1, `polycube_relink_duration_seconds{mode="inline"}`: 1,
			`polycube_store_commit_duration_seconds`: 3, `polycube_transaction_duration_seconds`: 3, `polycube_configuration_revision`: 3,
			`polycube_slowpath_ring_bytes`: 1 << 20, `process_resident_memory_bytes`: 1 << 20, `go_goroutines`: 1,
		} {
			if got[series] < least {
				return fmt.Errorf("%s is %v, want %v or more", series, got[series], least)
			}
		}
		return nil
	})
}

// follow runs polycubectl events in the background.
func (m *machine) follow(args ...string) *output.Buffer {
	m.t.Helper()
	out := &output.Buffer{}
	cmd := exec.CommandContext(m.t.Context(), program(m.t, "polycubectl"), append([]string{"events", "-json"}, args...)...)
	cmd.Env, cmd.Stdout, cmd.Stderr = m.environment(), out, out
	if err := cmd.Start(); err != nil {
		m.t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { _ = cmd.Wait(); close(done) }()
	m.t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		<-done
	})
	netns.Eventually(m.t, patience, func() error {
		if m.scrape()["polycube_event_subscribers"] == 0 {
			return fmt.Errorf("nobody follows: %s", out.String())
		}
		return nil
	})
	return out
}

// seen are the events of an output in short.
func seen(text string) []string {
	var out []string
	for line := range strings.Lines(text) {
		var e struct{ ID, Type, Cube, Port, Netdev, State string }
		if json.Unmarshal([]byte(line), &e) == nil {
			out = append(out, strings.TrimSpace(strings.Join([]string{e.Type, e.Cube + e.Netdev, e.Port, e.State}, " ")))
		}
	}
	return out
}

// TestEventsAreTold: an operator who follows events sees changes, ports and netdevs as they happen, and one who
// reconnects after a restart is told that events may be missing.
func TestEventsAreTold(t *testing.T) {
	t.Parallel()
	d := start(t)
	d.lab.Host("veth1", "")
	out := d.follow()
	d.Do("simplebridge add br1")
	d.Do("br1 ports add p1 peer=veth1")
	link := func(args ...string) {
		t.Helper()
		if text, err := d.lab.Command("ip", append([]string{"link"}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
	}
	wait := func(want ...string) {
		t.Helper()
		netns.Eventually(t, patience, func() error {
			got := seen(out.String())
			for _, w := range want {
				if !slices.Contains(got, w) {
					return fmt.Errorf("no %q among %q", w, got)
				}
			}
			return nil
		})
	}
	wait("config", "port br1 p1 UP", "relink   inline")
	link("set", "veth1", "down")
	wait("netdev veth1  down", "port br1 p1 DOWN")
	if r := d.CLI("status", "--check"); r.code != 5 || !strings.HasPrefix(r.stdout, "POLYCUBE WARNING - br1:p1 is DOWN: veth1 is down") {
		t.Error(r)
	}
	link("set", "veth1", "up")
	netns.Eventually(t, patience, func() error {
		if r := d.CLI("status", "--check"); r.code != 0 || !strings.HasPrefix(r.stdout, "POLYCUBE OK - 1 cubes, 1 of 1 ports up") {
			return fmt.Errorf("%v", r)
		}
		return nil
	})
	link("del", "veth1")
	wait("netdev veth1  went")
	d.Do("del br1")
	var last struct{ ID string }
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil {
		t.Fatal(err)
	}
	d.Stop()
	d2 := d.machine.Start()
	if r := d2.CLI("events", "--after", last.ID, "-c", "2", "-json"); r.code != 0 || !slices.Equal(seen(r.stdout), []string{"lost", "daemon   ready"}) {
		t.Errorf("%v, want what is lost and the start", r)
	}
}

// TestStatusOnOneScreen: the status in readable form.
func TestStatusOnOneScreen(t *testing.T) {
	t.Parallel()
	d := start(t)
	d.lab.Host("veth1", "")
	d.Do("simplebridge add br1")
	d.Do("br1 ports add p1 peer=veth1")
	d.Do("br1 ports add p2")
	text := d.Do("status")
	for _, want := range []string{"status     ok", "instance e2e", "1 (1 simplebridge), revision 3", "2: 1 up, 0 down, 1 without a peer", "none recently"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if got := d.Do("daemon show loglevel"); got != "INFO\n" {
		t.Errorf("loglevel %q", got)
	}
	d.Do("daemon set loglevel=debug")
	if got := d.Do("daemon show loglevel"); got != "DEBUG\n" {
		t.Errorf("loglevel %q", got)
	}
}

// TestFloodOfLines: a cube that logs a line for each packet writes some of them, reports how many it omitted, and
// continues when the flood is over; no line is truncated, and packets are counted as usual.
func TestFloodOfLines(t *testing.T) {
	t.Parallel()
	const flood = 3000
	d := start(t)
	host := d.lab.Host("veth1", "")
	d.Do("helloworld add h1 loglevel=DEBUG")
	d.Do("h1 ports add p1 peer=veth1")
	in := netns.OpenRaw(t, host, netns.Inner)
	frame := pkt.EthernetFrame([]byte{255, 255, 255, 255, 255, 255}, host.MAC, streamType, make([]byte, 50))
	count := func(what string) (n int) {
		for line := range strings.Lines(d.out.String()) {
			if strings.Contains(line, "[h1]") && strings.Contains(line, what) {
				n++
				if f := strings.Fields(line); len(f) < 6 || f[3] != "[h1]" {
					t.Errorf("a line of another shape: %q", line)
				}
			}
		}
		return n
	}
	netns.Eventually(t, patience, func() error {
		if err := in.Send(frame); err != nil {
			return err
		}
		if count("ingress: port") == 0 {
			return fmt.Errorf("nothing is logged at DEBUG")
		}
		return nil
	})
	for range flood {
		if err := in.Send(frame); err != nil {
			t.Fatal(err)
		}
	}
	netns.Eventually(t, patience, func() error {
		if d.Stats("h1").Rx(t, "p1") < flood || count("lines were omitted") == 0 {
			return fmt.Errorf("%d packets, %d lines, none says what was left out", d.Stats("h1").Rx(t, "p1"), count("ingress: port"))
		}
		return nil
	})
	if n := count("ingress: port"); n > flood/2 {
		t.Errorf("%d lines of %d packets", n, flood)
	}
	before := count("ingress: port")
	netns.Eventually(t, patience, func() error {
		if err := in.Send(frame); err != nil {
			return err
		}
		if count("ingress: port") <= before {
			return fmt.Errorf("nothing is logged after the flood")
		}
		return nil
	})
}
