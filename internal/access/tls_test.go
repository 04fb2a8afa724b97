// SPDX-License-Identifier: Apache-2.0

package access

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/polycube/polycube/test/output"
	"github.com/polycube/polycube/test/pki"
)

// site is a place with an authority and the files of a daemon.
type site struct {
	dir     string
	root    pki.Pair
	options TLSOptions
	log     *output.Buffer
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{dir: t.TempDir(), root: pki.Authority(t, "root"), log: &output.Buffer{}}
	s.options.Cert, s.options.Key = s.root.Server(t).Write(t, s.dir, "server")
	s.options.CACert = pki.Place(t, filepath.Join(s.dir, "ca.pem"), s.root.PEM())
	return s
}

// listed is a site with an allow list instead of an authority.
func listed(t *testing.T) *site {
	t.Helper()
	s := newSite(t)
	s.options.CACert, s.options.Allow = "", filepath.Join(s.dir, "allow")
	if err := os.Mkdir(s.options.Allow, 0o755); err != nil {
		t.Fatal(err)
	}
	return s
}

// denying adds a deny list to a site.
func (s *site) denying(t *testing.T) *site {
	t.Helper()
	s.options.Deny = filepath.Join(s.dir, "deny")
	if err := os.Mkdir(s.options.Deny, 0o755); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *site) open(t *testing.T) *TLS {
	t.Helper()
	x, err := NewTLS(s.options, slog.New(slog.NewTextHandler(s.log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// shown are the certificates that a client shows.
func shown(p pki.Pair) []*x509.Certificate { return append([]*x509.Certificate{p.Cert}, p.Chain...) }

// TestAuthority: who comes in by an authority, and as what.
func TestAuthority(t *testing.T) {
	s := newSite(t).denying(t)
	middle, lost := s.root.Authority(t, "middle"), s.root.Authority(t, "lost")
	revoked, listed := s.root.Client(t, "revoked"), middle.Client(t, "on a list of revoked ones")
	s.options.Admins = pki.Place(t, filepath.Join(s.dir, "admins"), []byte("# who may change things\nCN: alice\nO:ops # all of them\nURI:spiffe://x/robot\nDNS:Host.Example.\n"))
	pki.Place(t, s.options.Deny+"/revoked.pem", revoked.PEM())
	pki.Place(t, s.options.Deny+"/lost.pem", lost.PEM())
	pki.Place(t, s.options.Deny+"/list.pem", s.root.Revoke(t, s.root.Client(t, "somebody"), revoked))
	s.options.CACert = pki.Place(t, s.options.CACert, append(s.root.PEM(), middle.PEM()...))
	pki.Place(t, s.options.Deny+"/middle.pem", middle.Revoke(t, listed))
	x := s.open(t)
	other := pki.Authority(t, "root")
	tests := []struct {
		name   string
		client pki.Pair
		role   Role
		says   string
	}{
		{"a client", s.root.Client(t, "bob"), Reader, ""},
		{"a client of an authority between", middle.Client(t, "carol"), Reader, ""},
		{"an admin by name", s.root.Client(t, "alice"), Admin, ""},
		{"an admin by organization", s.root.Client(t, "dave", pki.Organization("ops")), Admin, ""},
		{"an admin by URI", s.root.Client(t, "x", pki.URI("spiffe://x/robot")), Admin, ""},
		{"an admin by host", s.root.Client(t, "x", pki.Names("HOST.example")), Admin, ""},
		{"a name of another kind", s.root.Client(t, "spiffe://x/robot", pki.Organization("alice"), pki.Names("ops", "alice")), Reader, ""},
		{"a name in other letters", s.root.Client(t, "Alice"), Reader, ""},
		{"a certificate without a use", s.root.Client(t, "x", func(c *x509.Certificate) { c.ExtKeyUsage = nil }), Reader, ""},
		{"no certificate", pki.Pair{}, None, "no certificate"},
		{"of another authority with the same name", other.Client(t, "alice"), None, "not signed by an accepted authority"},
		{"signed by itself", pki.Self(t, "alice"), None, "not signed by an accepted authority"},
		{"the authority itself, which could sign for anybody", s.root, Reader, ""},
		{"signed by a client", s.root.Client(t, "bob").Client(t, "alice"), None, "not signed by an accepted authority"},
		{"expired", s.root.Client(t, "alice", pki.Valid(-2*time.Hour, -time.Minute)), None, "expired on"},
		{"not yet valid", s.root.Client(t, "alice", pki.Valid(time.Hour, 2*time.Hour)), None, "not valid before"},
		{"for servers", s.root.Server(t), None, "lacks clientAuth"},
		{"denied", revoked, None, "is revoked"},
		{"in a revocation list", listed, None, "is revoked"},
		{"of a denied authority", lost.Client(t, "alice"), None, "is revoked"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var certs []*x509.Certificate
			if tt.client.Cert != nil {
				certs = shown(tt.client)
			}
			p, err := x.Verify(certs)
			switch {
			case tt.says == "" && (err != nil || p.Role != tt.role):
				t.Errorf("role %v, %v, want %v", p.Role, err, tt.role)
			case tt.says != "" && (err == nil || !strings.Contains(err.Error(), tt.says)):
				t.Errorf("error %v, want %q", err, tt.says)
			}
			if again, err2 := x.Again(p); (err == nil) != (err2 == nil) || again.Role != p.Role {
				t.Errorf("a second look: role %v, %v", again.Role, err2)
			}
		})
	}
}

// TestAllowList: only the listed certificates come in, whoever signed them.
func TestAllowList(t *testing.T) {
	s := listed(t)
	reader, admin, both, der := pki.Self(t, "reader"), s.root.Client(t, "admin"), pki.Self(t, "both"), pki.Self(t, "der")
	old := pki.Self(t, "old", pki.Valid(-2*time.Hour, -time.Hour))
	pki.Place(t, s.options.Allow+"/one.pem", append(reader.PEM(), both.PEM()...))
	pki.Place(t, s.options.Allow+"/two.cer", der.Cert.Raw)
	pki.Place(t, s.options.Allow+"/old.pem", old.PEM())
	pki.Place(t, s.options.Allow+"/admin/three.pem", append(admin.PEM(), both.PEM()...))
	pki.Place(t, s.options.Allow+"/.hidden.pem", []byte("not looked at"))
	pki.Place(t, s.options.Allow+"/backup.pem~", []byte("not looked at"))
	pki.Place(t, s.options.Allow+"/other/four.pem", pki.Self(t, "elsewhere").PEM())
	x := s.open(t)
	for _, tt := range []struct {
		name   string
		client pki.Pair
		role   Role
		says   string
	}{
		{"listed", reader, Reader, ""}, {"listed in DER", der, Reader, ""}, {"listed as admin", admin, Admin, ""}, {"listed as both", both, Admin, ""},
		{"listed and expired", old, None, "expired"}, {"of the same authority", s.root.Client(t, "admin"), None, "not in the allow list"},
		{"of the same name", pki.Self(t, "reader"), None, "not in the allow list"},
	} {
		p, err := x.Verify(shown(tt.client))
		if p.Role != tt.role || (tt.says == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: role %v, %v, want %v %q", tt.name, p.Role, err, tt.role, tt.says)
		}
	}
}

// TestReload: a change of each file counts, for those who are in already, too; a file that cannot be used leaves what
// it said before in force, and the rest is read anyway.
func TestReload(t *testing.T) {
	s := newSite(t).denying(t)
	s.options.Admins = pki.Place(t, filepath.Join(s.dir, "admins"), []byte("CN:alice\n"))
	x := s.open(t)
	alice, bob := s.root.Client(t, "alice"), s.root.Client(t, "bob")
	role := func(c pki.Pair) Role { p, _ := x.Verify(shown(c)); return p.Role }
	in, err := x.Verify(shown(bob))
	if err != nil || role(alice) != Admin || role(bob) != Reader {
		t.Fatalf("at first: %v, alice %v, bob %v", err, role(alice), role(bob))
	}
	step := func(what string, check bool) {
		t.Helper()
		if !check {
			t.Errorf("%s: alice is %v, bob is %v; log %s", what, role(alice), role(bob), s.log)
		}
	}
	before := s.log.String()
	x.poll()
	step("nothing changed", s.log.String() == before)

	pki.Place(t, s.options.Admins, []byte("CN:bob\n"))
	x.poll()
	step("another admin", role(alice) == Reader && role(bob) == Admin)
	pki.Place(t, s.options.Admins, []byte("bob and alice\n"))
	x.poll()
	step("names that are none", role(alice) == Reader && role(bob) == Admin && strings.Contains(s.log.String(), "admins: line 1"))

	pki.Place(t, s.options.Deny+"/bob.pem", bob.PEM())
	x.poll()
	_, err = x.Again(in)
	step("bob is denied, also where he is in", role(bob) == None && err != nil)
	pki.Place(t, s.options.Deny+"/bob.pem", []byte("-----BEGIN rubbish"))
	pki.Place(t, s.options.Deny+"/alice.pem", alice.PEM())
	x.poll()
	step("status can say so", strings.Contains(errors.Join(x.Faults()...).Error(), "bob.pem: contains no complete certificate"))
	step("one file is spoilt, another is new", role(bob) == None && role(alice) == None && strings.Contains(s.log.String(), "bob.pem: contains no complete certificate"))
	for _, name := range []string{"bob.pem", "alice.pem"} {
		if err := os.Remove(filepath.Join(s.options.Deny, name)); err != nil {
			t.Fatal(err)
		}
	}
	x.poll()
	step("status need not say so", !strings.Contains(errors.Join(x.Faults()...).Error(), "bob.pem"))
	step("nobody is denied", role(bob) == Admin && role(alice) == Reader)

	if err := os.Chmod(s.options.CACert, 0o666); err != nil {
		t.Fatal(err)
	}
	x.poll()
	step("everybody can write the authority", role(bob) == Admin && strings.Contains(s.log.String(), "chmod go-w"))
	next := pki.Authority(t, "next")
	pki.Place(t, s.options.CACert, next.PEM())
	x.poll()
	step("another authority", role(bob) == None && role(next.Client(t, "bob")) == Admin)

	served := x.current.Load().pair.Leaf.SerialNumber
	pair := next.Server(t)
	pki.Place(t, s.options.Cert, pair.PEM())
	x.poll()
	step("a certificate whose key is not there yet", x.current.Load().pair.Leaf.SerialNumber.Cmp(served) == 0)
	pki.Place(t, s.options.Key, pair.KeyPEM(t))
	x.Reload()
	step("the key as well", x.current.Load().pair.Leaf.SerialNumber.Cmp(pair.Cert.SerialNumber) == 0)
}

// TestExpiryOfThoseWhoAreIn: a certificate that was good, or that of its authority, does
// not outlive its time.
func TestExpiryOfThoseWhoAreIn(t *testing.T) {
	s := newSite(t)
	x := s.open(t)
	p, err := x.Verify(shown(s.root.Client(t, "bob", pki.Valid(-time.Hour, time.Hour))))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := x.Again(p); err != nil {
		t.Errorf("at once: %v", err)
	}
	x.now = func() time.Time { return time.Now().Add(2 * time.Hour) }
	if _, err := x.Again(p); err == nil || !strings.Contains(err.Error(), "expired") {
		t.Errorf("two hours later: %v", err)
	}
}

// TestUnusableFiles: what is refused at start, and what the sentence says to do.
func TestUnusableFiles(t *testing.T) {
	tests := []struct {
		name  string
		spoil func(*testing.T, *site)
		says  string
	}{
		{"the key can be read by all", func(t *testing.T, s *site) { chmod(t, s.options.Key, 0o644) }, "chmod o-rwx"},
		{"the key can be written by others", func(t *testing.T, s *site) { chmod(t, s.options.Key, 0o602) }, "chmod go-w"},
		{"the certificate can be written by others", func(t *testing.T, s *site) { chmod(t, s.options.Cert, 0o646) }, "chmod go-w"},
		{"there is no key", func(t *testing.T, s *site) { s.options.Key += "x" }, "--key: open"},
		{"the key is a directory", func(t *testing.T, s *site) { s.options.Key = s.dir }, "is not a regular file"},
		{"the key is another's", func(t *testing.T, s *site) { _, s.options.Key = pki.Self(t, "x").Write(t, s.dir, "x") }, "private key does not match"},
		{"the certificate expired", func(t *testing.T, s *site) { s.serve(t, s.root.Server(t, pki.Valid(-2*time.Hour, -time.Hour))) }, "expired on"},
		{"the certificate is not valid yet", func(t *testing.T, s *site) { s.serve(t, s.root.Server(t, pki.Valid(time.Hour, 2*time.Hour))) }, "is not valid before"},
		{"the certificate names no host", func(t *testing.T, s *site) { s.serve(t, s.root.Server(t, pki.Names())) }, "subjectAltName"},
		{"the certificate is for clients", func(t *testing.T, s *site) {
			s.serve(t, s.root.Server(t, pki.Usage(x509.ExtKeyUsageClientAuth)))
		}, "lacks serverAuth"},
		{"the authority is none", func(t *testing.T, s *site) { pki.Place(t, s.options.CACert, s.root.Client(t, "bob").PEM()) }, "is not the certificate of an authority"},
		{"the authority is empty", func(t *testing.T, s *site) { pki.Place(t, s.options.CACert, nil) }, "contains no certificate"},
		{"a revocation list of nobody", func(t *testing.T, s *site) {
			pki.Place(t, s.denying(t).options.Deny+"/l", pki.Authority(t, "root").Revoke(t, s.root))
		}, "is not signed by an authority"},
		{"a revocation list of version 1", func(t *testing.T, s *site) {
			pki.Place(t, s.denying(t).options.Deny+"/l", s.root.RevokeV1(t))
		}, "crlnumber = FILE"},
		{"a revocation list of version 1 in DER", func(t *testing.T, s *site) {
			block, _ := pem.Decode(s.root.RevokeV1(t))
			pki.Place(t, s.denying(t).options.Deny+"/l", block.Bytes)
		}, "crlnumber = FILE"},
		{"a private key in a list", func(t *testing.T, s *site) { pki.Place(t, s.denying(t).options.Deny+"/l", pki.Self(t, "x").KeyPEM(t)) }, "contains a private key"},
		{"a list that others can write", func(t *testing.T, s *site) { chmod(t, s.denying(t).options.Deny, 0o777) }, "chmod go-w"},
		{"a list that is not there", func(_ *testing.T, s *site) { s.options.Deny = s.dir + "/none" }, "no such file"},
		{"a list that is a file", func(_ *testing.T, s *site) { s.options.Deny = s.options.Cert }, "not a directory"},
		{"names of no kind", func(t *testing.T, s *site) { s.options.Admins = pki.Place(t, s.dir+"/n", []byte("\nalice\n")) }, "line 2"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newSite(t)
			tt.spoil(t, s)
			if _, err := NewTLS(s.options, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("error %v, want %q", err, tt.says)
			}
		})
	}
}

func (s *site) serve(t *testing.T, p pki.Pair) { p.Write(t, s.dir, "server") }

func chmod(t *testing.T, path string, mode os.FileMode) {
	t.Helper()
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}
