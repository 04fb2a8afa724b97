// SPDX-License-Identifier: Apache-2.0

// Package monitors has monitors for dynmon cubes. Its tests inject each one as its user would, send packets through it at
// both hooks and in both directions, and compare what comes out with what went in.
package monitors

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/polycube/polycube/cube"
	_ "github.com/polycube/polycube/cubes/dynmon"
	_ "github.com/polycube/polycube/cubes/helloworld"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
)

func TestMain(m *testing.M) { os.Exit(netns.CheckLeaks(m)) }

// maxVerified is how many instructions the verifier may process for a monitor, and for what is around it. A monitor that swaps
// is there twice.
const (
	maxVerified = 20_000
	around      = 2_000
)

// bench is a wire between two hosts with a monitor at the end of the first.
type bench struct {
	*bpftest.Lab
	t *testing.T
}

// objects is the configuration of a monitor with its compiled programs, for machines without a compiler.
func objects(t *testing.T, name string, typ cube.Type) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(name, "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	var conf map[string]map[string]any
	if err := json.Unmarshal(text, &conf); err != nil {
		t.Fatal(err)
	}
	read := func(hook string) string {
		object, err := os.ReadFile(filepath.Join(name, "monitor."+hook+".o"))
		if err != nil {
			t.Skipf("needs compiled programs: run make generate (%v)", err)
		}
		return base64.StdEncoding.EncodeToString(object)
	}
	for _, path := range conf {
		delete(path, "code-file")
		if path["object"] = read("tc"); typ != cube.TypeTC {
			path["object"], path["object-tc"] = read("xdp"), read("tc")
		}
	}
	return asText(conf)
}

// config is the configuration of a monitor as the injector sends it.
func config(t *testing.T, name string, typ cube.Type) string {
	t.Helper()
	if _, err := exec.LookPath("clang"); err != nil {
		return objects(t, name, typ)
	}
	cmd := exec.CommandContext(t.Context(), "python3", "../../deploy/dynmon_injector.py", "--print", "m", "h:p1", filepath.Join(name, "config.json"))
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return string(out)
}

// each runs a test of a monitor at both hooks.
func each(t *testing.T, name string, test func(b *bench)) {
	netns.NeedRoot(t)
	for _, typ := range []cube.Type{cube.TypeTC, cube.TypeXDPDRV} {
		t.Run(strings.ToLower(string(typ)), func(t *testing.T) {
			t.Parallel()
			conf := config(t, name, typ)
			l := bpftest.New(t, bpftest.Options{Type: typ, Hosts: 2})
			l.Create("helloworld", "h", `{"action":"FORWARD","ports":[{"name":"p1","peer":"veth1"},{"name":"p2","peer":"veth2"}]}`)
			l.Create("dynmon", "m", `{"dataplane-config":`+conf+`}`)
			l.Attach("m", "h:p1")
			limit := maxVerified + around
			if strings.Contains(conf, "swap-on-read") {
				limit += maxVerified
			}
			if n := l.Verified("h"); n > limit {
				t.Errorf("the verifier processes %d instructions, at most %d are allowed", n, limit)
			}
			test(&bench{l, t})
		})
	}
}

// In sends frames through the ingress path, Out through the egress path. All of them must pass unchanged.
func (b *bench) In(frames ...[]byte) { b.t.Helper(); b.send("veth1", "h:p2", frames) }

func (b *bench) Out(frames ...[]byte) { b.t.Helper(); b.send("veth2", "h:p1", frames) }

func (b *bench) send(from, to string, frames [][]byte) {
	b.t.Helper()
	for _, frame := range frames {
		if got, want := b.Run(from, frame), (bpftest.Outcome{Verdict: "send", Sent: to}); got != want {
			b.t.Fatalf("frame %x: %+v, want %+v", frame, got, want)
		}
	}
}

// Values reads all metrics once, by path and name, such as "ingress dns_queries".
func (b *bench) Values() map[string]any {
	b.t.Helper()
	var all map[string]any
	decode(b.t, b.Read("m metrics"), &all)
	out := map[string]any{}
	for _, path := range []string{"ingress", "egress"} {
		list, _ := all[path+"-metrics"].([]any)
		for _, m := range list {
			metric, ok := m.(map[string]any)
			if !ok {
				b.t.Fatalf("%s metrics: %v", path, m)
			}
			name, _ := metric["name"].(string)
			out[path+" "+name] = metric["value"]
		}
	}
	return out
}

func decode(t *testing.T, text string, to any) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if err := d.Decode(to); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
}

// Samples reads all metrics once, as OpenMetrics: values by name and labels, in alphabetical order and without the cube.
func (b *bench) Samples() map[string]float64 {
	b.t.Helper()
	var text string
	decode(b.t, b.Read("m open-metrics"), &text)
	if !strings.HasSuffix(text, "# EOF\n") && !strings.HasSuffix(text, "# EOF") {
		b.t.Errorf("the text has no end:\n%s", text)
	}
	out := map[string]float64{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		at := strings.LastIndexByte(line, ' ')
		value, err := strconv.ParseFloat(line[at+1:], 64)
		if err != nil {
			b.t.Fatalf("%v: %s", err, line)
		}
		name, labels, _ := strings.Cut(strings.TrimSuffix(line[:at], "}"), "{")
		list := slices.DeleteFunc(strings.Split(labels, ","), func(l string) bool { return l == "" || strings.HasPrefix(l, "cube=") })
		slices.Sort(list)
		key := name + "{" + strings.Join(list, ",") + "}"
		if _, twice := out[key]; twice {
			b.t.Errorf("%s is there twice:\n%s", key, text)
		}
		out[key] = value
	}
	return out
}

