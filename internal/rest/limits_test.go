// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/polycube/polycube/internal/rest/front"
	"github.com/polycube/polycube/internal/rest/message"
)

// raw sends bytes over plain TCP, and returns the statuses of all answers until the server
// hangs up.
func (l *lab) raw(t *testing.T, text string) []int {
	t.Helper()
	c, err := net.Dial("tcp", l.tcp)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(shutdownPatience)); err != nil {
		t.Fatal(err)
	}
	// The server may hang up before it read all, which is a response, too.
	_, _ = io.WriteString(c, strings.ReplaceAll(text, "HOST", l.tcp))
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.CloseWrite()
	}
	var out []int
	for r := bufio.NewReader(c); ; {
		status, err := readStatus(r)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal("the server neither answers nor hangs up")
		}
		if status == 0 {
			return out
		}
		out = append(out, status)
	}
}

// readStatus reads one answer to its end; 0 when there is none.
func readStatus(r *bufio.Reader) (int, error) {
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	// A server that hangs up with bytes of ours unread may take back what it said last.
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, err
}

// TestSmuggling: a request within another, for whoever reads lengths in another way than
// we do, is not carried out. The outer request is answered or refused, and the one behind
// it never comes.
func TestSmuggling(t *testing.T) {
	const inner = "DELETE /polycube/v1/lab/l1 HTTP/1.1\r\nHost: HOST\r\n\r\n"
	post := func(headers, body string) string {
		return "PATCH /polycube/v1/lab/l1 HTTP/1.1\r\nHost: HOST\r\n" + headers + "\r\n" + body
	}
	chunked := "0\r\n\r\n"
	tests := []struct {
		name, text string
		status     int
	}{
		{"both lengths", post("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", chunked+inner), 0},
		{"both lengths, the other way round", post("Transfer-Encoding: chunked\r\nContent-Length: 999\r\n", chunked+inner), 0},
		{"a chunked body", post("Transfer-Encoding: chunked\r\n", "2\r\n{}\r\n"+chunked+inner), 0},
		{"two lengths", post("Content-Length: 2\r\nContent-Length: 60\r\n", "{}"+inner), 400},
		{"a list of lengths", post("Content-Length: 2, 60\r\n", "{}"+inner), 400},
		{"a length with a sign", post("Content-Length: +2\r\n", "{}"+inner), 400},
		{"a negative length", post("Content-Length: -2\r\n", "{}"+inner), 400},
		{"a length in hexadecimal", post("Content-Length: 0x2\r\n", "{}"+inner), 400},
		{"a length beyond all numbers", post("Content-Length: 99999999999999999999\r\n", "{}"+inner), 400},
		{"a coding that is none", post("Transfer-Encoding: xchunked\r\n", chunked+inner), 501},
		{"two codings", post("Transfer-Encoding: gzip, chunked\r\n", chunked+inner), 501},
		{"a coding twice", post("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", chunked+inner), 501},
		{"a coding with HTTP/1.0", "PATCH /polycube/v1/lab/l1 HTTP/1.0\r\nHost: HOST\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked + inner, 0},
		{"a blank before the colon", post("Transfer-Encoding : chunked\r\n", chunked+inner), 400},
		{"a name with a control character", post("Transfer\x01-Encoding: chunked\r\n", chunked+inner), 400},
		{"a value with NUL", post("X-A: a\x00b\r\n", inner), 400},
		{"a chunk's length that is none", post("Transfer-Encoding: chunked\r\n", "2 2\r\n{}\r\n"+chunked+inner), 400},
		{"a chunk's length beyond all numbers", post("Transfer-Encoding: chunked\r\n", "fffffffffffffffff\r\n{}\r\n"+chunked+inner), 400},
		{"a chunk that is longer than it says", post("Transfer-Encoding: chunked\r\n", "1\r\n{}\r\n"+chunked+inner), 400},
		{"two hosts", "PATCH /polycube/v1/lab/l1 HTTP/1.1\r\nHost: HOST\r\nHost: evil.example\r\n\r\n" + inner, 400},
		{"no host", "PATCH /polycube/v1/lab/l1 HTTP/1.1\r\n\r\n" + inner, 400},
		{"another host in the URL", "PATCH http://evil.example/polycube/v1/lab/l1 HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\n\r\n", 403},
		{"HTTP/2 without TLS", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 403},
		{"an upgrade to HTTP/2", "GET /polycube/v1/version HTTP/1.1\r\nHost: HOST\r\nConnection: Upgrade, HTTP2-Settings, close\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n", 200},
		{"another protocol", "GET / FOO/1.1\r\nHost: HOST\r\n\r\n", 400},
		{"no protocol", "GET /polycube/v1/version\r\n\r\n", 400},
	}
	l := newLab(t, Options{InsecureLoopback: true}, true)
	l.must(t, 201, "POST", "/cubes", labSetUp)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			answers := l.raw(t, tt.text)
			if len(answers) != 1 {
				t.Fatalf("%d answers, want one", len(answers))
			}
			if got := answers[0]; tt.status != 0 && got != tt.status {
				t.Errorf("status %d, want %d", got, tt.status)
			}
			l.must(t, 200, "GET", "/lab/l1/mode", "")
		})
	}
}

