// SPDX-License-Identifier: Apache-2.0

package access

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// TLS is always mutual: no client without a certificate. Sessions are not resumed, so
// every connection shows its certificate, and a connection that is open is looked at
// again when the files change or a certificate in its chain expires.

var errNotExist = fs.ErrNotExist

// pollInterval is how often the files are looked at for changes.
const pollInterval = time.Second

// TLSOptions name the files of TLS, as the daemon's options of the same names do.
type TLSOptions struct {
	// Cert and Key are the daemon's own.
	Cert, Key string
	// CACert holds the certificates of the authorities that sign client certificates.
	CACert string
	// Allow is a directory of accepted certificates, instead of an authority: those in
	// admin/ may change things, the others only read.
	Allow string
	// Deny is a directory of certificates and revocation lists that are refused.
	Deny string
	// Admins is a file with the names of those who may change things, for CACert.
	Admins string
}

// Given reports whether TLS was asked for.
func (o TLSOptions) Given() bool { return o != TLSOptions{} }

// Check refuses combinations that are unsafe, or of which a part would have no effect.
func (o TLSOptions) Check() error {
	switch {
	case !o.Given():
		return nil
	case o.Cert == "" && o.Key == "":
		return errors.New("cacert, cert-whitelist, cert-blacklist and cert-admins require TLS: also give --cert and --key")
	case o.Cert == "":
		return errors.New("key without cert: TLS requires both")
	case o.Key == "":
		return errors.New("cert without key: TLS requires both")
	case o.CACert != "" && o.Allow != "":
		return errors.New("cacert and cert-whitelist are mutually exclusive: clients are accepted either by an authority or by a list")
	case o.Allow != "" && o.Deny != "":
		return errors.New("cert-whitelist and cert-blacklist are mutually exclusive: remove the certificate from the whitelist instead")
	case o.Allow != "" && o.Admins != "":
		return errors.New("cert-admins requires cacert: with cert-whitelist, put the certificates of admins in its directory admin")
	case o.CACert == "" && o.Allow == "" && o.Deny != "":
		return errors.New("cert-blacklist requires cacert: it revokes certificates of that authority")
	case o.CACert == "" && o.Allow == "":
		return errors.New("cert requires cacert or cert-whitelist: without one of them, clients cannot be identified")
	}
	return nil
}

// Peer is a client that showed a certificate which is accepted.
type Peer struct {
	// Subject and Fingerprint name the certificate; the latter is SHA-256 in hexadecimal.
	Subject, Fingerprint string
	Role                 Role

	// The decision holds until this time, and for this trust.
	until time.Time
	trust *trust
	certs []*x509.Certificate
}

// TLS holds what the files say now.
type TLS struct {
	options TLSOptions
	log     *slog.Logger
	now     func() time.Time
	current atomic.Pointer[trust]

	mu    sync.Mutex // of reload
	stamp string

	faults atomic.Pointer[[]error]
}

// Faults are why files could not be read when they changed last: what they said before stays in force.
func (t *TLS) Faults() []error {
	if f := t.faults.Load(); f != nil {
		return *f
	}
	return nil
}

// NewTLS reads all files. Any that cannot be used is an error.
func NewTLS(o TLSOptions, log *slog.Logger) (*TLS, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	t := &TLS{options: o, log: log, now: time.Now}
	t.stamp = t.fileStamp()
	first, errs := load(o, nil, t.now())
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("TLS: %w", err)
	}
	t.install(first)
	return t, nil
}

func (t *TLS) fileStamp() string {
	o := t.options
	admin := ""
	if o.Allow != "" {
		admin = o.Allow + "/" + adminDir
	}
	return stamp(o.Cert, o.Key, o.CACert, o.Allow, admin, o.Deny, o.Admins)
}

// install makes a trust the one that decides.
func (t *TLS) install(next *trust) {
	next.config = &tls.Config{
		MinVersion:             tls.VersionTLS12,
		Certificates:           []tls.Certificate{*next.pair},
		ClientAuth:             tls.RequireAnyClientCert,
		NextProtos:             []string{"http/1.1"},
		SessionTicketsDisabled: true,
		VerifyConnection: func(s tls.ConnectionState) error {
			_, err := t.Verify(s.PeerCertificates)
			return err
		},
	}
	if len(next.cas) > 0 {
		next.config.ClientCAs = next.roots // a hint for clients that have several certificates
	}
	t.current.Store(next)
	if left := next.pair.Leaf.NotAfter.Sub(t.now()); left < 14*24*time.Hour {
		t.log.Warn("the daemon's certificate expires soon", "file", t.options.Cert, "on", next.pair.Leaf.NotAfter)
	}
}

// Config is for a listener. Every handshake is by the newest files.
func (t *TLS) Config() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			return t.current.Load().config, nil
		},
	}
}

// Verify decides about the certificates that a client showed, the client's own first.
func (t *TLS) Verify(certs []*x509.Certificate) (Peer, error) {
	now := t.current.Load()
	p, err := now.verify(certs, t.now())
	if err != nil {
		return p, err // with no trust in it, so that the next look decides anew
	}
	p.trust = now
	return p, nil
}

// Again decides anew about a client, if anything changed since it was decided.
func (t *TLS) Again(p Peer) (Peer, error) {
	if p.trust == t.current.Load() && t.now().Before(p.until) {
		return p, nil
	}
	return t.Verify(p.certs)
}

// ServesHost reports whether a host's name is in the daemon's certificate.
func (t *TLS) ServesHost(host string) bool {
	return t.current.Load().pair.Leaf.VerifyHostname(host) == nil
}

// Reload reads all files again, whether they changed or not.
func (t *TLS) Reload() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stamp = t.fileStamp()
	t.reload()
}

func (t *TLS) reload() {
	next, errs := load(t.options, t.current.Load(), t.now())
	t.faults.Store(&errs)
	for _, err := range errs {
		t.log.Error("a TLS file cannot be used, its previous content stays in effect", "err", err)
	}
	t.install(next)
	t.log.Info("certificates reloaded", "errors", len(errs))
}

// Watch reads the files of TLS again when they change, until ctx ends; t may be nil. After
// each look it calls then, for whoever keeps something open by rights that may be gone.
func Watch(ctx context.Context, t *TLS, then func()) {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if t != nil {
				t.poll()
			}
			then()
		}
	}
}

func (t *TLS) poll() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.fileStamp(); s != t.stamp {
		t.stamp = s
		t.reload()
	}
}
