// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/polycube/polycube/internal/access"
	"github.com/polycube/polycube/internal/rest/message"
	"github.com/polycube/polycube/internal/trace"
	"github.com/polycube/polycube/test/executable"
	"github.com/polycube/polycube/test/pace"
)

// shutdownPatience bounds the end of a test's server.
var shutdownPatience = pace.Stretch(10 * time.Second)

// TestTCPAccess: the rules of Host, Origin and token over TCP.
func TestTCPAccess(t *testing.T) {
	const token, reading = "0123456789abcdef", "fedcba9876543210"
	l := newLab(t, Options{Tokens: someTokens{token: access.Admin, reading: access.Reader}}, true)
	port := l.tcp[strings.LastIndexByte(l.tcp, ':')+1:]
	tests := []struct {
		name, method, host string
		header             map[string]string
		status             int
	}{
		{"a read needs nothing", "GET", "", nil, 200},
		{"help needs nothing", "OPTIONS", "", nil, 200},
		{"localhost is us", "GET", "localhost:" + port, nil, 200},
		{"LOCALHOST is us", "GET", "LOCALHOST:" + port, nil, 200},
		{"any loopback address is us", "GET", "127.0.0.9:" + port, nil, 200},
		{"the IPv6 loopback is us", "GET", "[::1]:" + port, nil, 200},
		{"another name is not: DNS rebinding", "GET", "evil.example:" + port, nil, 403},
		{"a name that begins like ours is not", "GET", "localhost.evil.example:" + port, nil, 403},
		{"another port is not", "GET", "localhost:1", nil, 403},
		{"no port is port 80", "GET", "localhost", nil, 403},
		{"an address of the machine that is not loopback is not", "GET", "192.0.2.1:" + port, nil, 403},
		{"our own origin", "GET", "", map[string]string{"Origin": "http://" + l.tcp}, 200},
		{"a foreign origin", "GET", "", map[string]string{"Origin": "http://evil.example"}, 403},
		{"a foreign origin with the token", "POST", "", map[string]string{"Origin": "https://evil.example", "Authorization": "Bearer " + token}, 403},
		{"an opaque origin", "GET", "", map[string]string{"Origin": "null"}, 403},
		{"our host over another scheme", "GET", "", map[string]string{"Origin": "https://" + l.tcp}, 403},
		{"a browser's cross-site request", "GET", "", map[string]string{"Sec-Fetch-Site": "cross-site"}, 403},
		{"a browser's address bar", "GET", "", map[string]string{"Sec-Fetch-Site": "none"}, 200},
		{"a write without token", "POST", "", nil, 401},
		{"a write with a wrong token", "POST", "", map[string]string{"Authorization": "Bearer 0123456789abcdee"}, 401},
		{"a write with a part of the token", "POST", "", map[string]string{"Authorization": "Bearer 0123"}, 401},
		{"a write with another scheme", "POST", "", map[string]string{"Authorization": "Basic " + token}, 401},
		{"a write with the token", "POST", "", map[string]string{"Authorization": "Bearer " + token}, 201},
		{"a write with the token for reading", "POST", "", map[string]string{"Authorization": "Bearer " + reading}, 403},
		{"a read with the token for reading", "GET", "", map[string]string{"Authorization": "Bearer " + reading}, 200},
		{"a read with a token that is not ours", "GET", "", map[string]string{"Authorization": "Bearer 0123"}, 401},
		{"a page that is framed elsewhere", "GET", "", map[string]string{"Referer": "http://evil.example/"}, 403},
		{"our own page", "GET", "", map[string]string{"Referer": "http://" + l.tcp + message.BasePath + "/"}, 200},
		{"a deletion without token", "DELETE", "", nil, 401},
		{"a deletion with the token", "DELETE", "", map[string]string{"Authorization": "bearer " + token}, 200},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := "/lab/l1"
			if tt.method == "GET" || tt.method == "OPTIONS" {
				path = "/version"
			}
			req, err := http.NewRequest(tt.method, "http://"+l.tcp+message.BasePath+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			if tt.host != "" {
				req.Host = tt.host
			}
			for k, v := range tt.header {
				req.Header.Set(k, v)
			}
			a := l.send(t, http.DefaultClient, req)
			if a.status != tt.status {
				t.Fatalf("status %d, want %d: %s", a.status, tt.status, a.body)
			}
			if tt.status >= 400 {
				if e := a.fault(t); e.Tag != message.TagAccessDenied {
					t.Errorf("tag %s, want %s", e.Tag, message.TagAccessDenied)
				}
			}
		})
	}
}

