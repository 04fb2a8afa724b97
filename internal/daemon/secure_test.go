// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/polycube/polycube/internal/access"
	"github.com/polycube/polycube/test/pki"
)

// TestAccessOptions: what the options about access give, and which combinations are
// refused at start, with a sentence that says what to do.
func TestAccessOptions(t *testing.T) {
	const pair = "--cert /c.pem --key /k.pem "
	tests := []struct {
		name, args string
		check      func(Options) bool
		fault      string
	}{
		{"defaults", "", func(o Options) bool {
			return o.Group == "polycube" && o.ReadGroup == "polycube-read" && !o.TCP && !o.TLS.Given() && o.Rate == 1000 &&
				o.AuditLog == "/var/lib/polycube/audit.log"
		}, ""},
		{"an authority", pair + "--cacert /a.pem", func(o Options) bool {
			return o.TCP && o.Port == 9000 && o.Addr == "localhost" && o.TLS == access.TLSOptions{Cert: "/c.pem", Key: "/k.pem", CACert: "/a.pem"}
		}, ""},
		{"short names", "-c /c.pem -k /k.pem --cacert /a.pem -a 0.0.0.0 -p 9443", func(o Options) bool {
			return o.TCP && o.Addr == "0.0.0.0" && o.Port == 9443 && o.TLS.Cert == "/c.pem" && o.TLS.Key == "/k.pem"
		}, ""},
		{"an authority with a deny list and admins", pair + "--cacert /a.pem --cert-blacklist /d --cert-admins /n", func(o Options) bool {
			return o.TLS.Deny == "/d" && o.TLS.Admins == "/n"
		}, ""},
		{"the manual's spelling of the deny list", pair + "--cacert /a.pem --cert-black-list /d", func(o Options) bool { return o.TLS.Deny == "/d" }, ""},
		{"an allow list", pair + "--cert-whitelist /w", func(o Options) bool { return o.TLS.Allow == "/w" && o.TLS.CACert == "" }, ""},
		{"the manual's spelling of the allow list", pair + "--cert-white-list /w", func(o Options) bool { return o.TLS.Allow == "/w" }, ""},
		{"a relative path", "--cert c.pem --key k.pem --cacert a.pem", func(o Options) bool {
			return filepath.IsAbs(o.TLS.Cert) && filepath.IsAbs(o.TLS.Key) && filepath.IsAbs(o.TLS.CACert)
		}, ""},
		{"no audit log", "--audit-log off", func(o Options) bool { return o.AuditLog == "" }, ""},
		{"no limit of rate", "--rate-limit 0", func(o Options) bool { return o.Rate < 0 }, ""},
		{"groups that exist", "--group daemon --read-group bin", func(o Options) bool {
			return o.Group == "daemon" && o.ReadGroup == "bin" && o.ReadSocket == "/run/polycube/polycubed-read.sock"
		}, ""},
		{"the socket for reading is elsewhere", "--read-group bin --read-socket /tmp/r.sock", func(o Options) bool { return o.ReadSocket == "/tmp/r.sock" }, ""},
		{"a socket for reading without a group", "--read-socket /tmp/r.sock", func(o Options) bool { return o.ReadSocket == "/tmp/r.sock" }, ""},
		{"a token for all", "-p 9000 --require-token", func(o Options) bool { return o.RequireToken }, ""},

		{"an address of the machine without TLS", "-a 0.0.0.0", nil, "only over TLS, with --cert, --key, and --cacert or --cert-whitelist"},
		{"any IPv6 address without TLS", "-a ::", nil, "only over TLS"},
		{"a host's name", pair + "--cacert /a.pem -a example.org", nil, "neither localhost nor an IP address"},
		{"insecure, and an address of the machine", "-a 192.0.2.1 --insecure-loopback", nil, "only over TLS"},
		{"insecure without TCP", "--insecure-loopback", nil, "requires --addr"},
		{"insecure with TLS", pair + "--cacert /a.pem --insecure-loopback", nil, "remove insecure-loopback"},
		{"a token for all without TCP", "--require-token", nil, "requires --addr"},
		{"a token for all with TLS", pair + "--cacert /a.pem --require-token", nil, "remove require-token"},
		{"a token for all and none", "-p 1 --insecure-loopback --require-token", nil, "mutually exclusive"},
		{"a certificate without key", "--cert /c.pem --cacert /a.pem", nil, "cert without key"},
		{"a key without certificate", "--key /k.pem --cacert /a.pem", nil, "key without cert"},
		{"TLS on one side only", pair, nil, "cert requires cacert or cert-whitelist"},
		{"an authority without certificate", "--cacert /a.pem", nil, "give --cert and --key"},
		{"an authority and an allow list", pair + "--cacert /a.pem --cert-whitelist /w", nil, "mutually exclusive"},
		{"an allow list and a deny list", pair + "--cert-whitelist /w --cert-blacklist /d", nil, "remove the certificate from the whitelist"},
		{"a deny list alone", pair + "--cert-blacklist /d", nil, "cert-blacklist requires cacert"},
		{"names of admins for an allow list", pair + "--cert-whitelist /w --cert-admins /n", nil, "in its directory admin"},
		{"a group that is not there", "--group no-such-group-here", nil, "groupadd --system no-such-group-here"},
		{"a group of readers that is not there", "--read-group no-such-group-here", nil, "groupadd --system no-such-group-here"},
		{"one group for both", "--group daemon --read-group daemon", nil, "both daemon"},
		{"one socket for both", "--read-group bin --socket /tmp/s --read-socket /tmp/s", nil, "both /tmp/s"},
		{"a negative rate", "--rate-limit -5", nil, "rate-limit -5"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o, err := ParseOptions(append([]string{"--configfile", emptyFile(t)}, strings.Fields(tt.args)...), &bytes.Buffer{})
			var usage usageError
			switch {
			case tt.fault != "":
				if !errors.As(err, &usage) || !strings.Contains(err.Error(), tt.fault) {
					t.Errorf("error %v, want a usage error with %q", err, tt.fault)
				}
			case err != nil:
				t.Errorf("refused: %v", err)
			case !tt.check(o):
				t.Errorf("options are %+v", o)
			}
		})
	}
}