// WantSamples compares samples; others of the same metric are shown if one is different.
func (b *bench) WantSamples(want map[string]float64) {
	b.t.Helper()
	got := b.Samples()
	for series, value := range want {
		if v, there := got[series]; there && v == value {
			continue
		}
		name, _, _ := strings.Cut(series, "{")
		var others []string
		for s, v := range got {
			if strings.HasPrefix(s, name) && len(others) < 8 {
				others = append(others, fmt.Sprint(s, " ", v))
			}
		}
		b.t.Errorf("%s is %v, want %v; there are %d samples, such as\n%s", series, got[series], value, len(got), strings.Join(others, "\n"))
	}
}

// Want compares a value with JSON. The order of the entries of a map does not matter.
func (b *bench) Want(what string, got any, want string) {
	b.t.Helper()
	var expected any
	decode(b.t, want, &expected)
	if g, w := canonical(got), canonical(expected); !reflect.DeepEqual(g, w) {
		b.t.Errorf("%s is\n%s\nwant\n%s", what, asText(g), asText(w))
	}
}

func asText(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// canonical sorts the entries of maps.
func canonical(v any) any {
	list, ok := v.([]any)
	if !ok {
		return v
	}
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b any) int { return strings.Compare(asText(a), asText(b)) })
	return list
}

// number is a JSON number.
func number(v any) uint64 {
	n, err := strconv.ParseUint(fmt.Sprint(v), 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}

// sum adds up the values of all CPUs of an array with one entry: structs of numbers and of arrays of numbers.
func sum(t *testing.T, v any) any {
	t.Helper()
	entries, ok := v.([]any)
	if !ok || len(entries) != 1 {
		t.Fatalf("not one entry: %v", v)
	}
	cpus, ok := entries[0].([]any)
	if !ok || len(cpus) == 0 {
		t.Fatalf("no list of CPUs: %v", v)
	}
	out := cpus[0]
	for _, one := range cpus[1:] {
		out = plus(out, one)
	}
	return out
}

func plus(a, b any) any {
	switch a := a.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, v := range a {
			out[k] = plus(v, b.(map[string]any)[k])
		}
		return out
	case []any:
		out := make([]any, len(a))
		for i, v := range a {
			out[i] = plus(v, b.([]any)[i])
		}
		return out
	}
	return json.Number(strconv.FormatUint(number(a)+number(b), 10))
}

// buckets are those of a histogram that have a value, by their bits: 7 for values from 64 to 127.
func buckets(histogram any) (counts map[int]uint64, total uint64) {
	h := histogram.(map[string]any)
	counts = map[int]uint64{}
	for i, n := range h["count"].([]any) {
		if n := number(n); n > 0 {
			counts[i] = n
		}
	}
	return counts, number(h["sum"])
}

// all is the number of values in a histogram.
func all(counts map[int]uint64) (n uint64) {
	for _, c := range counts {
		n += c
	}
	return n
}

const (
	macA, macB = "02:00:00:00:00:0a", "02:00:00:00:00:0b"
	a4, b4     = "10.0.0.1", "10.0.0.2"
	a6, b6     = "2001:db8::1", "2001:db8::2"
)

// from begins a frame of host A, and back one of host B.
func from() *pkt.Frame { return pkt.Eth(macA, macB) }
func back() *pkt.Frame { return pkt.Eth(macB, macA) }

// hostile are frames that are cut off, malformed or foreign. No monitor must take them for what they are not.
func hostile() [][]byte {
	whole := from().IPv4(a4, b4).TCP(1000, 2000, pkt.TCPFlags{SYN: true, Seq: 1}).Bytes()
	options := slices.Clone(whole)
	options[14] = 0x4f // options of 40 bytes that are not there
	short := slices.Clone(whole)
	short[14] = 0x43 // a header of 12 bytes
	offset := slices.Clone(whole)
	offset[14+20+12] = 0xf0 // a TCP header longer than the frame
	return [][]byte{
		from().ARPRequest(macA, a4, b4).Bytes(),
		from().EtherType(0x88b5).Payload(46).Bytes(),
		options, short, offset, whole[:14+20+8],
		from().IPv4(a4, b4).Protocol(6).Bytes(), // TCP without a header
		from().IPv6(a6, b6).Protocol(0).Data([]byte{0, 255}).Bytes(),
		append(from().IPv6(a6, b6).Protocol(6).Bytes(), 1, 2, 3),
	}
}

// TestEveryMonitorIsTested: each folder has its three files, is in the table, and has a test.
func TestEveryMonitorIsTested(t *testing.T) {
	folders, err := filepath.Glob("*/config.json")
	if err != nil || len(folders) < 10 {
		t.Fatalf("%v, %v", folders, err)
	}
	table, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	tests, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	var sources string
	for _, file := range tests {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		sources += string(text)
	}
	for _, path := range folders {
		name := filepath.Dir(path)
		for _, file := range []string{"monitor.bpf.c", "README.md"} {
			if _, err := os.Stat(filepath.Join(name, file)); err != nil {
				t.Error(err)
			}
		}
		if !strings.Contains(string(table), "]("+name+"/README.md)") || !strings.Contains(sources, `each(t, "`+name+`"`) {
			t.Errorf("%s is not in README.md, or has no test", name)
		}
	}
}

// TestHostileFramesPass: what is cut off or malformed passes every monitor.
func TestHostileFramesPass(t *testing.T) {
	folders, err := filepath.Glob("*/config.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range folders {
		name := filepath.Dir(path)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			each(t, name, func(b *bench) {
				b.In(hostile()...)
				b.Out(hostile()...)
				if len(b.Values()) == 0 {
					b.t.Error("no metrics")
				}
			})
		})
	}
}
