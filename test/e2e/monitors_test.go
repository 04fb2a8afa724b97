// SPDX-License-Identifier: Apache-2.0

// Monitors as operators use them: dynmon_injector.py and dynmon_extractor.py against a real daemon.

package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
)

const monitors = "../../examples/monitors"

// script is a command that runs a Python program of deploy, in the namespace of the daemon.
func (m *machine) script(name string, args ...string) *exec.Cmd {
	m.t.Helper()
	path, err := filepath.Abs(filepath.Join("..", "..", "deploy", name))
	if err != nil {
		m.t.Fatal(err)
	}
	cmd := m.lab.Command("python3", append([]string{path}, args...)...)
	cmd.Env = append(m.environment(), "PYTHONDONTWRITEBYTECODE=1")
	return cmd
}

// inject runs the injector, extract the extractor.
func (m *machine) inject(args ...string) result {
	m.t.Helper()
	return run(m.t, m.script("dynmon_injector.py", args...), "")
}

func (m *machine) extract(args ...string) result {
	m.t.Helper()
	return run(m.t, m.script("dynmon_extractor.py", args...), "")
}

// must is the standard output of a command that succeeds.
func must(t *testing.T, r result) string {
	t.Helper()
	if r.code != 0 || r.stderr != "" {
		t.Fatal(r)
	}
	return r.stdout
}

// monitor is the configuration of a monitor of the library.
func monitor(name string) string { return filepath.Join(monitors, name, "config.json") }

// needClang skips a test that injects source code.
func needClang(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("clang"); err != nil {
		t.Skip("needs clang: run scripts/deps.sh build")
	}
}