// someTokens are tokens of a test.
type someTokens map[string]access.Role

func (t someTokens) Role(token string) access.Role { return t[token] }

// TestNoTokenNoWrite: a server without a token refuses every write over TCP, an insecure
// one none.
// TestTwoTokensAreNone: whoever forwarded the request may have looked at the other one.
func TestTwoTokensAreNone(t *testing.T) {
	const token = "0123456789abcdef"
	l := newLab(t, Options{Tokens: someTokens{token: access.Admin}}, true)
	for _, headers := range [][]string{{"Bearer " + token, "Bearer " + token}, {"", "Bearer " + token}, {"Bearer " + token, "Basic eDp5"}} {
		for _, base := range []string{"http://" + l.tcp, "http://daemon"} {
			req, err := http.NewRequest("GET", base+message.BasePath+"/cubes", nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header["Authorization"] = headers
			client := http.DefaultClient
			if base == "http://daemon" {
				client = l.client
			}
			if a := l.send(t, client, req); a.status != 400 || !strings.Contains(a.body, "2 Authorization headers") {
				t.Errorf("%q at %s: %d %s", headers, base, a.status, a.body)
			}
		}
	}
}

func TestNoTokenNoWrite(t *testing.T) {
	for _, tt := range []struct {
		name    string
		options Options
		status  int
	}{
		{"no token", Options{}, 401},
		{"no token, for a daemon that wants one for all", Options{RequireToken: true}, 401},
		{"insecure loopback", Options{InsecureLoopback: true}, 201},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := newLab(t, tt.options, true)
			req, err := http.NewRequest("POST", "http://"+l.tcp+message.BasePath+"/lab/l1", nil)
			if err != nil {
				t.Fatal(err)
			}
			if a := l.send(t, http.DefaultClient, req); a.status != tt.status {
				t.Errorf("status %d, want %d: %s", a.status, tt.status, a.body)
			}
		})
	}
}

// TestMain doubles as the client of TestPeerCredentials, which must be another process.
func TestMain(m *testing.M) {
	if socket := os.Getenv("REST_TEST_SOCKET"); socket != "" {
		c, err := net.Dial("unix", socket)
		if err == nil {
			_, err = io.WriteString(c, os.Getenv("REST_TEST_REQUEST")+" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
		}
		if err == nil {
			_, err = io.Copy(os.Stdout, c)
		}
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// otherUser is this test as a program that every user can run.
func otherUser(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "rest-client-*")
	if err == nil {
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		err = os.Chmod(dir, 0o755)
	}
	if err == nil {
		err = executable.CopySelf(dir + "/client")
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir + "/client"
}

// openTo lets everybody reach a file, so that only what the daemon checks is left.
func openTo(t *testing.T, path string) {
	t.Helper()
	for dir := path; len(dir) > len(os.TempDir()); dir = dir[:strings.LastIndexByte(dir, '/')] {
		if err := os.Chmod(dir, 0o777); err != nil {
			t.Fatal(err)
		}
	}
}

// TestPeerCredentials: the kernel's word about the peer decides, not the file's mode; on
// the socket for reading, nobody does more.
func TestPeerCredentials(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: becomes other users")
	}
	const admins, readers = "daemon", "bin"
	admin, reader := uint32(access.GroupID(admins)), uint32(access.GroupID(readers))
	if access.GroupID(admins) < 0 || access.GroupID(readers) < 0 {
		t.Skipf("needs the system groups %q and %q", admins, readers)
	}
	l := newLab(t, Options{Group: admins, ReadGroup: readers}, false)
	reading := l.socket + "-read"
	if info, err := os.Stat(reading); err != nil || info.Mode().Perm() != 0o660 || info.Sys().(*syscall.Stat_t).Gid != reader {
		t.Errorf("the socket for reading: %v, %v", info, err)
	}
	openTo(t, l.socket)
	openTo(t, reading)
	client := otherUser(t)
	const get, post = "GET /polycube/v1/version", "POST /polycube/v1/lab/l1"
	other := func(gid uint32, groups ...uint32) syscall.Credential {
		return syscall.Credential{Uid: 54321, Gid: gid, Groups: groups}
	}
	tests := []struct {
		name, socket, request string
		cred                  syscall.Credential
		status                string
	}{
		{"root", l.socket, get, syscall.Credential{}, "200 OK"},
		{"a stranger", l.socket, get, other(54321), "403 Forbidden"},
		{"a stranger with other groups", l.socket, get, other(54321, 54322, 54323), "403 Forbidden"},
		{"a member by primary group", l.socket, get, other(admin), "200 OK"},
		{"a member by supplementary group", l.socket, get, other(54321, 54322, admin), "200 OK"},
		{"a reader", l.socket, get, other(54321, reader), "200 OK"},
		{"a reader who changes", l.socket, post, other(reader), "403 Forbidden"},
		{"a reader who invents a method", l.socket, "get /polycube/v1/version", other(reader), "403 Forbidden"},
		{"a reader, for reading", reading, get, other(reader), "200 OK"},
		{"a reader who changes there", reading, post, other(reader), "403 Forbidden"},
		{"a member who changes there", reading, post, other(admin), "403 Forbidden"},
		{"root who changes there", reading, post, syscall.Credential{}, "403 Forbidden"},
		{"a stranger there", reading, get, other(54321), "403 Forbidden"},
		{"a member who changes", l.socket, post, other(54321, admin), "201 Created"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cmd := exec.Command(client)
			cmd.Dir = "/"
			cmd.Env = append(os.Environ(), "REST_TEST_SOCKET="+tt.socket, "REST_TEST_REQUEST="+tt.request)
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &tt.cred}
			out, err := cmd.CombinedOutput()
			if err != nil || !strings.HasPrefix(string(out), "HTTP/1.1 "+tt.status) {
				t.Errorf("answer %q, %v, want %s", out, err, tt.status)
			}
		})
	}
}

