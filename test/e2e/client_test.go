// SPDX-License-Identifier: Apache-2.0

// The two interfaces: the command line as a process, and REST over the daemon's socket.

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// base is the prefix of every path of the API.
const base = "/polycube/v1"

// result is the exit status of a command and its output.
type result struct {
	command, stdout, stderr string
	code                    int
}

func (r result) String() string {
	return fmt.Sprintf("%s: exit %d\nstdout: %s\nstderr: %s", r.command, r.code, r.stdout, r.stderr)
}

// run runs a command to its end.
func run(t testing.TB, cmd *exec.Cmd, stdin string) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if stdin != "" {
		cmd.Stdin = strings.NewReader(stdin)
	}
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("%s: %v", cmd, err)
	}
	return result{strings.Join(cmd.Args, " "), stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

// environment is that of a user of this machine's daemon, without settings of the user who runs the test.
func (m *machine) environment() []string {
	var env []string
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "POLYCUBECTL_") && !strings.HasPrefix(e, "HOME=") {
			env = append(env, e)
		}
	}
	return append(env, "HOME="+m.dir, "POLYCUBECTL_URL=unix://"+m.socket())
}

// CLI runs polycubectl.
func (m *machine) CLI(args ...string) result {
	m.t.Helper()
	return m.CLIWith("", args...)
}

// CLIWith runs polycubectl with a text on its standard input.
func (m *machine) CLIWith(stdin string, args ...string) result {
	m.t.Helper()
	cmd := exec.CommandContext(m.t.Context(), program(m.t, "polycubectl"), args...)
	cmd.Env = m.environment()
	return run(m.t, cmd, stdin)
}

// Do runs polycubectl, which must succeed, and returns its output. The words of the line are separated by blanks.
func (m *machine) Do(line string) string {
	m.t.Helper()
	r := m.CLI(strings.Fields(line)...)
	if r.code != 0 {
		m.t.Fatal(r)
	}
	return r.stdout
}

func (m *machine) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, "unix", m.socket())
}

// Request sends a request over the daemon's socket.
func (m *machine) Request(method, path, body string) (int, string, error) {
	return m.send(method, path, "", strings.NewReader(body))
}

func (m *machine) send(method, path, contentType string, body io.Reader) (int, string, error) {
	req, err := http.NewRequest(method, "http://polycubed"+base+path, body)
	if err != nil {
		return 0, "", err
	}
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	resp, err := m.http.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), err
}

// Must sends a request that ends with a status, and returns the answer.
func (m *machine) Must(status int, method, path, body string) string {
	m.t.Helper()
	got, text, err := m.Request(method, path, body)
	if err != nil || got != status {
		m.t.Fatalf("%s %s %s: status %d, %v, want %d: %s", method, path, clip(body), got, err, status, clip(text))
	}
	return text
}

// Get reads a resource into v.
func (m *machine) Get(path string, v any) {
	m.t.Helper()
	text := m.Must(http.StatusOK, http.MethodGet, path, "")
	if err := json.Unmarshal([]byte(text), v); err != nil {
		m.t.Fatalf("GET %s: %v: %s", path, err, clip(text))
	}
}

func clip(text string) string {
	if len(text) > 300 {
		return text[:300] + "..."
	}
	return text
}

// changing matches members that time changes without anybody's doing.
var changing = regexp.MustCompile(`"age":\d+`)

// Configuration is everything that is configured or learned, without the ages of addresses.
func (m *machine) Configuration() string {
	m.t.Helper()
	return changing.ReplaceAllString(m.Must(http.StatusOK, http.MethodGet, "/cubes", ""), `"age":0`)
}

// stats are a cube's counters.
type stats struct {
	Mode string `json:"mode"`
	// Reason is why the mode is not inline.
	Reason       string `json:"mode-reason"`
	Instructions int    `json:"instructions"`
	Ports        []struct {
		Name      string `json:"name"`
		RxPackets uint64 `json:"rx-packets"`
		RxBytes   uint64 `json:"rx-bytes"`
		TxPackets uint64 `json:"tx-packets"`
		TxBytes   uint64 `json:"tx-bytes"`
	} `json:"ports"`
	Fates []struct {
		Name    string `json:"name"`
		Drop    bool   `json:"drop"`
		Packets uint64 `json:"packets"`
	} `json:"fates"`
}

// Stats reads the counters of a cube.
func (m *machine) Stats(cube string) stats {
	m.t.Helper()
	var s stats
	m.Get("/cubes/"+cube+"/stats", &s)
	return s
}

// Fate returns the number of packets with a fate in a cube.
func (s stats) Fate(t testing.TB, name string) uint64 {
	t.Helper()
	for _, f := range s.Fates {
		if f.Name == name {
			return f.Packets
		}
	}
	t.Fatalf("no fate %s in %+v", name, s.Fates)
	return 0
}

// Rx returns the number of packets that a port received.
func (s stats) Rx(t testing.TB, port string) uint64 {
	t.Helper()
	for _, p := range s.Ports {
		if p.Name == port {
			return p.RxPackets
		}
	}
	t.Fatalf("no port %s in %+v", port, s.Ports)
	return 0
}
