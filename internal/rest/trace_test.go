// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gopacket/gopacket/pcapgo"

	"github.com/polycube/polycube/internal/access"
	"github.com/polycube/polycube/internal/datapath"
	fuse "github.com/polycube/polycube/internal/datapath/link"
	"github.com/polycube/polycube/internal/rest/message"
	"github.com/polycube/polycube/internal/slowpath"
	"github.com/polycube/polycube/internal/trace"
)

// stepPlane is a data plane whose packets take one step.
type stepPlane struct{}

func (stepPlane) TraceUntil(time.Duration) error { return nil }
func (stepPlane) TraceLost() (uint64, error)     { return 0, nil }
func (stepPlane) CubeReasons(datapath.CubeID) (drops, slowpath []string) {
	return []string{"too-big"}, nil
}

// Inject answers a record of a drop.
func (stepPlane) Inject(_ context.Context, at datapath.Injection) ([][]byte, error) {
	rec := make([]byte, 72+32, 72+32+len(at.Frame))
	e := binary.NativeEndian
	e.PutUint16(rec, 5)
	e.PutUint32(rec[12:], uint32(len(at.Frame)))
	e.PutUint32(rec[16:], uint32(32+len(at.Frame)))
	e.PutUint16(rec[72+8:], uint16(at.Cube))
	e.PutUint16(rec[72+10:], at.Port)
	e.PutUint16(rec[72+14:], 32)
	rec[72+22], rec[72+23] = fuse.StageProgram, 2
	return [][]byte{append(rec, at.Frame...)}, nil
}

// traced is a lab in which packets can be looked at.
func traced(t *testing.T, o Options) (*lab, *trace.Hub) {
	t.Helper()
	m := newManager(t)
	hub := trace.NewHub(m, stepPlane{}, slog.New(slog.DiscardHandler))
	o.Manager, o.Trace = m, hub
	l := newLab(t, o, true)
	l.must(t, 201, "POST", "/cubes", labSetUp)
	return l, hub
}

func TestLookingAtPacketsTakesTheRightsOfAChange(t *testing.T) {
	l, hub := traced(t, Options{Tokens: someTokens{"secret": access.Admin, "looker": access.Reader}})
	for _, path := range []string{"/trace", "/capture/l1:p1"} {
		for header, status := range map[string]int{"": 401, "Bearer wrong": 401, "Bearer looker": 403, "Bearer secret": 200} {
			ctx, cancel := context.WithCancel(t.Context())
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+l.tcp+message.BasePath+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			if header != "" {
				req.Header.Set("Authorization", header)
			}
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			if resp.StatusCode != status {
				t.Errorf("%s with %q: status %d, want %d", path, header, resp.StatusCode, status)
			}
			cancel()
			resp.Body.Close()
		}
	}
	if err := hub.Close(); err != nil {
		t.Error(err)
	}
}

func TestAStreamHasAStepALineAndAnEnd(t *testing.T) {
	l, hub := traced(t, Options{})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://polycubed"+message.BasePath+"/trace?count=2", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := l.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	for range 3 {
		hub.Trace(&slowpath.Step{Cube: 1, Stage: fuse.StageProgram, Verdict: 2, Reason: 32, Sessions: 1, Length: 60, Data: make([]byte, 60)})
	}
	var lines []string
	for in := bufio.NewScanner(resp.Body); in.Scan(); {
		lines = append(lines, in.Text())
	}
	if len(lines) != 3 || !strings.Contains(lines[1], `"cube":"l1","port":"p1","direction":"ingress","program":0,"verdict":"drop","reason":"too-big"`) ||
		!strings.HasPrefix(lines[2], `{"end":"count reached","steps":2,`) {
		t.Errorf("the stream is\n%s", strings.Join(lines, "\n"))
	}
	if kind := resp.Header.Get("Content-Type"); kind != message.NDJSON {
		t.Errorf("content type %s", kind)
	}
}

// TestAClientThatStopsSendingGetsTheLastWord: the packets queued by then, and the summary.
func TestAClientThatStopsSendingGetsTheLastWord(t *testing.T) {
	l, hub := traced(t, Options{})
	look := func(path string) []byte {
		t.Helper()
		conn, err := net.Dial("unix", l.socket)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, "GET "+message.BasePath+path+" HTTP/1.1\r\nHost: polycubed\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%v, %v", resp, err)
		}
		defer resp.Body.Close()
		for range 3 {
			hub.Trace(&slowpath.Step{Cube: 1, Stage: fuse.StageOut, Sessions: 1, Length: 60, Data: make([]byte, 60)})
		}
		if err := conn.(*net.UnixConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Errorf("%s: %v", path, err)
		}
		return body
	}
	steps := strings.Split(string(look("/trace")), "\n")
	if len(steps) != 5 || !strings.HasPrefix(steps[3], `{"end":"ended by the client","steps":3,"lost":0,`) {
		t.Errorf("the stream is\n%s", strings.Join(steps, "\n"))
	}
	said := uint64(0)
	opts := pcapgo.DefaultNgReaderOptions
	opts.StatisticsCallback = func(_ int, s pcapgo.NgInterfaceStatistics) { said = s.PacketsReceived }
	file, err := pcapgo.NewNgReader(bytes.NewReader(look("/capture/l1:p1")), opts)
	packets := -1
	for ; err == nil; packets++ {
		_, _, err = file.ReadPacketData()
	}
	if !errors.Is(err, io.EOF) || packets != 3 || said != 3 {
		t.Errorf("%d packets, %d at the end of the file, %v", packets, said, err)
	}
}

