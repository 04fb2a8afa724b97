// SPDX-License-Identifier: Apache-2.0

package upf

import (
	"bytes"
	"errors"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// configuration writes a file and returns its path.
func configuration(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "upf.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestOptionsHaveDefaults: a cube and an address are enough.
func TestOptionsHaveDefaults(t *testing.T) {
	t.Parallel()
	o, command, err := ParseOptions([]string{"--cube", "u", "--address", "192.0.2.1"}, &bytes.Buffer{})
	if err != nil || command != "" {
		t.Fatal(command, err)
	}
	if o.Listen != netip.MustParseAddrPort("192.0.2.1:8805") || o.NodeID != "192.0.2.1" || o.Severity != slog.LevelInfo || len(o.From)+len(o.Prefixes)+len(o.Peers) > 0 {
		t.Errorf("%+v", o)
	}
	c := o.n4(slog.Default())
	if c.Store != "/var/lib/polycube-upf/sessions.db" || c.T1 != 3*time.Second || c.N1 != 3 || c.Heartbeat != 10*time.Second {
		t.Errorf("%+v", c)
	}
}

// TestTheVersionIsPrinted, and nothing is run.
func TestTheVersionIsPrinted(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if _, _, err := ParseOptions([]string{"--version"}, &out); !errors.Is(err, errShown) || out.String() != "polycube-upf "+Version+"\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
}

// TestOptionsOfAFile: the file has all options that make sense there, and the command line wins.
func TestOptionsOfAFile(t *testing.T) {
	t.Parallel()
	file := configuration(t, `
cube: u
address: 192.0.2.1:9000
node-id: upf.example
smf: [198.51.100.1, "198.51.100.2:9001"]
allow: 198.51.100.0/24
pool: [10.1.0.7/16, 2001:db8::/48]
network-instance: [internet, ims]
gbr-capacity: 1000000
t1: 500ms
n1: 5
heartbeat: 1m
socket: /tmp/a
bpffs: /tmp/b
state-dir: /tmp/c
control: /tmp/d
metrics: 127.0.0.1:9103
loglevel: debug
`)
	o, _, err := ParseOptions([]string{"--config", file, "--pool", "10.2.0.0/16", "--n1=2", "--check-config"}, &bytes.Buffer{})
	if err != nil {
		t.Fatal(err)
	}
	c := o.n4(slog.Default())
	if !slices.Equal(o.Peers, []netip.AddrPort{netip.MustParseAddrPort("198.51.100.1:8805"), netip.MustParseAddrPort("198.51.100.2:9001")}) ||
		!slices.Equal(o.From, []netip.Prefix{netip.MustParsePrefix("198.51.100.0/24")}) || !slices.Equal(o.Networks, []string{"internet", "ims"}) {
		t.Errorf("%+v", o)
	}
	if len(c.Pools) != 1 || c.Pools[0].Prefix != netip.MustParsePrefix("10.2.0.0/16") || c.N1 != 2 {
		t.Errorf("the file wins over the command line: %+v", c)
	}
	if c.Address != netip.MustParseAddrPort("192.0.2.1:9000") || c.NodeID != "upf.example" || c.GuaranteedKbps != 1_000_000 || c.T1 != 500*time.Millisecond ||
		c.Heartbeat != time.Minute || c.Store != "/tmp/c/sessions.db" || o.Severity != slog.LevelDebug || !o.CheckConfig ||
		o.Cube+o.Socket+o.BPFFS+o.Control+o.Metrics != "u/tmp/a/tmp/b/tmp/d127.0.0.1:9103" {
		t.Errorf("%+v\n%+v", o, c)
	}
}

// TestOptionsThatAreRefused: each with what is wrong.
func TestOptionsThatAreRefused(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ args, file, want string }{
		{"", "", "--cube is missing"},
		{"--cube u", "", "--address is missing"},
		{"--cube u --address here", "", `--address: "here": neither an address`},
		{"--cube u --address 192.0.2.1 --colour red", "", "unknown flag: --colour"},
		{"--cube u --address 192.0.2.1 --n1 many", "", "many"},
		{"--cube u --address 192.0.2.1 --n1 0", "", "must be positive"},
		{"--cube u --address 192.0.2.1 --t1 0s", "", "must be positive"},
		{"--cube u --address 192.0.2.1 --heartbeat -1s", "", "must be positive"},
		{"--cube u --address 192.0.2.1 --pool 10.0.0.0", "", "--pool: "},
		{"--cube u --address 192.0.2.1 --pool 2001:db8::/65", "", "--pool 2001:db8::/65: a device gets"},
		{"--cube u --address 192.0.2.1 --allow smf", "", "--allow: "},
		{"--cube u --address 192.0.2.1 --smf smf.example", "", `--smf: "smf.example"`},
		{"--cube u --address 192.0.2.1 --state-dir here", "", "--state-dir here: must be an absolute path"},
		{"--cube u --address 192.0.2.1 --loglevel loud", "", "--loglevel: "},
		{"--cube u --address 192.0.2.1 --json", "", "--json is accepted only by"},
		{"--cube u --address 192.0.2.1 run", "", `unexpected word "run"`},
		{"--config /nonexistent/upf.yaml", "", "read the configuration: "},
		{"", "cube: [", "upf.yaml: "},
		{"", "cube: {a: b}", "upf.yaml: "},
		{"", "colour: red", "there is no option colour"},
		{"", "config: other.yaml", "there is no option config"},
		{"", "json: true", "there is no option json"},
		{"", "n1: many", "upf.yaml: n1: "},
		{"", "cube: u", "--address is missing"},
	} {
		t.Run(tt.args+tt.file, func(t *testing.T) {
			t.Parallel()
			args := strings.Fields(tt.args)
			if tt.file != "" {
				args = append(args, "--config", configuration(t, tt.file))
			}
			_, _, err := ParseOptions(args, &bytes.Buffer{})
			var wrong usageError
			if !errors.As(err, &wrong) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}

// TestWhatTheProgramExitsWith: 64 for mistakes, 1 for what cannot be done, and 0.
func TestWhatTheProgramExitsWith(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]struct {
		exit        int
		said, wrong string
	}{
		"--help": {exitOK, "usage: polycube-upf --cube NAME", ""},
		"--cube u --address 192.0.2.1 --check-config": {exitOK, "the options are valid\n", ""},
		"--cube u":                        {exitUsage, "", "--address is missing"},
		"status --control /nonexistent/c": {exitFailed, "", "no polycube-upf answers at /nonexistent/c"},
		"leave --control /nonexistent/c":  {exitFailed, "", "no polycube-upf answers at /nonexistent/c"},
		"leave --json":                    {exitUsage, "", "--json is accepted only by polycube-upf status"},
		"leave now":                       {exitUsage, "", `unexpected word "now"`},
		"--cube u --address 192.0.2.1 --state-dir /proc/self/x": {exitFailed, "", "state directory: "},
	} {
		var stdout, stderr bytes.Buffer
		if exit := Main(strings.Fields(args), &stdout, &stderr); exit != want.exit || !strings.HasPrefix(stdout.String(), want.said) || !strings.Contains(stderr.String(), want.wrong) {
			t.Errorf("%s: exit %d, %q, %q", args, exit, stdout.String(), stderr.String())
		}
	}
}
