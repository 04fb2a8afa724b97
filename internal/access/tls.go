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

// TLS is always mutual: no client without a certificate. Sessions are not resumed, so every connection presents its
// certificate, and an open connection is checked again when the files change or a certificate in its chain expires.

var errNotExist = fs.ErrNotExist

// pollInterval is how often the files are checked for changes.
const pollInterval = time.Second

// TLSOptions are the TLS files, like the daemon's options of the same names.
type TLSOptions struct {
	// Cert and Key are the daemon's own.
	Cert, Key string
	// CACert has the certificates of the authorities that sign client certificates.
	CACert string
	// Allow is a directory of accepted certificates, instead of an authority: those in admin/ are admins, the others
	// can only read.
	Allow string
	// Deny is a directory of refused certificates and revocation lists.
	Deny string
	// Admins is a file with the names of admins, for CACert.
	Admins string
}

// Given reports whether TLS was requested.
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

// Peer is a client with an accepted certificate.
type Peer struct {
	// Subject and Fingerprint identify the certificate; the latter is SHA-256 in hexadecimal.
	Subject, Fingerprint string
	Role                 Role

	// The decision is valid until this time, and for this trust.
	until time.Time
	trust *trust
	certs []*x509.Certificate
}

// TLS has the current content of the files.
type TLS struct {
	options TLSOptions
	log     *slog.Logger
	now     func() time.Time
	current atomic.Pointer[trust]

	mu    sync.Mutex // of reload
	stamp string

	faults atomic.Pointer[[]error]
}

// Faults are why files could not be read when they last changed: their previous content stays in effect.
func (t *TLS) Faults() []error {
	if f := t.faults.Load(); f != nil {
		return *f
	}
	return nil
}

// NewTLS reads all files. A file that cannot be used is an error.
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

// install makes a trust the current one.
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

// Config is for a listener. Every handshake uses the newest files.
func (t *TLS) Config() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			return t.current.Load().config, nil
		},
	}
}

// Verify decides about the certificates that a client presented, the client's own first.
func (t *TLS) Verify(certs []*x509.Certificate) (Peer, error) {
	now := t.current.Load()
	p, err := now.verify(certs, t.now())
	if err != nil {
		return p, err // without a trust, so that the next check decides again
	}
	p.trust = now
	return p, nil
}

// Again decides about a client again, if anything changed since the last decision.
func (t *TLS) Again(p Peer) (Peer, error) {
	if p.trust == t.current.Load() && t.now().Before(p.until) {
		return p, nil
	}
	return t.Verify(p.certs)
}

// ServesHost reports whether a host name is in the daemon's certificate.
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

// Watch reads the TLS files again when they change, until ctx ends; t may be nil. After each check it calls then, to
// close what is still open without rights.
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
