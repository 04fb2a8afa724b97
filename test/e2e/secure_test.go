// SPDX-License-Identifier: Apache-2.0

// The guide to securing the daemon, executed literally: certificates by openssl, a daemon with the configuration file
// shown, and authorized and unauthorized clients.

package e2e

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/polycube/polycube/test/lint/readme"
)

var confBlock = regexp.MustCompile("(?s)```conf\n(.*?)```")

func TestTheGuideToSecureIt(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"openssl", "curl"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("needs %s: run make deps (%v)", tool, err)
		}
	}
	m := newMachine(t)
	raw, err := os.ReadFile("../../docs/guide/secure.md")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.NewReplacer("/run/polycube", filepath.Join(m.dir, "run"), "/etc/polycube", filepath.Join(m.dir, "etc"),
		"/var/lib/polycube", filepath.Join(m.dir, "state")).Replace(string(raw))
	examples, err := readme.Parse(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	conf := confBlock.FindStringSubmatchIndex(text)
	if conf == nil || len(examples) < 10 {
		t.Fatalf("the guide has %d examples and configuration %v", len(examples), conf)
	}
	var options []string
	for line := range strings.Lines(text[conf[2]:conf[3]]) {
		option, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		options = append(options, "--"+option, value)
	}
	begin := strings.Count(text[:conf[0]], "\n")
	certificates := func(e readme.Example) bool {
		return e.Line < begin && !strings.Contains(e.Command, "polycubectl") && !strings.Contains(e.Command, "curl")
	}
	m.do(t, examples, certificates)
	d := m.Start(options...)
	m.do(t, examples, func(e readme.Example) bool { return !certificates(e) })
	d.fromAfar(t)
	d.Alive()
}

// fromAfar connects from another host, with the name in the guide's certificate.
func (d *daemon) fromAfar(t *testing.T) {
	t.Helper()
	host := d.lab.Host("veth1", "10.0.0.1/24")
	d.lab.Run("ip", "addr", "add", "10.0.0.254/24", "dev", "veth1")
	reaches(t, host, "10.0.0.254")
	const url = "https://router1.example.org:9443/polycube/v1/simplebridge/br1/loglevel/"
	alice := []string{"--cacert", "ca.pem", "--cert", "alice.pem", "--key", "alice-key.pem"}
	tests := []struct {
		name string
		args []string
		says string
	}{
		{"an admin reads", append(alice, url), `"DEBUG" 200`},
		{"an admin changes", append(alice, "-X", "PATCH", "-d", `"INFO"`, url), " 200"},
		{"no certificate", []string{"--cacert", "ca.pem", url}, " 000"},
		{"a certificate that was taken back", []string{"--cacert", "ca.pem", "--cert", "bob.pem", "--key", "bob-key.pem", url}, " 000"},
		{"the daemon's own certificate", []string{"--cacert", "ca.pem", "--cert", "server.pem", "--key", "server-key.pem", url}, " 000"},
		{"no TLS", []string{strings.Replace(url, "https:", "http:", 1)}, "Client sent an HTTP request to an HTTPS server.\n 400"},
		{"TLS 1.1", append(alice, "--tlsv1.0", "--tls-max", "1.1", url), " 000"},
		{"HTTP/2 is not spoken", append(alice, "--http2", url), `"INFO" 200`},
		{"another host's name", append(alice, "-H", "Host: evil.example", url), "not in the daemon's certificate"},
		{"a page of another site", append(alice, "-H", "Origin: https://evil.example", "-X", "DELETE", url), "another site"},
	}
	for _, tt := range tests {
		cmd := host.Command("curl", slices.Concat([]string{"-s", "-w", " %{http_code}", "--resolve", "router1.example.org:9443:10.0.0.254"}, tt.args)...)
		cmd.Dir = filepath.Join(d.dir, "clone")
		if r := run(t, cmd, ""); !strings.Contains(r.stdout, tt.says) {
			t.Errorf("%s: %s, want %q", tt.name, r, tt.says)
		}
	}
}

// do runs those examples of a document that are wanted.
func (m *machine) do(t *testing.T, examples []readme.Example, wanted func(readme.Example) bool) {
	t.Helper()
	for _, e := range examples {
		if !wanted(e) {
			continue
		}
		var out bytes.Buffer
		cmd := m.shell("exec 2>&1\n" + e.Command)
		cmd.Stdout, cmd.Stderr = &out, &out
		err := cmd.Run()
		if got := cmd.ProcessState.ExitCode(); got != e.Exit {
			t.Errorf("line %d: %s: exit %d (%v), the document says %d:\n%s", e.Line, e.Command, got, err, e.Exit, &out)
		}
		if err := e.Match(out.String()); err != nil {
			t.Error(err)
		}
	}
}
