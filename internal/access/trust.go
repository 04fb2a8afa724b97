// SPDX-License-Identifier: Apache-2.0

package access

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"
)

// Trust is the content of all files in TLSOptions, read together. It never changes; a reload builds the next one from
// the parts that could be read and, for the others, the parts of the previous one.

// adminDir is the directory of admins within the allow list.
const adminDir = "admin"

type trust struct {
	pair   *tls.Certificate
	config *tls.Config

	cas    []*x509.Certificate
	roots  *x509.CertPool
	names  []name
	denied *denied
	// allow is nil if authorities decide who is accepted.
	allow map[fingerprint]Role
	// files are the last content of each file of the lists.
	files map[string]content
}

// load reads everything. What cannot be read stays as in the previous trust, if there is one, and the errors say what
// that was.
func load(o TLSOptions, before *trust, now time.Time) (*trust, []error) {
	t := &trust{files: map[string]content{}}
	if before != nil {
		t.pair, t.cas, t.names, t.allow, t.denied = before.pair, before.cas, before.names, before.allow, before.denied
	}
	var errs []error
	keep := func(option string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("--%s: %w", option, err))
		}
	}
	if pair, err := loadPair(o.Cert, o.Key, now); err != nil {
		errs = append(errs, err)
	} else {
		t.pair = pair
	}
	if o.CACert != "" {
		if cas, err := loadCAs(o.CACert); err != nil {
			keep("cacert", err)
		} else {
			t.cas = cas
		}
	}
	t.roots = x509.NewCertPool()
	for _, ca := range t.cas {
		t.roots.AddCert(ca)
	}
	if o.Admins != "" {
		if names, err := loadNames(o.Admins); err != nil {
			keep("cert-admins", err)
		} else {
			t.names = names
		}
	}
	for _, err := range t.loadAllow(o.Allow, before) {
		keep("cert-whitelist", err)
	}
	for _, err := range t.loadDeny(o.Deny, before) {
		keep("cert-blacklist", err)
	}
	return t, errs
}

