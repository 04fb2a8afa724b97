// SPDX-License-Identifier: Apache-2.0

// Mutual TLS. Most failures are a missing or wrong file, so every message names the file.

package cli

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
)

// tlsConfig reads the files that the settings name.
func (c config) tlsConfig() (*tls.Config, error) {
	if c.cacert == "" {
		return nil, errors.New("https requires cacert, the certificate of the authority that signed the daemon's certificate")
	}
	if (c.cert == "") != (c.key == "") {
		return nil, errors.New("cert and key must be set together")
	}
	pem, err := os.ReadFile(c.cacert)
	if err != nil {
		return nil, fmt.Errorf("cacert: %w", err)
	}
	t := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: x509.NewCertPool()}
	if !t.RootCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("cacert: %s contains no PEM certificate", c.cacert)
	}
	if c.cert == "" {
		return t, nil
	}
	pair, err := tls.LoadX509KeyPair(c.cert, c.key)
	if err != nil {
		return nil, fmt.Errorf("cert and key: %w", err)
	}
	if err := inTime(pair.Leaf, time.Now()); err != nil {
		return nil, fmt.Errorf("cert: %s %w", c.cert, err)
	}
	// The certificate is presented whichever authorities the daemon names: a refusal says more than silence.
	t.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
	return t, nil
}

// inTime reports whether a certificate is valid now.
func inTime(c *x509.Certificate, now time.Time) error {
	switch {
	case now.After(c.NotAfter):
		return fmt.Errorf("expired on %s", c.NotAfter.UTC().Format(time.DateTime))
	case now.Before(c.NotBefore):
		return fmt.Errorf("is not valid before %s", c.NotBefore.UTC().Format(time.DateTime))
	}
	return nil
}

// explainTLS explains why one side refused the other's certificate.
func (e endpoint) explainTLS(err error) error {
	var host x509.HostnameError
	var unknown x509.UnknownAuthorityError
	var record tls.RecordHeaderError
	var invalid x509.CertificateInvalidError
	text := err.Error()
	says := func(format string, args ...any) error {
		return fmt.Errorf("%s (%w)", fmt.Sprintf(format, args...), err)
	}
	switch {
	case errors.As(err, &host):
		return says("its certificate is not valid for the host %s: use a name that the certificate contains", host.Host)
	case errors.As(err, &unknown):
		return says("its certificate is not signed by an authority in %s: check cacert, and the address of the daemon", e.cacert)
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return says("its certificate has expired or is not valid yet: replace it, or correct the clock")
	case strings.Contains(text, "certificate required") || strings.Contains(text, "remote error") && e.cert == "":
		return says("it requires a client certificate: set cert and key")
	case strings.Contains(text, "remote error: tls:"):
		return says("it does not accept the certificate %s: expired, revoked, not in its list, or signed by another authority; the daemon's audit log has the reason", e.cert)
	case errors.As(err, &record), strings.Contains(text, "server gave HTTP response to HTTPS client"):
		return says("it serves plain HTTP on this port: use http:// in the url")
	}
	return err
}
