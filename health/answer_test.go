// SPDX-License-Identifier: Apache-2.0

package health

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"testing"
)

func prepare(t testing.TB, c Check) *prepared {
	t.Helper()
	c.Target = netip.MustParseAddrPort("10.0.0.2:80")
	p, err := c.prepare()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// parse feeds an answer in pieces, then the end of the stream if it is not complete.
func parse(p *prepared, text string, piece int) (a *answer, done bool, err error) {
	a = &answer{}
	a.begin(p)
	for rest := []byte(text); len(rest) > 0 && !done && err == nil; {
		n := min(piece, len(rest))
		// A copy, as the buffer of the thread is used again.
		done, err = a.feed(bytes.Clone(rest[:n]))
		rest = rest[n:]
	}
	if !done && err == nil {
		done, err = a.end()
	}
	return a, done, err
}

func TestAnswers(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\n"
	for _, tt := range []struct {
		text     string
		status   int
		reusable bool
		body     string
		err      string
	}{
		{ok + "Content-Length: 4\r\n\r\nwell", 200, true, "well", ""},
		{ok + "content-length:4\n\nwell", 200, true, "well", ""},
		{ok + "Content-Length: 4\r\nContent-Length: 4\r\n\r\nwell", 200, true, "well", ""},
		{ok + "Content-Length: 0\r\n\r\n", 200, true, "", ""},
		{ok + "\r\nto the end", 200, false, "to the end", ""},
		{ok + "Connection: close\r\nContent-Length: 1\r\n\r\nx", 200, false, "x", ""},
		{ok + "Connection: foo, Close\r\nContent-Length: 1\r\n\r\nx", 200, false, "x", ""},
		{"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx", 200, false, "x", ""},
		{"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\nx", 200, true, "x", ""},
		{"HTTP/1.1 204\r\n\r\n", 204, true, "", ""},
		{"HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\n\r\n", 304, true, "", ""},
		{"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + ok + "Content-Length: 1\r\n\r\nx", 200, true, "x", ""},
		{ok + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nA;name=\"v\"\r\n0123456789\r\n0\r\n\r\n", 200, true, "abc0123456789", ""},
		{ok + "Transfer-Encoding: Chunked\r\n\r\n1\r\na\r\n0\r\nTrailer: x\r\n\r\n", 200, true, "a", ""},
		{ok + "Transfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n1\r\na\r\n0\r\n\r\n", 200, false, "a", ""},
		{ok + "Content-Length: 70000\r\n\r\n" + strings.Repeat("x", 70000), 200, false, strings.Repeat("x", compared), ""},
		{ok + "Content-Length: 60000\r\n\r\n" + strings.Repeat("x", 60000), 200, true, strings.Repeat("x", compared), ""},

		{"", 0, false, "", "without a response"},
		{"HTTP/1.1 200 OK\r\n", 0, false, "", "before the response was complete"},
		{ok + "Content-Length: 4\r\n\r\nwel", 0, false, "", "before the response was complete"},
		{"HTTP/2.0 200 OK\r\n\r\n", 0, false, "", "not HTTP"},
		{"HTTP/1.x 200 OK\r\n\r\n", 0, false, "", "not HTTP"},
		{"HTTP/1.1 2000 OK\r\n\r\n", 0, false, "", "not HTTP"},
		{"HTTP/1.1 099 OK\r\n\r\n", 0, false, "", "not HTTP"},
		{"HTTP/1.1 -20 OK\r\n\r\n", 0, false, "", "not HTTP"},
		{"\r\n" + ok, 0, false, "", "not HTTP"},
		{strings.Repeat("\x00", 2*maxHead), 0, false, "", "not HTTP"},
		{"HTTP/1.1 200 " + strings.Repeat("O", maxHead), 0, false, "", "headers of the response exceed 16 KiB"},
		{"HTTP/1.1 101 Switching Protocols\r\n\r\n", 0, false, "", "another protocol"},
		{ok + " folded\r\n\r\n", 0, false, "", "invalid header"},
		{ok + "X : y\r\n\r\n", 0, false, "", "invalid header"},
		{ok + "no colon\r\n\r\n", 0, false, "", "invalid header"},
		{ok + ": y\r\n\r\n", 0, false, "", "invalid header"},
		{ok + "Content-Length: -1\r\n\r\n", 0, false, "", "invalid Content-Length"},
		{ok + "Content-Length: +1\r\n\r\n", 0, false, "", "invalid Content-Length"},
		{ok + "Content-Length: 1, 1\r\n\r\n", 0, false, "", "invalid Content-Length"},
		{ok + "Content-Length:\r\n\r\n", 0, false, "", "invalid Content-Length"},
		{ok + "Content-Length: 99999999999999999999\r\n\r\n", 0, false, "", "invalid Content-Length"},
		{ok + "Content-Length: 1\r\nContent-Length: 2\r\n\r\n", 0, false, "", "invalid Content-Length"},
		{ok + "Transfer-Encoding: gzip, chunked\r\n\r\n", 0, false, "", "Transfer-Encoding other than chunked"},
		{ok + "Transfer-Encoding: chunked\r\n\r\n-1\r\n", 0, false, "", "invalid chunk size"},
		{ok + "Transfer-Encoding: chunked\r\n\r\nffffffff\r\n", 0, false, "", "invalid chunk size"},
		{ok + "Transfer-Encoding: chunked\r\n\r\n1\r\nab\r\n", 0, false, "", "exceeds its declared size"},
	} {
		for _, piece := range []int{1, 2, 7, 1 << 20} {
			a, done, err := parse(prepare(t, Check{Kind: HTTP, Body: "?"}), tt.text, piece)
			if tt.err != "" {
				if err == nil || done || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("%.60q in pieces of %d: %v, %v, want %s", tt.text, piece, done, err, tt.err)
				}
				continue
			}
			if err != nil || !done || a.status != tt.status || string(a.body) != tt.body || a.reusable() != tt.reusable {
				t.Errorf("%.60q in pieces of %d: done %v, error %v, status %d, body %q, reusable %v", tt.text, piece, done, err,
					a.status, a.body, a.reusable())
			}
		}
	}
}

// TestABodyThatDoesNotMatterIsNotAwaited: the status is enough.
func TestABodyThatDoesNotMatterIsNotAwaited(t *testing.T) {
	for _, text := range []string{"HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n"} {
		a := &answer{}
		a.begin(prepare(t, Check{Kind: HTTP}))
		if done, err := a.feed([]byte(text)); !done || err != nil || a.reusable() || !a.outcome().ok {
			t.Errorf("%q: %v, %v, reusable %v", text, done, err, a.reusable())
		}
	}
}

// TestBytesAfterAnAnswer are not those of the next one.
func TestBytesAfterAnAnswer(t *testing.T) {
	const one = "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx"
	if a, done, err := parse(prepare(t, Check{Kind: HTTP}), one+one, 1<<20); !done || err != nil || a.reusable() {
		t.Errorf("%v, %v, reusable %v", done, err, a.reusable())
	}
}

// TestAnAnswerTakesNoMemory: thousands arrive each second.
func TestAnAnswerTakesNoMemory(t *testing.T) {
	text := []byte("HTTP/1.1 200 OK\r\nServer: x\r\nConnection: keep-alive\r\nContent-Length: 4\r\n\r\nwell")
	p := prepare(t, Check{Kind: HTTP, Body: "well"})
	a := &answer{}
	n := testing.AllocsPerRun(100, func() {
		a.begin(p)
		if done, err := a.feed(text); !done || err != nil || !a.outcome().ok {
			t.Errorf("%v, %v", done, err)
		}
		a.free()
	})
	if n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzAnswer: the parser never panics and never stores more than its limits; whole or in pieces, it finds the same; and
// what it takes for a complete answer, the standard library reads the same.
func FuzzAnswer(f *testing.F) {
	for _, tt := range answers {
		f.Add([]byte(tt.send[:min(len(tt.send), 1000)]), uint8(3))
	}
	f.Add([]byte("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nT: x\r\n\r\n"), uint8(5))
	f.Add([]byte("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.0 503 No\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno"), uint8(1))
	p := prepare(f, Check{Kind: HTTP, BodyPattern: "(a+)+$"})
	f.Fuzz(func(t *testing.T, text []byte, piece uint8) {
		whole, done, err := parse(p, string(text), len(text)+1)
		parts, done2, err2 := parse(p, string(text), int(piece)+1)
		if done != done2 || fmt.Sprint(err) != fmt.Sprint(err2) && !bytes.Contains([]byte(fmt.Sprint(err, err2)), []byte("not HTTP")) {
			t.Fatalf("whole: %v, %v; in pieces: %v, %v", done, err, done2, err2)
		}
		if len(whole.body) > compared || len(whole.line) > maxHead || len(parts.line) > maxHead || len(parts.body) > compared {
			t.Fatal("a limit is exceeded")
		}
		if !done {
			return
		}
		if whole.status != parts.status || !bytes.Equal(whole.body, parts.body) {
			t.Fatalf("whole: %d %q, in pieces: %d %q", whole.status, whole.body, parts.status, parts.body)
		}
		whole.outcome()
		if !whole.reusable() {
			return
		}
		r := bufio.NewReader(bytes.NewReader(text))
		is, err := readResponse(r)
		for err == nil && is.StatusCode < 200 {
			is, err = readResponse(r)
		}
		if err != nil {
			return // it is stricter about some headers
		}
		body, err := io.ReadAll(is.Body)
		is.Body.Close()
		if err == nil && (is.StatusCode != whole.status || !bytes.HasPrefix(body, whole.body)) {
			t.Fatalf("%d %q, the library reads %d %q", whole.status, whole.body, is.StatusCode, body)
		}
	})
}

func readResponse(r *bufio.Reader) (*http.Response, error) {
	return http.ReadResponse(r, nil)
}
