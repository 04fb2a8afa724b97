// SPDX-License-Identifier: Apache-2.0

// One request and its response. Errors of the connection are explained with the address and the remedy, because
// "connection refused" is the first thing that a new user sees.

package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/polycube/polycube/internal/cli/output"
	"github.com/polycube/polycube/internal/suggest"
)

const (
	maxAnswer    = 64 << 20
	maxRedirects = 3
	dialTimeout  = 5 * time.Second
	maxDebugBody = 64 << 10
)

// answer is a complete response.
type answer struct {
	status int
	line   string // the HTTP status line
	body   []byte
	tag    string // the entity tag, "" if there is none
	// next are the parameters of the next page, nil for the last one.
	next url.Values
}

func (a answer) ok() bool { return a.status >= 200 && a.status < 300 }

// redirectError is a redirect of the daemon that is not followed.
type redirectError struct{ message string }

func (e *redirectError) Error() string { return e.message }

type client struct {
	end   endpoint
	http  *http.Transport // not http.Client, which follows redirects itself
	debug io.Writer       // nil: off
	try   string          // for how many seconds changes are on trial, "" if they are not
	// onTrial is set once a change that a request has made is on trial.
	onTrial *bool

	mu   sync.Mutex
	conn net.Conn // the last connection
}

func newClient(e endpoint, debug io.Writer) *client {
	c := &client{end: e, debug: debug, onTrial: new(bool)}
	c.http = &http.Transport{
		DisableCompression:     true,
		MaxResponseHeaderBytes: 64 << 10,
		TLSClientConfig:        e.tls,
		TLSHandshakeTimeout:    dialTimeout,
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := e.dial(ctx, network, addr)
			c.mu.Lock()
			defer c.mu.Unlock()
			c.conn = conn
			return conn, err
		},
	}
	return c
}

func (c *client) close() { c.http.CloseIdleConnections() }

// finish tells the daemon that nothing more will be sent, which ends a stream in an orderly way; false if that is not
// possible.
func (c *client) finish() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	half, ok := c.conn.(interface{ CloseWrite() error })
	return ok && half.CloseWrite() == nil
}

// do sends a request and follows the redirects by which the daemon inserts the service before the name of a cube:
// method, body and host stay the same.
func (c *client) do(ctx context.Context, r request) (answer, error) {
	target, err := url.Parse(c.end.base.String() + r.target())
	if err != nil {
		return answer{}, fmt.Errorf("build the URL: %w", err)
	}
	referer := ""
	for hop := 0; ; hop++ {
		a, location, err := c.once(ctx, r, target, referer)
		if err != nil || location == nil {
			return a, err
		}
		if location.Scheme != target.Scheme || location.Host != target.Host {
			return answer{}, &redirectError{fmt.Sprintf("the daemon redirects to another host, %s: the redirect is not followed", output.Clean(location.Host))}
		}
		if hop == maxRedirects {
			return answer{}, &redirectError{fmt.Sprintf("the daemon redirects more than %d times", maxRedirects)}
		}
		if location.RawQuery == "" {
			location.RawQuery = target.RawQuery
		}
		location.Fragment, location.ForceQuery = "", false
		referer, target = target.String(), location
	}
}

// once makes one exchange; location is set if it is to be followed.
func (c *client) once(ctx context.Context, r request, target *url.URL, referer string) (answer, *url.URL, error) {
	req, err := c.newRequest(ctx, r, target)
	if err != nil {
		return answer{}, nil, err
	}
	if referer != "" {
		req.Header.Set("Referer", referer)
	}
	c.trace("> "+r.method+" "+target.String(), r.body)
	resp, err := c.http.RoundTrip(req)
	if err != nil {
		return answer{}, nil, c.end.explain(err)
	}
	defer resp.Body.Close()
	a := answer{status: resp.StatusCode, line: resp.Proto + " " + resp.Status, tag: resp.Header.Get("ETag"), next: nextPage(resp.Header)}
	if a.body, err = readAnswer(resp.Body); err != nil {
		return answer{}, nil, c.end.explain(err)
	}
	c.trace("< "+a.line, a.body)
	if resp.Header.Get("Polycube-Trial") != "" {
		*c.onTrial = true
	}
	if a.status != http.StatusPermanentRedirect && a.status != http.StatusTemporaryRedirect {
		return a, nil, nil
	}
	location, err := resp.Location()
	if err != nil {
		return answer{}, nil, &redirectError{"the daemon's redirect has no valid location"}
	}
	return a, location, nil
}

