// SPDX-License-Identifier: Apache-2.0

// The daemon's address: its Unix socket unless the user says otherwise, because the socket needs no port, no token and
// no certificate.

package cli

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
)

const (
	basePath  = "/polycube/v1/"
	runDir    = "/run/polycube"
	maxSecret = 64 << 10
)

// endpoint is an address to send requests to.
type endpoint struct {
	socket   string   // path of a Unix socket, or empty
	base     *url.URL // every request starts with it
	tls      *tls.Config
	token    string
	instance string
	origin   string
	// cacert and cert are the TLS files, for messages.
	cacert, cert string
}

// String is the address as the user would write it.
func (e endpoint) String() string {
	if e.socket != "" {
		return "socket " + e.socket
	}
	return e.base.String()
}

// endpoint derives the address from the settings.
func (c config) endpoint() (endpoint, error) {
	e := endpoint{origin: c.origin}
	switch {
	case c.url != "":
		return c.urlEndpoint()
	case c.socket != "":
		e.socket = c.socket
	case c.instance != "":
		e.socket, e.instance = filepath.Join(runDir, c.instance, "polycubed.sock"), c.instance
	default:
		e.socket = filepath.Join(runDir, "polycubed.sock")
	}
	e.base = socketBase()
	return e, nil
}

func socketBase() *url.URL { return &url.URL{Scheme: "http", Host: "localhost", Path: basePath} }

func (c config) urlEndpoint() (endpoint, error) {
	e := endpoint{origin: c.origin}
	u, err := url.Parse(c.url)
	if err != nil {
		return e, fmt.Errorf("%s: url %q: %w", c.origin, c.url, err)
	}
	refuse := func(why string) (endpoint, error) {
		return e, fmt.Errorf("%s: url %q: %s", c.origin, c.url, why)
	}
	switch {
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return refuse("user, query and fragment are not accepted")
	case u.Scheme == "unix":
		if u.Host != "" || !filepath.IsAbs(u.Path) {
			return refuse("write unix:///path/of/the.sock")
		}
		e.socket, e.base = u.Path, socketBase()
		return e, nil
	case u.Scheme != "http" && u.Scheme != "https":
		return refuse("the scheme must be http, https or unix")
	case u.Hostname() == "":
		return refuse("the host is missing")
	}
	if strings.Trim(u.Path, "/") == "" {
		u.Path, u.RawPath = basePath, ""
	}
	e.base = u.JoinPath("/")
	if err := c.secure(&e); err != nil {
		return e, fmt.Errorf("%s: url %q: %w", c.origin, c.url, err)
	}
	return e, nil
}

// secure adds certificates and token, which are only for TCP.
func (c config) secure(e *endpoint) error {
	var err error
	if e.base.Scheme == "https" {
		if e.tls, err = c.tlsConfig(); err != nil {
			return err
		}
		e.cacert, e.cert = c.cacert, c.cert
	}
	if e.token, err = c.bearer(); err != nil {
		return err
	}
	if e.token != "" && e.tls == nil && !isLoopback(e.base.Hostname()) {
		return errors.New("the token would be sent in clear text; use https")
	}
	return nil
}

func isLoopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}

func (c config) bearer() (string, error) {
	token, from := c.token, "POLYCUBECTL_TOKEN" //nolint:gosec // the variable's name, not a token
	if token == "" && c.tokenFile != "" {
		from = "tokenfile " + c.tokenFile
		data, err := os.ReadFile(c.tokenFile)
		if err != nil {
			return "", fmt.Errorf("tokenfile: %w", err)
		}
		if token = strings.TrimSpace(string(data)); token == "" {
			return "", fmt.Errorf("%s is empty", from)
		}
	}
	odd := func(r rune) bool { return r <= ' ' || r > '~' }
	if len(token) > maxSecret || strings.ContainsFunc(token, odd) {
		return "", fmt.Errorf("%s does not contain a token", from)
	}
	return token, nil
}
