// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/polycube/polycube/internal/access"
	"github.com/polycube/polycube/internal/rest/message"
	"github.com/polycube/polycube/internal/trace"
	"github.com/polycube/polycube/test/pace"
	"github.com/polycube/polycube/test/pki"
)

// castle is a server with mutual TLS, an authority, and a deny list.
type castle struct {
	*lab
	dir   string
	root  pki.Pair
	trust *access.TLS
	audit string
}

func newCastle(t *testing.T, o Options) *castle {
	t.Helper()
	return newTunedCastle(t, o, func(*Server) {})
}

func newTunedCastle(t *testing.T, o Options, tune func(*Server)) *castle {
	t.Helper()
	return newOpenCastle(t, o, false, tune)
}

// newOpenCastle is newTunedCastle, with plain TCP when asked for.
func newOpenCastle(t *testing.T, o Options, tcp bool, tune func(*Server)) *castle {
	t.Helper()
	c := &castle{dir: t.TempDir(), root: pki.Authority(t, "root")}
	files := access.TLSOptions{CACert: pki.Place(t, c.dir+"/ca.pem", c.root.PEM()), Admins: pki.Place(t, c.dir+"/admins", []byte("CN:alice\n")), Deny: c.dir + "/deny"}
	files.Cert, files.Key = c.root.Server(t).Write(t, c.dir, "server")
	if err := os.Mkdir(files.Deny, 0o755); err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	var err error
	if c.trust, err = access.NewTLS(files, log); err != nil {
		t.Fatal(err)
	}
	c.audit = c.dir + "/audit.log"
	if o.Audit, err = access.OpenAudit(c.audit, log); err != nil {
		t.Fatal(err)
	}
	o.TLS = c.trust
	c.lab = newTunedLab(t, o, tcp, tune)
	return c
}

// as is a client that trusts the castle and shows a pair, or nothing.
func (c *castle) as(t *testing.T, p pki.Pair, tune func(*tls.Config)) *http.Client {
	t.Helper()
	config := &tls.Config{RootCAs: c.root.Pool(), MinVersion: tls.VersionTLS10}
	if p.Cert != nil {
		// GetClientCertificate shows it even if the server asks for those of other authorities.
		pair := p.TLS()
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
	}
	if tune != nil {
		tune(config)
	}
	transport := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: shutdownPatience}
}

// ask sends a request and returns the status, or the error as text.
func (c *castle) ask(t *testing.T, client *http.Client, method, path string, change func(*http.Request)) (int, string) {
	t.Helper()
	req, err := http.NewRequest(method, "https://"+c.tls+message.BasePath+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(req)
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	if resp.ProtoMajor != 1 {
		t.Errorf("the answer is HTTP/%d", resp.ProtoMajor)
	}
	return resp.StatusCode, string(text)
}

// eventually waits for something that takes a moment.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	for deadline := time.Now().Add(pace.Stretch(time.Minute)); !ok(); <-poll.C { // ten megabytes for each of eight readers, with -race
		if time.Now().After(deadline) {
			t.Fatalf("in vain: %s", what)
		}
	}
}

// audited waits for a line of the audit log that holds all words.
func (c *castle) audited(t *testing.T, words ...string) {
	t.Helper()
	eventually(t, fmt.Sprintf("a line of the audit log with %q", words), func() bool {
		text, err := os.ReadFile(c.audit)
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(strings.Split(string(text), "\n"), func(line string) bool {
			return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(line, w) })
		})
	})
}