// TestRecord: changes, looks at packets and refusals are recorded with who and how it ended;
// reads and redirects are not, and no secret is.
func TestRecord(t *testing.T) {
	m := newManager(t)
	path := t.TempDir() + "/audit.log"
	audit, err := access.OpenAudit(path, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	l := newLab(t, Options{Manager: m, Audit: audit, Tokens: someTokens{"t0ken": access.Admin}, Trace: trace.NewHub(m, stepPlane{}, slog.New(slog.DiscardHandler))}, true)
	l.must(t, 201, "POST", "/lab/l1", `{"mode":"FORWARD"}`)
	l.must(t, 400, "PATCH", "/lab/l1", `{"hunter2":1}`)
	l.must(t, 308, "DELETE", "/l1", "")
	l.must(t, 200, "GET", "/lab/l1", "")
	l.must(t, 200, "GET", "/trace?seconds=1&count=1&filter=udp", "")
	for _, token := range []string{"wr0ng", "t0ken", ""} {
		req, err := http.NewRequest("DELETE", "http://"+l.tcp+message.BasePath+"/lab/l1?secret=qu3ry", nil)
		if err != nil {
			t.Fatal(err)
		}
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		l.send(t, http.DefaultClient, req)
	}
	const want = `root admin POST /polycube/v1/lab/l1 18 201 
root admin PATCH /polycube/v1/lab/l1 13 400 
root admin GET /polycube/v1/trace 0 200 
anonymous none DELETE /polycube/v1/lab/l1 0 401 the token is not the daemon's
admin token admin DELETE /polycube/v1/lab/l1 0 200 
anonymous read-only DELETE /polycube/v1/lab/l1 0 401 changes over TCP require the daemon's token
`
	var got string
	eventually(t, "six lines", func() bool {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, secret := range []string{"hunter2", "t0ken", "wr0ng", "qu3ry", "Bearer x"} {
			if strings.Contains(string(text), secret) {
				t.Fatalf("%q is recorded:\n%s", secret, text)
			}
		}
		got = ""
		for line := range strings.Lines(string(text)) {
			var r access.Record
			if err := json.Unmarshal([]byte(line), &r); err != nil {
				t.Fatal(err)
			}
			refused, _, _ := strings.Cut(r.Refused, ":")
			refused, _, _ = strings.Cut(refused, " (")
			got += fmt.Sprintln(r.Who, r.Role, r.Method, r.Path, r.Bytes, r.Status, refused)
			if r.From == "" || r.Time.IsZero() || r.Milliseconds <= 0 {
				t.Errorf("a line without place or time: %s", line)
			}
		}
		return strings.Count(got, "\n") == 6
	})
	if got != want {
		t.Errorf("recorded:\n%swant:\n%s", got, want)
	}
}