// TestPathTricks: a path that is written in another way is not taken for another path.
func TestPathTricks(t *testing.T) {
	l := newLab(t, Options{InsecureLoopback: true}, true)
	l.must(t, 201, "POST", "/cubes", labSetUp)
	before := l.do(t, "GET", "/cubes", "").body
	for path, status := range map[string]int{
		"/polycube/v1/lab/l1/../../version":           400,
		"/polycube/v1/lab/l1/%2e%2e/%2e%2e/version":   400,
		"/polycube/v1/lab/l1/.%2e/version":            400,
		"/polycube/v1/./version":                      400,
		"/polycube/v1//version":                       400,
		"//polycube/v1/version":                       404,
		"/polycube/v1/lab//l1":                        400,
		"/polycube/v1/%6cab%2fl1":                     404,
		"/polycube/v1/lab%2fl1/mode":                  404,
		"/polycube%2fv1/version":                      404,
		"/polycube/v1%2fversion":                      404,
		"/polycube/v1/..%2f..%2fetc%2fpasswd":         400,
		"/polycube/v1/lab/l1%00":                      400,
		"/polycube/v1/lab/%00/mode":                   400,
		"/polycube/v1/lab/l1%zz":                      400,
		"/polycube/v1/lab/l1%c0%ae%c0%ae":             400,
		"/polycube/v1/lab/%ff":                        400,
		"/polycube/v1/lab/l1\\..\\mode":               404,
		"/polycube/v1/VERSION":                        404,
		"/polycube/v1/version;x=1":                    404,
		"/polycube/v1/" + strings.Repeat("%41", 300):  400,
		"/polycube/v1/" + strings.Repeat("a/", 5000):  414,
		"/polycube/v1/" + strings.Repeat("a", 40<<10): 431,
		"/metrics/":                     404,
		"/metrics/../polycube/v1/cubes": 404,
		"/%6detrics":                    200,
		"*":                             404,
		"/polycube/v1/version?x=" + strings.Repeat("y", 1000): 200,
	} {
		answers := l.raw(t, "GET "+path+" HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\n\r\n")
		if len(answers) != 1 || answers[0] != status {
			t.Errorf("%.60q: answers %v, want %d", path, answers, status)
		}
	}
	if after := l.do(t, "GET", "/cubes", "").body; after != before {
		t.Errorf("something changed:\n%s\n%s", before, after)
	}
}