// TestHandshakes: who is let in at all, and that who is not is recorded.
func TestHandshakes(t *testing.T) {
	c := newCastle(t, Options{})
	denied := c.root.Client(t, "alice")
	pki.Place(t, filepath.Join(c.dir, "deny", "one.pem"), denied.PEM())
	c.trust.Reload()
	alice := c.root.Client(t, "alice")
	version := func(min, max uint16) func(*tls.Config) {
		return func(c *tls.Config) { c.MinVersion, c.MaxVersion = min, max }
	}
	tests := []struct {
		name     string
		client   pki.Pair
		tune     func(*tls.Config)
		status   int
		recorded string
	}{
		{"a certificate of the authority", alice, nil, 200, ""},
		{"TLS 1.2", alice, version(tls.VersionTLS12, tls.VersionTLS12), 200, ""},
		{"TLS 1.3", alice, version(tls.VersionTLS13, tls.VersionTLS13), 200, ""},
		{"TLS 1.1", alice, version(tls.VersionTLS10, tls.VersionTLS11), 0, "unsupported versions"},
		{"no certificate", pki.Pair{}, nil, 0, "didn't provide a certificate"},
		{"no certificate by TLS 1.2", pki.Pair{}, version(tls.VersionTLS12, tls.VersionTLS12), 0, "didn't provide a certificate"},
		{"of another authority of the same name", pki.Authority(t, "root").Client(t, "mallory"), nil, 0, "mallory"},
		{"signed by itself", pki.Self(t, "eve"), nil, 0, "eve"},
		{"expired", c.root.Client(t, "late", pki.Valid(-2*time.Hour, -time.Hour)), nil, 0, "expired on"},
		{"not yet valid", c.root.Client(t, "early", pki.Valid(time.Hour, 2*time.Hour)), nil, 0, "not valid before"},
		{"a server's", c.root.Server(t), nil, 0, "lacks clientAuth"},
		{"denied", denied, nil, 0, "is revoked"},
		{"denied, by TLS 1.2", denied, version(tls.VersionTLS12, tls.VersionTLS12), 0, "is revoked"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			status, text := c.ask(t, c.as(t, tt.client, tt.tune), "GET", "/version", nil)
			if status != tt.status || status == 0 && !strings.Contains(text, "tls: ") {
				t.Errorf("status %d, want %d: %s", status, tt.status, text)
			}
			if tt.recorded != "" {
				c.audited(t, tt.recorded, `"refused"`, `"from":"127.0.0.1:`, `"role":"none"`)
			}
		})
	}
	t.Run("plain HTTP", func(t *testing.T) {
		resp, err := http.Get("http://" + c.tls + message.BasePath + "/version")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusBadRequest {
			t.Errorf("status %d, want 400", resp.StatusCode)
		}
	})
}

// TestCertifiedRequests: what a certificate's role allows, and what a browser that holds
// one is not made to do.
func TestCertifiedRequests(t *testing.T) {
	c := newCastle(t, Options{Tokens: someTokens{"full": access.Admin, "look": access.Reader}})
	header := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	host := func(name string) func(*http.Request) { return func(r *http.Request) { r.Host = name } }
	alice, bob := c.as(t, c.root.Client(t, "alice"), nil), c.as(t, c.root.Client(t, "bob"), nil)
	tests := []struct {
		name   string
		client *http.Client
		method string
		change func(*http.Request)
		status int
		says   string
	}{
		{"a reader reads", bob, "GET", nil, 200, ""},
		{"a reader asks for help", bob, "OPTIONS", nil, 200, ""},
		{"a reader creates", bob, "POST", nil, 403, "requires the role admin"},
		{"a reader deletes", bob, "DELETE", nil, 403, "--cert-admins"},
		{"a reader invents a method", bob, "FROB", nil, 403, "requires the role admin"},
		{"a reader who has the token", bob, "POST", header("Authorization", "Bearer full"), 201, ""},
		{"a reader who has the token for reading", bob, "POST", header("Authorization", "Bearer look"), 403, "token is read-only"},
		{"a reader with a wrong token", bob, "GET", header("Authorization", "Bearer x"), 401, "not the daemon's"},
		{"an admin deletes", alice, "DELETE", nil, 200, ""},
		{"an admin creates", alice, "POST", nil, 201, ""},
		{"an admin with the token for reading", alice, "DELETE", header("Authorization", "Bearer look"), 403, "token is read-only"},
		{"a page of another site", alice, "DELETE", header("Origin", "https://evil.example"), 403, "another site"},
		{"a page of another site without origin", alice, "DELETE", header("Sec-Fetch-Site", "cross-site"), 403, "another site"},
		{"a form of another site", alice, "DELETE", header("Referer", "https://evil.example/x"), 403, "another site"},
		{"a text that a page may send anywhere", alice, "POST", header("Content-Type", "text/plain;charset=UTF-8"), 415, "application/json"},
		{"a form that a page may send anywhere", alice, "POST", header("Content-Type", "multipart/form-data; boundary=x"), 415, "application/json"},
		{"the page before TLS", alice, "DELETE", header("Origin", "http://"+c.tls), 403, "another site"},
		{"a name that is bound to us", alice, "GET", host("evil.example"), 403, "not in the daemon's certificate"},
		{"a name of the certificate", alice, "GET", host("polycube.test:1234"), 200, ""},
		{"the same in capitals", alice, "GET", host("Polycube.Test"), 200, ""},
		{"an address", alice, "GET", host("[2001:db8::1]:443"), 200, ""},
		{"an admin deletes again", alice, "DELETE", nil, 200, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := "/lab/l1"
			if message.ReadOnly(tt.method) {
				path = "/version"
			}
			if status, text := c.ask(t, tt.client, tt.method, path, tt.change); status != tt.status || !strings.Contains(text, tt.says) {
				t.Errorf("status %d, want %d %q: %s", status, tt.status, tt.says, text)
			}
		})
	}
	c.audited(t, `"who":"CN=alice"`, `"role":"admin"`, `"method":"POST"`, `"status":201`, `"certificate":"`)
	c.audited(t, `"who":"CN=bob with the admin token"`, `"role":"admin"`, `"status":201`)
	c.audited(t, `"who":"CN=bob"`, `"role":"read-only"`, `"method":"DELETE"`, `"status":403`, `"refused"`)
}

