// SPDX-License-Identifier: Apache-2.0

// Package pki creates authorities and certificates for tests, valid and invalid ones.
package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// Pair is a certificate and its key.
type Pair struct {
	Cert *x509.Certificate
	Key  *ecdsa.PrivateKey
	// Chain are the certificates that go with it, the next authority first.
	Chain []*x509.Certificate
}

// Option changes a certificate before it is signed.
type Option func(*x509.Certificate)

// Authority returns a new authority that signs itself.
func Authority(t testing.TB, name string) Pair {
	t.Helper()
	return sign(t, nil, name, ca)
}

func ca(c *x509.Certificate) {
	c.IsCA, c.BasicConstraintsValid, c.ExtKeyUsage = true, true, nil
	c.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign
}

// Authority returns an authority that another signed.
func (p Pair) Authority(t testing.TB, name string) Pair {
	t.Helper()
	return sign(t, &p, name, ca)
}

// Client returns a client's certificate.
func (p Pair) Client(t testing.TB, name string, options ...Option) Pair {
	t.Helper()
	return sign(t, &p, name, options...)
}

// Server returns the certificate of a server on localhost.
func (p Pair) Server(t testing.TB, options ...Option) Pair {
	t.Helper()
	local := func(c *x509.Certificate) {
		c.DNSNames, c.IPAddresses = []string{"localhost", "polycube.test"}, []net.IP{net.IPv4(127, 0, 0, 1)}
		c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	}
	return sign(t, &p, "polycubed", append([]Option{local}, options...)...)
}

// Self returns a client's certificate that it signed itself.
func Self(t testing.TB, name string, options ...Option) Pair {
	t.Helper()
	return sign(t, nil, name, options...)
}

// Valid sets the time of validity, counted from now.
func Valid(from, to time.Duration) Option {
	return func(c *x509.Certificate) { c.NotBefore, c.NotAfter = time.Now().Add(from), time.Now().Add(to) }
}

// Usage sets the purpose of the certificate.
func Usage(usage x509.ExtKeyUsage) Option {
	return func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{usage} }
}

// URI adds an alternative name.
func URI(text string) Option {
	return func(c *x509.Certificate) {
		if u, err := url.Parse(text); err == nil {
			c.URIs = append(c.URIs, u)
		}
	}
}

// Names sets the hosts' names, and no addresses.
func Names(names ...string) Option {
	return func(c *x509.Certificate) { c.DNSNames, c.IPAddresses = names, nil }
}

// Organization sets the subject's.
func Organization(name string) Option {
	return func(c *x509.Certificate) { c.Subject.Organization = []string{name} }
}

func sign(t testing.TB, by *Pair, name string, options ...Option) Pair {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	number, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: number, Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(90 * 24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	for _, o := range options {
		o(template)
	}
	out := Pair{Key: key}
	parent, parentKey := template, key
	if by != nil {
		parent, parentKey = by.Cert, by.Key
		out.Chain = append([]*x509.Certificate{by.Cert}, by.Chain...)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, parentKey)
	if err == nil {
		out.Cert, err = x509.ParseCertificate(der)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Revoke returns the authority's revocation list, in PEM.
func (p Pair) Revoke(t testing.TB, revoked ...Pair) []byte {
	t.Helper()
	list := &x509.RevocationList{Number: big.NewInt(1), ThisUpdate: time.Now(), NextUpdate: time.Now().Add(time.Hour)}
	for _, r := range revoked {
		list.RevokedCertificateEntries = append(list.RevokedCertificateEntries,
			x509.RevocationListEntry{SerialNumber: r.Cert.SerialNumber, RevocationTime: time.Now()})
	}
	der, err := x509.CreateRevocationList(rand.Reader, list, p.Cert, p.Key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: der})
}

// RevokeV1 returns a revocation list as openssl creates it without configuration, in PEM: of version 1.
func (p Pair) RevokeV1(t testing.TB) []byte {
	t.Helper()
	dir := t.TempDir()
	conf := Place(t, filepath.Join(dir, "conf"), []byte("[ca]\ndefault_ca=d\n[d]\ndatabase="+dir+"/index\ndefault_md=sha256\ndefault_crl_days=1\n"))
	Place(t, filepath.Join(dir, "index"), nil)
	cert, key := p.Write(t, dir, "ca")
	out, err := exec.Command("openssl", "ca", "-batch", "-gencrl", "-config", conf, "-cert", cert, "-keyfile", key).Output()
	if err != nil {
		t.Fatalf("openssl ca -gencrl: %v: %s", err, out)
	}
	return out
}

// PEM is the certificate alone.
func (p Pair) PEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.Cert.Raw})
}

// KeyPEM is the private key.
func (p Pair) KeyPEM(t testing.TB) []byte {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(p.Key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

// TLS is the pair as a client or server shows it, with its chain but for the root.
func (p Pair) TLS() tls.Certificate {
	out := tls.Certificate{Certificate: [][]byte{p.Cert.Raw}, PrivateKey: p.Key, Leaf: p.Cert}
	for i, c := range p.Chain {
		if i < len(p.Chain)-1 {
			out.Certificate = append(out.Certificate, c.Raw)
		}
	}
	return out
}

// Write writes NAME.pem and NAME-key.pem into a directory and returns their paths.
func (p Pair) Write(t testing.TB, dir, name string) (cert, key string) {
	t.Helper()
	return Place(t, filepath.Join(dir, name+".pem"), p.PEM()), Place(t, filepath.Join(dir, name+"-key.pem"), p.KeyPEM(t))
}

// Place installs a private file atomically, with the directories that it needs.
func Place(t testing.TB, path string, text []byte) string {
	t.Helper()
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.WriteFile(filepath.Join(filepath.Dir(path), ".new"), text, 0o600)
	}
	if err == nil {
		err = os.Rename(filepath.Join(filepath.Dir(path), ".new"), path)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Pool is a pool of one authority.
func (p Pair) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(p.Cert)
	return pool
}