// TestAccessInConfigFile: both spellings are known there, too.
func TestAccessInConfigFile(t *testing.T) {
	o, err := ParseOptions([]string{"--configfile", writeFile(t, "cert: /c\nkey: /k\ncacert: /a\ncert-black-list: /d\n")}, &bytes.Buffer{})
	if err != nil || o.TLS.Deny != "/d" || !o.TCP {
		t.Errorf("options %+v, %v", o.TLS, err)
	}
}

// TestFilesOfADaemon: tokens, sockets and audit log are private, changes and refusals are
// recorded, and SIGHUP opens a log that was put aside anew.
func TestFilesOfADaemon(t *testing.T) {
	b := newBench(t)
	p := b.start("main")
	defer p.end()
	dir := filepath.Join(b.dir, "main")
	for name, mode := range map[string]os.FileMode{
		"run/token": 0o640, "run/token-read": 0o640, "state/audit.log": 0o600,
	} {
		info, err := os.Lstat(filepath.Join(dir, name))
		if err != nil || info.Mode() != mode {
			t.Errorf("%s: %v, %v, want mode %v", name, info, err, mode)
		}
	}
	audit := filepath.Join(dir, "state/audit.log")
	recorded := func(text string) func() bool {
		return func() bool {
			content, err := os.ReadFile(audit)
			return err == nil && strings.Contains(string(content), text)
		}
	}
	p.must(201, "POST", "/echo/e1", `{"level":7}`)
	p.eventually("the record of a change", recorded(`"path":"/polycube/v1/echo/e1"`))
	if err := os.Rename(audit, audit+".aside"); err != nil {
		t.Fatal(err)
	}
	p.hup <- os.Interrupt
	p.eventually("another audit log", func() bool { _, err := os.Stat(audit); return err == nil })
	p.must(200, "DELETE", "/echo/e1", "")
	p.eventually("the record of the next change", recorded(`"method":"DELETE"`))
}

var listening = regexp.MustCompile(`listening address=(127\.0\.0\.1:[0-9]+)`)

// TestTLSOfADaemon: with a certificate TCP is TLS, by which clients come in with theirs; a
// new one is served after SIGHUP, and one that cannot be used is not.
func TestTLSOfADaemon(t *testing.T) {
	b := newBench(t)
	dir, root := t.TempDir(), pki.Authority(t, "root")
	cert, key := root.Server(t).Write(t, dir, "server")
	p := b.start("main", "--cert", cert, "--key", key, "--cacert", pki.Place(t, dir+"/ca.pem", root.PEM()), "--port", "0")
	defer p.end()
	address := listening.FindStringSubmatch(p.errs.String())
	if address == nil {
		t.Fatalf("no address in the log: %s", p.errs)
	}
	served := func() string {
		t.Helper()
		conn, err := tls.Dial("tcp", address[1], &tls.Config{RootCAs: root.Pool(), Certificates: []tls.Certificate{root.Client(t, "alice").TLS()}})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, "DELETE /polycube/v1/echo/e1 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		answer, err := io.ReadAll(conn)
		if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 403") || !strings.Contains(string(answer), "--cert-admins") {
			t.Errorf("a certificate that is nobody's admin deletes: %.200q, %v", answer, err)
		}
		return conn.ConnectionState().PeerCertificates[0].SerialNumber.String()
	}
	first := served()
	next := root.Server(t)
	pki.Place(t, cert, next.PEM())
	p.hup <- os.Interrupt
	p.eventually("a word about the key that does not match", func() bool { return strings.Contains(p.errs.String(), "stays in effect") })
	if got := served(); got != first {
		t.Errorf("certificate %s is served, its key is missing", got)
	}
	pki.Place(t, key, next.KeyPEM(t))
	p.hup <- os.Interrupt
	p.eventually("the next certificate", func() bool { return served() == next.Cert.SerialNumber.String() })
	if resp, err := http.Get("http://" + address[1] + "/polycube/v1/version"); err == nil {
		if resp.StatusCode == http.StatusOK {
			t.Error("plain HTTP is answered as well")
		}
		resp.Body.Close()
	}
}