// TestDeniedWhileInside: a certificate that is denied ends the connections that are open, idle ones and those in the
// middle of a response; and no session of it is resumed.
func TestDeniedWhileInside(t *testing.T) {
	m := newManager(t)
	c := newCastle(t, Options{Manager: m, Trace: trace.NewHub(m, stepPlane{}, slog.New(slog.DiscardHandler))})
	c.must(t, 201, "POST", "/cubes", labSetUp)
	victim := c.root.Client(t, "alice")
	cache := tls.NewLRUClientSessionCache(8)
	inside := c.as(t, victim, func(c *tls.Config) { c.ClientSessionCache = cache })
	inside.Timeout = 0
	if status, text := c.ask(t, inside, "GET", "/version", nil); status != 200 {
		t.Fatalf("status %d: %s", status, text)
	}
	ctx, cancel := context.WithTimeout(t.Context(), shutdownPatience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "GET", "https://"+c.tls+message.BasePath+"/trace", nil)
	if err != nil {
		t.Fatal(err)
	}
	watch := c.as(t, victim, nil)
	watch.Timeout = 0
	stream, err := watch.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	other := c.as(t, c.root.Client(t, "bob"), nil)
	if status, text := c.ask(t, other, "GET", "/version", nil); status != 200 {
		t.Fatalf("status %d: %s", status, text)
	}

	c.server.Sweep()
	if status, text := c.ask(t, inside, "GET", "/version", nil); status != 200 {
		t.Fatalf("before anything changed: status %d: %s", status, text)
	}
	pki.Place(t, filepath.Join(c.dir, "deny", "alice.pem"), victim.PEM())
	c.trust.Reload()
	c.server.Sweep()
	if _, err := bufio.NewReader(stream.Body).ReadString(0); err == nil || ctx.Err() != nil {
		t.Errorf("the stream ended with %v, %v", err, ctx.Err())
	}
	for range 2 {
		if status, text := c.ask(t, inside, "GET", "/version", nil); status != 0 {
			t.Errorf("a denied certificate is answered %d: %s", status, text)
		}
	}
	if status, text := c.ask(t, other, "GET", "/version", nil); status != 200 {
		t.Errorf("the other's connection: status %d: %s", status, text)
	}
	c.audited(t, "connection closed", "CN=alice")
	c.audited(t, `"who":"unknown"`, "is revoked")
	eventually(t, "only the connection that is open is remembered", func() bool { return c.server.front.OpenTLS() == 1 })
}

// TestFewerRightsWhileInside: who is admin no more sees no more packets, and reads on.
func TestFewerRightsWhileInside(t *testing.T) {
	m := newManager(t)
	c := newCastle(t, Options{Manager: m, Trace: trace.NewHub(m, stepPlane{}, slog.New(slog.DiscardHandler))})
	client := c.as(t, c.root.Client(t, "alice"), nil)
	stream, err := client.Get("https://" + c.tls + message.BasePath + "/trace")
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	pki.Place(t, c.dir+"/admins", []byte("CN:bob\n"))
	c.trust.Reload()
	c.server.Sweep()
	var late net.Error
	if text, err := io.ReadAll(stream.Body); errors.As(err, &late) && late.Timeout() {
		t.Errorf("the stream does not end: %q, %v", text, err)
	}
	if status, text := c.ask(t, client, "GET", "/version", nil); status != 200 {
		t.Errorf("a read: status %d: %s", status, text)
	}
	if status, text := c.ask(t, client, "POST", "/lab/l1", nil); status != 403 {
		t.Errorf("a change: status %d: %s", status, text)
	}
}