func TestBadLooksAtPacketsAreRefused(t *testing.T) {
	l, _ := traced(t, Options{})
	for _, tt := range []struct {
		method, path, body string
		status             int
		tag                string
	}{
		{"GET", "/trace?nonsense=1", "", 400, "invalid-value"},
		{"GET", "/trace?count=x", "", 400, "invalid-value"},
		{"GET", "/trace?count=1&count=2", "", 400, "invalid-value"},
		{"GET", "/trace?seconds=0", "", 400, "invalid-value"},
		{"GET", "/trace?filter=bogus+foo", "", 400, "invalid-value"},
		{"GET", "/trace?cube=nobody", "", 404, "data-missing"},
		{"POST", "/trace", "{}", 405, "operation-not-supported"},
		{"GET", "/trace/other", "", 404, "data-missing"},
		{"GET", "/capture", "", 404, "data-missing"},
		{"GET", "/capture/l1", "", 400, "invalid-value"},
		{"GET", "/capture/l1:p9", "", 404, "data-missing"},
		{"GET", "/capture/l1:p1?cube=l1", "", 400, "invalid-value"},
		{"GET", "/trace/inject", "", 405, "operation-not-supported"},
		{"POST", "/trace/inject", "", 400, "missing-attribute"},
		{"POST", "/trace/inject", `{"place":"l1:p1"}`, 400, "missing-attribute"},
		{"POST", "/trace/inject", `{"place":"l1:p1","packet":"nonsense"}`, 400, "invalid-value"},
		{"POST", "/trace/inject", `{"place":"l9:p1","packet":"payload 60"}`, 400, "data-missing"},
		{"POST", "/trace/inject", `{"place":"l1:p1","packet":"payload 60","direction":"up"}`, 400, "invalid-value"},
	} {
		a := l.do(t, tt.method, tt.path, tt.body)
		if a.status != tt.status || a.fault(t).Tag != tt.tag {
			t.Errorf("%s %s %s: %d %s, want %d %s", tt.method, tt.path, tt.body, a.status, a.body, tt.status, tt.tag)
		}
	}
	a := l.must(t, 200, "POST", "/trace/inject", `{"place":"l1:p1","packet":"arp who-has 10.0.0.2 tell 10.0.0.1"}`)
	if !strings.Contains(a.body, `"cube":"l1","port":"p1","direction":"ingress","program":0,"verdict":"inject","length":60,`+
		`"summary":"02:00:00:00:00:01 > 02:00:00:00:00:02, ARP who has 10.0.0.2, tell 10.0.0.1, length 60","frame":"020000000002020000000001080600`) ||
		!strings.Contains(a.body, `"cube":"l1","port":"p1","direction":"ingress","program":0,"verdict":"drop","reason":"too-big"`) ||
		!strings.Contains(a.body, "ARP who has 10.0.0.2, tell 10.0.0.1") {
		t.Errorf("an injected packet: %s", a.body)
	}
}

func TestWithoutADataPlaneThereIsNothingToSee(t *testing.T) {
	l := newLab(t, Options{}, false)
	for _, path := range []string{"/trace", "/capture/l1:p1"} {
		if a := l.do(t, "GET", path, ""); a.status != 400 || a.fault(t).Tag != message.TagUnsupported {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
}

// TestATokenThatIsGoneEndsTheLook: a stream that a token began ends when the token is no longer ours, or for reading
// only; others continue.
func TestATokenThatIsGoneEndsTheLook(t *testing.T) {
	tokens := &changingTokens{}
	tokens.is.Store(&someTokens{"mine": access.Admin, "other": access.Admin})
	l, _ := traced(t, Options{Tokens: tokens})
	reads := l.server.front.Reading
	begin := func(token string) io.Reader {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+l.tcp+message.BasePath+"/trace", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = resp.Body.Close() })
		if resp.StatusCode != http.StatusOK {
			t.Fatalf("status %d", resp.StatusCode)
		}
		return resp.Body
	}
	mine, other := begin("mine"), begin("other")
	l.server.Sweep()
	if n := reads(); n != 2 {
		t.Fatalf("%d reads are under way, want 2", n)
	}
	tokens.is.Store(&someTokens{"mine": access.Reader, "other": access.Admin})
	l.server.Sweep()
	if last, err := io.ReadAll(mine); err != nil || len(last) > 0 {
		t.Errorf("the stream ends with %v, after %q", err, last)
	}
	eventually(t, "one read is left", func() bool { return reads() == 1 })
	tokens.is.Store(&someTokens{})
	l.server.Sweep()
	if _, err := io.Copy(io.Discard, other); err != nil {
		t.Errorf("the other stream ends with %v", err)
	}
}

// changingTokens are tokens that change.
type changingTokens struct{ is atomic.Pointer[someTokens] }

func (t *changingTokens) Role(token string) access.Role { return t.is.Load().Role(token) }