// loadPair reads the daemon's certificate and key, and refuses a certificate that no client would accept.
func loadPair(certFile, keyFile string, now time.Time) (*tls.Certificate, error) {
	cert, err := readTrusted(certFile, false)
	if err != nil {
		return nil, fmt.Errorf("--cert: %w", err)
	}
	key, err := readTrusted(keyFile, true)
	if err != nil {
		return nil, fmt.Errorf("--key: %w", err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("--cert %s and --key %s: %w", certFile, keyFile, err)
	}
	refuse := func(why string) (*tls.Certificate, error) {
		return nil, fmt.Errorf("--cert %s: the certificate %s", certFile, why)
	}
	leaf := pair.Leaf
	switch {
	case now.After(leaf.NotAfter):
		return refuse("expired on " + leaf.NotAfter.UTC().Format(time.DateTime))
	case now.Before(leaf.NotBefore):
		return refuse("is not valid before " + leaf.NotBefore.UTC().Format(time.DateTime))
	case len(leaf.DNSNames)+len(leaf.IPAddresses) == 0:
		return refuse("has no subjectAltName: create one with a DNS name or IP address, because clients check nothing else")
	case !usable(leaf, x509.ExtKeyUsageServerAuth):
		return refuse("is not for servers: its extendedKeyUsage lacks serverAuth")
	}
	return &pair, nil
}

// usable reports whether a certificate can be used for a purpose.
func usable(c *x509.Certificate, usage x509.ExtKeyUsage) bool {
	if len(c.ExtKeyUsage)+len(c.UnknownExtKeyUsage) == 0 {
		return true
	}
	return slices.Contains(c.ExtKeyUsage, usage) || slices.Contains(c.ExtKeyUsage, x509.ExtKeyUsageAny)
}

// loadCAs reads the certificates of the authorities that sign client certificates.
func loadCAs(path string) ([]*x509.Certificate, error) {
	text, err := readTrusted(path, false)
	if err != nil {
		return nil, err
	}
	c, err := parseCertificates(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(c.certs) == 0 {
		return nil, fmt.Errorf("%s: contains no certificate; put revocation lists in --cert-blacklist", path)
	}
	for _, cert := range c.certs {
		if !cert.BasicConstraintsValid || !cert.IsCA {
			return nil, fmt.Errorf("%s: %q is not the certificate of an authority; put certificates of clients in --cert-whitelist", path, subject(cert))
		}
	}
	return c.certs, nil
}

func loadNames(path string) ([]name, error) {
	text, err := readTrusted(path, false)
	if err != nil {
		return nil, err
	}
	names, err := parseNames(string(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return names, nil
}

// loadAllow reads the directory of accepted certificates, and admin/ in it.
func (t *trust) loadAllow(dir string, before *trust) []error {
	if dir == "" {
		return nil
	}
	allow := map[fingerprint]Role{}
	var errs []error
	for _, part := range []struct {
		dir  string
		role Role
	}{{dir, Reader}, {filepath.Join(dir, adminDir), Admin}} {
		files, err := listTrusted(part.dir)
		if part.role == Admin && errors.Is(err, errNotExist) {
			continue
		}
		if err != nil {
			return append(errs, err) // the previous list stays
		}
		for _, path := range files {
			c, err := t.file(path, before)
			if err != nil {
				errs = append(errs, err)
			}
			for _, cert := range c.certs {
				allow[fingerprintOf(cert)] = max(allow[fingerprintOf(cert)], part.role)
			}
		}
	}
	t.allow = allow
	return errs
}

// loadDeny reads the directory of refused certificates and revocation lists.
func (t *trust) loadDeny(dir string, before *trust) []error {
	if dir == "" {
		t.denied = &denied{}
		return nil
	}
	files, err := listTrusted(dir)
	if err != nil {
		return []error{err}
	}
	next := &denied{map[fingerprint]bool{}, map[serial]bool{}}
	var errs []error
	for _, path := range files {
		c, err := t.file(path, before)
		if err == nil {
			err = wrap(path, next.add(c, t.cas))
		} else {
			_ = next.add(c, t.cas) // the last valid content
		}
		if err != nil {
			errs = append(errs, err)
		}
	}
	t.denied = next
	return errs
}

// file reads one file of a list. If it cannot be read, the previous content is returned with the error.
func (t *trust) file(path string, before *trust) (content, error) {
	text, err := readTrusted(path, false)
	var c content
	if err == nil {
		c, err = parseCertificates(text)
		err = wrap(path, err)
	}
	if err != nil && before != nil {
		c = before.files[path]
	}
	t.files[path] = c
	return c, err
}

func wrap(path string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", path, err)
}

// refusal is why a certificate is not accepted.
type refusal struct{ text string }

func (r *refusal) Error() string { return r.text }

func refuse(format string, args ...any) error { return &refusal{fmt.Sprintf(format, args...)} }

// verify decides about the certificates that a client presented, the client's own first.
func (t *trust) verify(certs []*x509.Certificate, now time.Time) (Peer, error) {
	if len(certs) == 0 {
		return Peer{}, refuse("the client presented no certificate")
	}
	leaf := certs[0]
	p := Peer{Subject: subject(leaf), Fingerprint: fingerprintOf(leaf).String(), until: leaf.NotAfter, certs: certs}
	switch {
	case now.After(leaf.NotAfter):
		return p, refuse("the client certificate %q expired on %s", p.Subject, leaf.NotAfter.UTC().Format(time.DateTime))
	case now.Before(leaf.NotBefore):
		return p, refuse("the client certificate %q is not valid before %s", p.Subject, leaf.NotBefore.UTC().Format(time.DateTime))
	case !usable(leaf, x509.ExtKeyUsageClientAuth):
		return p, refuse("the certificate %q is not for clients: its extendedKeyUsage lacks clientAuth", p.Subject)
	}
	if t.allow != nil {
		if p.Role = t.allow[fingerprintOf(leaf)]; p.Role == None {
			return p, refuse("the client certificate %q is not in the allow list", p.Subject)
		}
		return p, nil
	}
	return t.verifyChain(p, certs, now)
}

// verifyChain accepts a certificate that an authority signed, through no denied certificate.
func (t *trust) verifyChain(p Peer, certs []*x509.Certificate, now time.Time) (Peer, error) {
	between := x509.NewCertPool()
	for _, c := range certs[1:] {
		between.AddCert(c)
	}
	chains, err := certs[0].Verify(x509.VerifyOptions{Roots: t.roots, Intermediates: between, CurrentTime: now,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	if err != nil {
		return p, refuse("the client certificate %q is not signed by an accepted authority: %v", p.Subject, err)
	}
	good := slices.IndexFunc(chains, func(chain []*x509.Certificate) bool { return !slices.ContainsFunc(chain, t.denied.has) })
	if good < 0 {
		return p, refuse("the client certificate %q is revoked: it, or the authority that signed it, is in the deny list", p.Subject)
	}
	for _, c := range chains[good] {
		if c.NotAfter.Before(p.until) {
			p.until = c.NotAfter
		}
	}
	if p.Role = Reader; matches(t.names, certs[0]) {
		p.Role = Admin
	}
	return p, nil
}