// TestManyClients: fifty at once, each with connections and a certificate of its own,
// change and read without an error.
func TestManyClients(t *testing.T) {
	c := newCastle(t, Options{})
	var done sync.WaitGroup
	for i := range 50 {
		client := c.as(t, c.root.Client(t, "alice"), nil)
		done.Go(func() {
			for _, step := range []struct {
				method string
				status int
			}{{"POST", 201}, {"GET", 200}, {"OPTIONS", 200}, {"DELETE", 200}} {
				if status, text := c.ask(t, client, step.method, fmt.Sprintf("/lab/c%d", i), nil); status != step.status {
					t.Errorf("client %d: %s: status %d, want %d: %s", i, step.method, status, step.status, text)
				}
			}
		})
	}
	done.Wait()
}

// TestDeniedBetweenRequests: nobody has swept yet, and the next request is refused.
func TestDeniedBetweenRequests(t *testing.T) {
	c := newCastle(t, Options{})
	victim := c.root.Client(t, "alice")
	client := c.as(t, victim, nil)
	if status, text := c.ask(t, client, "GET", "/version", nil); status != 200 {
		t.Fatalf("status %d: %s", status, text)
	}
	pki.Place(t, filepath.Join(c.dir, "deny", "alice.pem"), victim.PEM())
	c.trust.Reload()
	for range 2 {
		if status, text := c.ask(t, client, "GET", "/version", nil); status != 403 || !strings.Contains(text, "is revoked") {
			t.Errorf("status %d, want 403: %s", status, text)
		}
	}
}

// TestNoSessionIsResumed: each connection shows its certificate anew.
func TestNoSessionIsResumed(t *testing.T) {
	c := newCastle(t, Options{})
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		pair := c.root.Client(t, "alice").TLS()
		config := &tls.Config{RootCAs: c.root.Pool(), Certificates: []tls.Certificate{pair}, ClientSessionCache: tls.NewLRUClientSessionCache(8),
			MinVersion: version, MaxVersion: version}
		for range 3 {
			conn, err := tls.Dial("tcp", c.tls, config)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.WriteString(conn, "GET /polycube/v1/version HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			if _, err := io.Copy(io.Discard, conn); err != nil {
				t.Fatal(err)
			}
			if conn.ConnectionState().DidResume {
				t.Errorf("%s: a session was resumed", tls.VersionName(version))
			}
			if err := conn.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestNewServerCertificate: it is served from the next connection on, without a restart.
func TestNewServerCertificate(t *testing.T) {
	c := newCastle(t, Options{})
	served := func() *x509.Certificate {
		conn, err := tls.Dial("tcp", c.tls, &tls.Config{RootCAs: c.root.Pool(), Certificates: []tls.Certificate{c.root.Client(t, "alice").TLS()}})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		return conn.ConnectionState().PeerCertificates[0]
	}
	before := served()
	next := c.root.Server(t)
	next.Write(t, c.dir, "server")
	c.trust.Reload()
	if after := served(); after.Equal(before) || !after.Equal(next.Cert) {
		t.Error("the certificate of before is served")
	}
}

// TestStatusSaysWhichFilesOfTLSCannotBeUsed: a revoked certificate that gets in anyway must not go unnoticed.
func TestStatusSaysWhichFilesOfTLSCannotBeUsed(t *testing.T) {
	c := newCastle(t, Options{})
	bob := c.as(t, c.root.Client(t, "bob"), nil)
	if status, text := c.ask(t, bob, "GET", "/status", nil); status != 200 || strings.Contains(text, "TLS") {
		t.Fatalf("at first %d: %s", status, text)
	}
	pki.Place(t, c.dir+"/deny/crl.pem", c.root.RevokeV1(t))
	c.trust.Reload()
	if status, text := c.ask(t, bob, "GET", "/status", nil); status != 200 || !strings.Contains(text, `"where":"TLS"`) || !strings.Contains(text, "crlnumber = FILE") {
		t.Errorf("with a revocation list of version 1 %d: %s", status, text)
	}
	pki.Place(t, c.dir+"/deny/crl.pem", c.root.Revoke(t))
	c.trust.Reload()
	if status, text := c.ask(t, bob, "GET", "/status", nil); status != 200 || strings.Contains(text, "TLS") {
		t.Errorf("with a good one %d: %s", status, text)
	}
}