// written is a file with a text.
func written(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const counting = `#include <pcn/monitor.h>
PCN_MAP(packets, BPF_MAP_TYPE_ARRAY, __u32, __u64, 1);
PCN_MONITOR
{
	__u32 zero = 0;
	__u64 *n = bpf_map_lookup_elem(&packets, &zero);

	if (n)
		__sync_fetch_and_add(n, 1);
	return pcn_pkt_pass(ctx, md);
}
`

// counter is a configuration whose ingress path has a code, and a metric packets.
func counter(t *testing.T, code string) string {
	t.Helper()
	text, err := json.Marshal(map[string]any{"ingress-path": map[string]any{"name": "counter", "code": code, "metric-configs": []any{
		map[string]any{"name": "packets", "map-name": "packets", "open-metrics-metadata": map[string]any{"help": "Packets.", "type": "Counter"}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	return written(t, "counter.json", string(text))
}

// monitored is the number of packets that a monitor of counter has counted.
func (d *daemon) monitored(t *testing.T, name string) uint64 {
	t.Helper()
	var got map[string][]struct {
		Name      string
		Value     []uint64
		Timestamp int64
	}
	if err := json.Unmarshal([]byte(must(t, d.extract(name, "-t", "ingress"))), &got); err != nil {
		t.Fatal(err)
	}
	list := got["ingress-metrics"]
	if len(list) != 1 || list[0].Name != "packets" || len(list[0].Value) != 1 || time.Since(time.UnixMicro(list[0].Timestamp)).Abs() > patience {
		t.Fatalf("%+v", got)
	}
	return list[0].Value[0]
}

// TestInjectorAndExtractor: what the tools print, and that a refused monitor changes nothing.
func TestInjectorAndExtractor(t *testing.T) {
	t.Parallel()
	needClang(t)
	for _, kind := range types {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			d := start(t)
			host := d.lab.Host("veth1", "")
			conf := counter(t, counting)
			if out := must(t, d.inject("m1", "veth1", conf, "-t", kind)); out != "m1 monitors veth1: ingress counter, egress default\n" {
				t.Errorf("%q", out)
			}
			if chain := d.Do("topology show veth1"); !strings.Contains(chain, "ingress service chain: m1") {
				t.Error(chain)
			}
			in := netns.OpenRaw(t, host, netns.Inner)
			frame := pkt.EthernetFrame([]byte{255, 255, 255, 255, 255, 255}, host.MAC, streamType, make([]byte, 50))
			send := func(n int) {
				t.Helper()
				for range n {
					if err := in.Send(frame); err != nil {
						t.Fatal(err)
					}
				}
			}
			want := func(n uint64) {
				t.Helper()
				netns.Eventually(t, patience, func() error {
					if got := d.monitored(t, "m1"); got != n {
						return fmt.Errorf("%d packets, want %d", got, n)
					}
					return nil
				})
			}
			send(5)
			want(5)
			d.formats(t)
			refused := d.inject("m1", "veth1", counter(t, strings.Replace(counting, "&zero", "&nothing", 1)))
			if refused.code != 2 || !strings.Contains(refused.stderr, "'nothing'") || refused.stdout != "" {
				t.Error(refused)
			}
			loop := d.inject("m1", "veth1", counter(t, strings.Replace(counting, "if (n)", "for (__u64 *p = n; ; p++)\n\t\t*p = 1;\n\tif (n)", 1)))
			if loop.code != 2 || loop.stderr == "" {
				t.Error(loop)
			}
			send(2)
			want(7) // the first monitor, with its counts
			must(t, d.inject("m1", "veth1", counter(t, "// another one\n"+counting), "-m", "-t", kind))
			send(1)
			want(1) // begins at 0
			d.Alive()
		})
	}
}

// TestAMonitorOutlivesItsDaemonAndItsCompiler: it counts while the daemon is killed, and continues with its counts when the
// daemon starts, also where no compiler is installed any more; only another monitor needs one.
func TestAMonitorOutlivesItsDaemonAndItsCompiler(t *testing.T) {
	t.Parallel()
	needClang(t)
	for _, kind := range types {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			d := start(t)
			host := d.lab.Host("veth1", "")
			must(t, d.inject("m1", "veth1", counter(t, counting), "-t", kind))
			in := netns.OpenRaw(t, host, netns.Inner)
			frame := pkt.EthernetFrame([]byte{255, 255, 255, 255, 255, 255}, host.MAC, streamType, make([]byte, 50))
			sent := uint64(0)
			send := func() {
				t.Helper()
				for range 5 {
					if err := in.Send(frame); err != nil {
						t.Fatal(err)
					}
					sent++
				}
			}
			counted := func(when string) {
				t.Helper()
				netns.Eventually(t, patience, func() error {
					if got := d.monitored(t, "m1"); got != sent {
						return fmt.Errorf("%s: %d packets, want %d", when, got, sent)
					}
					return nil
				})
			}
			send()
			counted("before")
			for _, path := range []string{os.Getenv("PATH"), t.TempDir()} {
				d.Kill9()
				send()
				d.env = []string{"PATH=" + path}
				d = d.Start()
				send()
				counted("with PATH=" + path)
			}
			refused := d.inject("m1", "veth1", counter(t, "// another one\n"+counting))
			if refused.code == 0 || !strings.Contains(refused.stderr, "no compiler is installed") {
				t.Error(refused)
			}
			send()
			counted("after another monitor was refused")
		})
	}
}

// TestInjectorTakesObjects: what polycube-cc compiles counts as the source does, on both paths.
func TestInjectorTakesObjects(t *testing.T) {
	t.Parallel()
	needClang(t)
	dir := t.TempDir()
	source := filepath.Join(dir, "counter.bpf.c")
	if err := os.WriteFile(source, []byte(counting+"PCN_LICENSE;\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := run(t, exec.CommandContext(t.Context(), "../../deploy/polycube-cc", "--no-check", source), ""); r.code != 0 {
		t.Fatal(r)
	}
	for _, kind := range types {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			d := start(t)
			host := d.lab.Host("veth1", "10.0.0.1/24")
			d.lab.Run("ip", "addr", "add", "10.0.0.2/24", "dev", "veth1")
			object := `"object-file":"counter.tc.o"`
			if kind != "TC" {
				object = `"object-file":"counter.xdp.o","object-tc-file":"counter.tc.o"`
			}
			path := `{"name":"counter",` + object + `,"metric-configs":[{"name":"packets","map-name":"packets"}]}`
			conf := filepath.Join(dir, kind+".json")
			if err := os.WriteFile(conf, []byte(`{"ingress-path":`+path+`,"egress-path":`+path+`}`), 0o600); err != nil {
				t.Fatal(err)
			}
			must(t, d.inject("m1", "veth1", conf, "-t", kind))
			reaches(t, host, "10.0.0.2")
			var got map[string][]struct{ Value []uint64 }
			if err := json.Unmarshal([]byte(must(t, d.extract("m1"))), &got); err != nil {
				t.Fatal(err)
			}
			for _, list := range []string{"ingress-metrics", "egress-metrics"} {
				if len(got[list]) != 1 || len(got[list][0].Value) != 1 || got[list][0].Value[0] == 0 {
					t.Errorf("%s: %+v", list, got[list])
				}
			}
		})
	}
}

// formats checks the formats and files of the extractor, for a monitor m1 that has counted 5 packets.
func (d *daemon) formats(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	open := must(t, d.extract("m1", "--format", "open-metrics"))
	if !strings.Contains(open, "# TYPE packets counter\n") || !strings.Contains(open, "packets_total{") || !strings.HasSuffix(strings.TrimSpace(open), "# EOF") {
		t.Errorf("OpenMetrics:\n%s", open)
	}
	if got := total(t, must(t, d.extract("m1", "--format", "prometheus")), "packets_total"); got != 5 {
		t.Errorf("%v packets, want 5", got)
	}
	file := filepath.Join(dir, "m1.prom")
	must(t, d.extract("m1", "--format", "prometheus", "-o", file))
	text, err := os.ReadFile(file)
	if info, statErr := os.Stat(file); err != nil || statErr != nil || info.Mode() != 0o644 || total(t, string(text), "packets_total") != 5 {
		t.Errorf("%v, %v, %v:\n%s", err, statErr, info.Mode(), text)
	}
	save := d.script("dynmon_extractor.py", "m1", "-s", "-n", "packets")
	save.Dir = dir
	must(t, run(t, save, ""))
	if text, err := os.ReadFile(filepath.Join(dir, "m1.json")); err != nil || !strings.Contains(string(text), `"name": "packets"`) {
		t.Errorf("%v: %s", err, text)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 2 {
		t.Errorf("%v, %v", left, err)
	}
	if out := must(t, d.extract("m1", "-t", "egress")); strings.Join(strings.Fields(out), "") != `{"egress-metrics":[]}` {
		t.Errorf("%q", out)
	}
}

// total is the sum of the samples of a metric in the text format of Prometheus.
func total(t *testing.T, text, metric string) (sum float64) {
	t.Helper()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Fatalf("%v:\n%s", err, text)
	}
	if families[metric] == nil {
		t.Fatalf("no %s in\n%s", metric, text)
	}
	for _, m := range families[metric].GetMetric() {
		sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
	}
	return sum
}

// TestMisusedTools: each mistake has its exit status and a message that says what to do, and changes nothing.
func TestMisusedTools(t *testing.T) {
	t.Parallel()
	d := start(t)
	d.lab.Host("veth1", "")
	d.Do("simplebridge add br1")
	good := monitor("packet-size")
	dir := t.TempDir()
	const injector, extractor = "dynmon_injector.py", "dynmon_extractor.py"
	tests := []struct {
		name, tool string
		args       []string
		code       int
		says       string
	}{
		{"no arguments", injector, nil, 64, "required: NAME, IFACE, FILE"},
		{"no name", extractor, nil, 64, "required: NAME"},
		{"another hook", injector, []string{"m", "veth1", good, "-t", "WIFI"}, 64, "invalid choice"},
		{"a port that is none", injector, []string{"m", "veth1", good, "-p", "70000"}, 64, "is no port"},
		{"no file", injector, []string{"m", "veth1", dir + "/none"}, 64, "No such file or directory: " + dir + "/none"},
		{"no JSON", injector, []string{"m", "veth1", written(t, "a", "{")}, 64, "is not JSON"},
		{"a list", injector, []string{"m", "veth1", written(t, "a", "[]")}, 64, "must be an object with ingress-path and egress-path"},
		{"another member", injector, []string{"m", "veth1", written(t, "a", `{"ingres-path":{}}`)}, 64, "unknown member 'ingres-path'"},
		{"code twice", injector, []string{"m", "veth1", written(t, "a", `{"ingress-path":{"code":"x","code-file":"y"}}`)}, 64, "both code and code-file"},
		{"no code file", injector, []string{"m", "veth1", written(t, "a", `{"ingress-path":{"code-file":"y.c"}}`)}, 64, "y.c"},
		{"not UTF-8", injector, []string{"m", "veth1", written(t, "a", "\xff")}, 64, "is not UTF-8"},
		{"a cube of another service", injector, []string{"br1", "veth1", good}, 64, "is of service simplebridge, not dynmon"},
		{"no such interface", injector, []string{"m", "eth77", good}, 2, "eth77"},
		{"no such port", injector, []string{"m", "br1:p7", good}, 2, "p7"},
		{"no code, but a metric", injector, []string{"m", "veth1", written(t, "a", `{"ingress-path":{"metric-configs":[{"name":"m","map-name":"x"}]}}`)}, 2, "no code or object"},
		{"no such cube", extractor, []string{"nobody"}, 2, "nobody"},
		{"another daemon", extractor, []string{"m", "-a", "unix:///nowhere/polycubed.sock"}, 1, "is polycubed running?"},
		{"nobody at the port", extractor, []string{"m", "-p", "19999"}, 1, "is polycubed running, and with --port or --addr?"},
		{"another scheme", extractor, []string{"m", "-a", "ftp://localhost"}, 64, "write a host"},
		{"a metric of another format", extractor, []string{"m", "-n", "x", "--format", "open-metrics"}, 64, "-n and -t are for the format json"},
		{"two files", extractor, []string{"m", "-s", "-o", "x"}, 64, "exclude each other"},
		{"a token in clear text", extractor, []string{"m", "-a", "192.0.2.1", "--tokenfile", written(t, "token", "0123")}, 1, "use https"},
		{"help", injector, []string{"--help"}, 0, "exit status"},
		{"version", extractor, []string{"-v"}, 0, "dynmon_extractor.py 1.0"},
	}
	before := d.Configuration()
	for _, tt := range tests {
		if tt.code == 2 {
			needClang(t)
		}
		r := run(t, d.script(tt.tool, tt.args...), "")
		if r.code != tt.code || !strings.Contains(r.stdout+r.stderr, tt.says) || strings.Contains(r.stderr, "Traceback") {
			t.Errorf("%s: %v, want exit %d and %q", tt.name, r, tt.code, tt.says)
		}
	}
	if after := d.Configuration(); after != before {
		t.Errorf("the configuration was %s, and is %s", before, after)
	}
}

// TestToolsOverTCP: with the token of the daemon; without it, only reading works.
func TestToolsOverTCP(t *testing.T) {
	t.Parallel()
	needClang(t)
	m := newMachine(t)
	d := m.Start("--port", apiPort)
	d.lab.Host("veth1", "")
	there := []string{"-a", "localhost", "-p", apiPort}
	token := append(slices.Clone(there), "--tokenfile", filepath.Join(d.dir, "run", "token"))
	conf := counter(t, counting)
	if r := d.inject(append([]string{"m1", "veth1", conf}, there...)...); r.code != 2 || !strings.Contains(r.stderr, "token") {
		t.Errorf("without a token: %v", r)
	}
	must(t, d.inject(append([]string{"m1", "veth1", conf}, token...)...))
	must(t, d.extract(append([]string{"m1"}, there...)...))
	must(t, d.extract("m1", "-a", "http://[::ffff:127.0.0.1]:"+apiPort))
}

// TestExtractorServesPrometheus: each scrape has the present values, and a cube that is gone is an error of the scrape.
func TestExtractorServesPrometheus(t *testing.T) {
	t.Parallel()
	needClang(t)
	d := start(t)
	d.lab.Host("veth1", "")
	must(t, d.inject("m1", "veth1", counter(t, counting)))
	cmd := d.script("dynmon_extractor.py", "m1", "--serve", "0")
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGINT) // it may have ended
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	url, found := strings.CutPrefix(strings.TrimSpace(line), "serving ")
	if err != nil || !found || !strings.HasPrefix(url, "http://127.0.0.1:") {
		t.Fatalf("%q, %v", line, err)
	}
	get := func(url string) (status int, body string) {
		t.Helper()
		d.lab.Must(func() error {
			transport := &http.Transport{DisableKeepAlives: true, Dial: func(network, address string) (c net.Conn, err error) { //nolint:staticcheck // the namespace is that of the caller
				err = d.lab.Do(func() error { c, err = net.Dial(network, address); return err })
				return c, err
			}}
			resp, err := (&http.Client{Transport: transport, Timeout: patience}).Get(url)
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			text, err := io.ReadAll(resp.Body)
			status, body = resp.StatusCode, string(text)
			return err
		})
		return status, body
	}
	if status, body := get(url); status != http.StatusOK || total(t, body, "packets_total") < 0 {
		t.Errorf("%d, %s", status, body)
	}
	if status, _ := get(strings.TrimSuffix(url, "metrics")); status != http.StatusNotFound {
		t.Errorf("another path: %d", status)
	}
	d.Do("del m1")
	if status, body := get(url); status != http.StatusBadGateway || !strings.Contains(body, "m1") {
		t.Errorf("%d, %s", status, body)
	}
}
