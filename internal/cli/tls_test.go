// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/polycube/polycube/test/executable"
	"github.com/polycube/polycube/test/pki"
)

// TestTLS: each thing that can be wrong with a certificate of either side has a sentence
// that names the file or the remedy.
func TestTLS(t *testing.T) {
	dir := t.TempDir()
	root, other := pki.Authority(t, "root"), pki.Authority(t, "other")
	serve := func(server pki.Pair, versions uint16) string {
		srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, `"`+r.TLS.PeerCertificates[0].Subject.CommonName+`"`)
		}))
		srv.Config.ErrorLog = log.New(io.Discard, "", 0)
		srv.TLS = &tls.Config{Certificates: []tls.Certificate{server.TLS()}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: root.Pool(), MaxVersion: versions}
		srv.StartTLS()
		t.Cleanup(srv.Close)
		return srv.URL
	}
	good, old, late := serve(root.Server(t), 0), serve(root.Server(t), tls.VersionTLS12), serve(root.Server(t, pki.Valid(-2*time.Hour, -time.Hour)), 0)
	plain := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(plain.Close)
	file := func(name string, p pki.Pair) string {
		cert, key := p.Write(t, dir, name)
		return "cert: " + cert + "\nkey: " + key + "\n"
	}
	alice := file("alice", root.Client(t, "alice"))
	ca := "cacert: " + pki.Place(t, dir+"/ca.pem", root.PEM()) + "\n"
	tests := []struct {
		name, url, file string
		says            string
	}{
		{"both sides know each other", good, ca + alice, ""},
		{"the same by TLS 1.2", old, ca + alice, ""},
		{"no certificate", good, ca, "set cert and key"},
		{"no certificate, by TLS 1.2", old, ca, "set cert and key"},
		{"a certificate of another authority", good, ca + file("mallory", other.Client(t, "mallory")), "mallory.pem: expired, revoked, not in its list"},
		{"a certificate that expired", good, ca + file("late", root.Client(t, "late", pki.Valid(-2*time.Hour, -time.Hour))), "late.pem expired on"},
		{"a certificate of tomorrow", good, ca + file("early", root.Client(t, "early", pki.Valid(time.Hour, 2*time.Hour))), "early.pem is not valid before"},
		{"another's key", good, ca + "cert: " + dir + "/alice.pem\nkey: " + dir + "/mallory-key.pem\n", "private key does not match"},
		{"a daemon of another authority", good, "cacert: " + pki.Place(t, dir+"/other.pem", other.PEM()) + "\n" + alice, "check cacert"},
		{"a daemon of another name", serve(root.Server(t, pki.Names("elsewhere.test")), 0), ca + alice, "not valid for the host"},
		{"a daemon whose certificate expired", late, ca + alice, "has expired"},
		{"a daemon without TLS", strings.Replace(plain.URL, "http:", "https:", 1), ca + alice, "use http:// in the url"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := runWith(withHome(t, tt.file, map[string]string{"POLYCUBECTL_URL": tt.url}), nil, "show", "r1")
			switch {
			case tt.says == "" && (r.code != ExitOK || r.out != "alice\n"):
				t.Errorf("exit %d, stdout %q, stderr %q", r.code, r.out, r.err)
			case tt.says != "" && (r.code == ExitOK || r.out != "" || !strings.Contains(r.err, tt.says)):
				t.Errorf("exit %d, stdout %q, stderr %q, want %q", r.code, r.out, r.err, tt.says)
			}
		})
	}
}

// TestTheSocketForReading: who may not use the daemon's socket uses the one beside it, if
// that is for them.
func TestTheSocketForReading(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: becomes another user")
	}
	const reader = 54321
	dir, err := os.MkdirTemp("", "pctl-read")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := errors.Join(executable.CopySelf(dir+"/polycubectl"), os.Chmod(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	for name, gid := range map[string]int{"polycubed.sock": 0, "polycubed-read.sock": reader} {
		path := filepath.Join(dir, name)
		l, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		srv := httptest.NewUnstartedServer(reply(200, `"`+name+`"`))
		srv.Listener.Close()
		srv.Listener = l
		srv.Start()
		t.Cleanup(srv.Close)
		if err := os.Chown(path, 0, gid); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, 0o660); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		uid, gid uint32
		want     string
	}{{0, 0, "polycubed.sock"}, {reader, 0, "polycubed.sock"}, {reader, reader, "polycubed-read.sock"}, {reader, reader + 1, "join the group polycube"}} {
		cmd := exec.Command(dir+"/polycubectl", "show", "r1")
		cmd.Dir, cmd.Env = "/", []string{actAsProgram + "=1", "HOME=/nonexistent", "POLYCUBECTL_SOCKET=" + dir + "/polycubed.sock"}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: tt.uid, Gid: tt.gid}}
		if out, err := cmd.CombinedOutput(); !strings.Contains(string(out), tt.want) {
			t.Errorf("uid %d gid %d: %q, %v, want %q", tt.uid, tt.gid, out, err, tt.want)
		}
	}
}
