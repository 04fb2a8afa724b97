// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"crypto/tls"
	"crypto/x509"
	"testing"
	"time"
)

// TestPairs: certificates have the properties that they claim, so that a test that expects a refusal gets it for the
// right reason.
func TestPairs(t *testing.T) {
	root := Authority(t, "root")
	middle := root.Authority(t, "middle")
	client := middle.Client(t, "alice", Organization("ops"), URI("spiffe://x/alice"))
	between := x509.NewCertPool()
	for _, c := range client.Chain {
		between.AddCert(c)
	}
	verify := func(p Pair, usage x509.ExtKeyUsage) error {
		_, err := p.Cert.Verify(x509.VerifyOptions{Roots: root.Pool(), Intermediates: between, KeyUsages: []x509.ExtKeyUsage{usage}})
		return err
	}
	if err := verify(client, x509.ExtKeyUsageClientAuth); err != nil {
		t.Errorf("a client: %v", err)
	}
	if err := verify(root.Server(t), x509.ExtKeyUsageServerAuth); err != nil {
		t.Errorf("a server: %v", err)
	}
	for name, p := range map[string]Pair{
		"of another authority": Authority(t, "root").Client(t, "alice"), "self-signed": Self(t, "alice"),
		"expired": root.Client(t, "alice", Valid(-2*time.Hour, -time.Hour)), "not yet valid": root.Client(t, "alice", Valid(time.Hour, 2*time.Hour)),
		"for servers": root.Client(t, "alice", Usage(x509.ExtKeyUsageServerAuth)),
	} {
		if verify(p, x509.ExtKeyUsageClientAuth) == nil {
			t.Errorf("a certificate that is %s is accepted", name)
		}
	}
	if n := len(client.TLS().Certificate); n != 2 {
		t.Errorf("%d certificates are shown, want the client's and the middle one", n)
	}
	dir := t.TempDir()
	if _, err := tls.LoadX509KeyPair(client.Write(t, dir, "alice")); err != nil {
		t.Errorf("files: %v", err)
	}
}