// TestCompressedBody: a body that must be unpacked is refused unread, however small.
func TestCompressedBody(t *testing.T) {
	l := newLab(t, Options{}, false)
	var member bytes.Buffer
	z := gzip.NewWriter(&member)
	if _, err := z.Write(bytes.Repeat([]byte(" "), 1<<20)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	bomb := bytes.Repeat(member.Bytes(), 64) // gzip takes members one after the other for one whole: 64 MB
	for coding, status := range map[string]int{"gzip": 415, "deflate": 415, "br": 415, "identity, gzip": 415, "x": 415, "identity": 400, "": 400} {
		req, err := http.NewRequest("POST", "http://daemon"+message.BasePath+"/lab/l1", bytes.NewReader(bomb))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Encoding", coding)
		a := l.send(t, l.client, req)
		if a.status != status || a.fault(t).Message == "" {
			t.Errorf("content-encoding %q: status %d, want %d: %s", coding, a.status, status, a.body)
		}
	}
	if a := l.do(t, "GET", "/lab", ""); strings.Contains(a.body, "l1") {
		t.Errorf("there is a cube: %s", a.body)
	}
}

// TestIdleConnection: a connection that nobody uses is closed.
func TestIdleConnection(t *testing.T) {
	l := newTunedLab(t, Options{}, true, func(s *Server) { s.http.IdleTimeout = 50 * time.Millisecond })
	c, err := net.Dial("tcp", l.tcp)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := fmt.Fprintf(c, "GET /polycube/v1/version HTTP/1.1\r\nHost: %s\r\n\r\n", l.tcp); err != nil {
		t.Fatal(err)
	}
	if err := c.SetReadDeadline(time.Now().Add(shutdownPatience)); err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(c); err != nil || !bytes.HasPrefix(text, []byte("HTTP/1.1 200")) {
		t.Errorf("answer %q, %v", text, err)
	}
}

// TestRequestRate: a client beyond its rate is told when to come again; root at the Unix
// socket is not counted, and neither are other clients.
func TestRequestRate(t *testing.T) {
	l := newLab(t, Options{Rate: 10, Tokens: someTokens{"full": 2}}, true)
	get := func(token string) answer {
		req, err := http.NewRequest("GET", "http://"+l.tcp+message.BasePath+"/version", nil)
		if err != nil {
			t.Fatal(err)
		}
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		return l.send(t, http.DefaultClient, req)
	}
	statuses := map[int]int{}
	var refused answer
	for i := 0; i < 5000 && statuses[429] < 20; i++ { // a slow machine lets more through
		a := get("")
		if statuses[a.status]++; a.status == http.StatusTooManyRequests {
			refused = a
		}
	}
	if statuses[200] < 20 || statuses[429] < 20 || len(statuses) != 2 {
		t.Fatalf("requests at once ended in %v", statuses)
	}
	if wait, err := strconv.Atoi(refused.header.Get("Retry-After")); err != nil || wait < 1 || refused.fault(t).Tag != message.TagResource {
		t.Errorf("Retry-After %q: %s", refused.header.Get("Retry-After"), refused.body)
	}
	if a := get("full"); a.status != 200 {
		t.Errorf("who has a token pays for who has none: status %d", a.status)
	}
	for range 60 {
		l.must(t, 200, "GET", "/version", "")
	}
}

// TestConnectionsOfOneClient: one client does not take all connections of a listener, and
// is told so; when it closes one, it may open another.
func TestConnectionsOfOneClient(t *testing.T) {
	l := newLab(t, Options{}, true)
	dial := func() net.Conn {
		t.Helper()
		c, err := net.Dial("tcp", l.tcp)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		if err := c.SetDeadline(time.Now().Add(shutdownPatience)); err != nil {
			t.Fatal(err)
		}
		return c
	}
	served := func(c net.Conn) int {
		_, _ = fmt.Fprintf(c, "GET /polycube/v1/version HTTP/1.1\r\nHost: %s\r\n\r\n", l.tcp)
		status, _ := readStatus(bufio.NewReader(c))
		return status
	}
	conns := make([]net.Conn, front.MaxConnsPerClient)
	for i := range conns {
		conns[i] = dial()
	}
	for i, c := range conns {
		if got := served(c); got != 200 {
			t.Fatalf("connection %d: status %d", i+1, got)
		}
	}
	if got := served(dial()); got != 503 && got != 0 {
		t.Errorf("one connection more: status %d, want 503", got)
	}
	if err := conns[0].Close(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(shutdownPatience); served(dial()) != 200; {
		if time.Now().After(deadline) {
			t.Fatal("a connection was closed, and no other is let in")
		}
	}
	l.must(t, 200, "GET", "/version", "")
}