// nextPage finds the next page among the links of a response.
func nextPage(h http.Header) url.Values {
	for part := range strings.SplitSeq(h.Get("Link"), ", ") {
		if target, ok := strings.CutSuffix(part, `>; rel="next"`); ok {
			if u, err := url.Parse(strings.TrimPrefix(target, "<")); err == nil {
				return u.Query()
			}
		}
	}
	return nil
}

// newRequest creates the HTTP request.
func (c *client) newRequest(ctx context.Context, r request, target *url.URL) (*http.Request, error) {
	var body io.Reader
	if r.body != nil {
		body = bytes.NewReader(r.body)
	}
	req, err := http.NewRequestWithContext(ctx, r.method, target.String(), body)
	if err != nil {
		return nil, fmt.Errorf("create the request: %w", err)
	}
	req.Header.Set("Accept", "application/yang.data+json, application/json")
	if r.accept != "" {
		req.Header.Set("Accept", r.accept)
	}
	if r.verb != "" {
		req.Header.Set("Polycube-Verb", r.verb)
	}
	if c.try != "" && r.method != http.MethodGet && r.method != http.MethodOptions {
		req.Header.Set("Polycube-Try", c.try)
	}
	if r.ifMatch != "" {
		req.Header.Set("If-Match", r.ifMatch)
	}
	req.Header.Set("User-Agent", "polycubectl/"+Version)
	if r.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.end.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.end.token)
	}
	return req, nil
}

func readAnswer(r io.Reader) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(r, maxAnswer+1))
	if err == nil && len(body) > maxAnswer {
		err = fmt.Errorf("the response is larger than %d MiB", maxAnswer>>20)
	}
	return body, err
}

// trace prints one side of the exchange if debug is on, always without the token.
func (c *client) trace(first string, body []byte) {
	if c.debug == nil {
		return
	}
	fmt.Fprintln(c.debug, output.Clean(first))
	if len(body) > 0 {
		fmt.Fprintln(c.debug, strings.TrimSuffix(output.CleanText(string(body[:min(len(body), maxDebugBody)])), "\n"))
	}
}

// dial connects to the endpoint.
func (e endpoint) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	d := net.Dialer{Timeout: dialTimeout}
	if e.socket != "" {
		return dialSocket(ctx, &d, e.socket)
	}
	return d.DialContext(ctx, network, addr)
}

// dialSocket connects to the daemon's socket, or, if the user has no access, to the read-only socket next to it.
func dialSocket(ctx context.Context, d *net.Dialer, path string) (net.Conn, error) {
	c, err := d.DialContext(ctx, "unix", path)
	if !errors.Is(err, fs.ErrPermission) {
		return c, err
	}
	if reading, readErr := d.DialContext(ctx, "unix", strings.TrimSuffix(path, ".sock")+"-read.sock"); readErr == nil {
		return reading, nil
	}
	return c, err
}

// explain turns a connection error into a message with a remedy.
func (e endpoint) explain(err error) error {
	absent := errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, fs.ErrNotExist)
	switch {
	case errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("the daemon at %s did not answer in time", e)
	case e.socket != "" && errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("permission denied on %s: run as root, or join the group polycube (polycube-read for read-only access)", e)
	case e.socket != "" && absent:
		return fmt.Errorf("cannot connect to the daemon at %s: it does not seem to be running; start it with %q%s", e, e.startCommand(),
			suggest.Question(suggest.Near(e.instance, instanceNames(""))))
	case absent:
		return fmt.Errorf("cannot connect to the daemon at %s: check that it is running and listens there (the address comes from %s)", e, e.origin)
	case e.base != nil && e.base.Scheme == "https":
		return fmt.Errorf("cannot connect to the daemon at %s: %w", e, e.explainTLS(err))
	default:
		return fmt.Errorf("cannot connect to the daemon at %s: %w", e, err)
	}
}

func (e endpoint) startCommand() string {
	if e.instance != "" {
		return "polycubed --instance " + e.instance
	}
	return "systemctl start polycubed"
}
