// SPDX-License-Identifier: Apache-2.0

package health

// What to check, and how.

import (
	"crypto/x509"
	"fmt"
	"net/netip"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/inet"
)

// Kind is how a server is checked.
type Kind uint32

// The kinds of checks.
const (
	// None does not check: the server is up.
	None Kind = iota
	// TCP connects.
	TCP
	// HTTP sends a request (HTTP/1.1) and judges the status, and the body if Body or BodyPattern is set.
	HTTP
	// HTTPS is HTTP over TLS.
	HTTPS
	// GRPC calls grpc.health.v1.Health/Check, over TLS if TLS is set.
	GRPC
	// ICMP sends an echo request.
	ICMP
	// API does not check: Checker.Report sets the state.
	API
)

// Methods of HTTP checks.
var methods = []string{"GET", "HEAD", "OPTIONS", "POST"}

var kindNames = []string{"NONE", "TCP", "HTTP", "HTTPS", "GRPC", "ICMP", "API"}

// String returns the name in models.
func (k Kind) String() string { return nameOf(kindNames, int(k)) }

// Check says what to check, and how. The zero value of a member is its default.
type Check struct {
	Kind Kind
	// Target is where the server answers; ICMP does not use the port, None and API use neither. A zone names a device.
	Target netip.AddrPort

	// Interval is the time from the start of a check to that of the next: 100 ms to 1 h, 5 s by default.
	Interval time.Duration
	// Timeout is how long a check may take, at most Interval: by default the smaller of Interval and 2 s. The last two of Fall
	// failing checks get at most half an interval each.
	Timeout time.Duration
	// Rise and Fall are how many successes in a row make a server up, and how many failures make it down: 2 and 3 by
	// default, at most 100.
	Rise, Fall int
	// Jitter is the percentage of Interval by which a check may start earlier, at random: at most 50.
	Jitter int
	// Initial is the status before the first result.
	Initial Status
	// Known says that Initial is what earlier checks found, as before a restart: the first result does not count at once.
	Known bool

	// Source is the address to send from, SourcePorts the ports. By default, the kernel chooses. The first of the ports is
	// the identifier of echo requests of ICMP, where the kernel lets it be chosen: with raw sockets.
	Source      netip.Addr
	SourcePorts inet.Ports
	// Mark is the SO_MARK of packets, Device the netdev (or VRF) that they leave by.
	Mark   uint32
	Device string

	// Method is GET by default; Host is the Host header, by default the target; Path begins with a slash and is / by
	// default; Status are the statuses that count as a success, 200-299 by default.
	Method, Host, Path string
	Status             []StatusRange
	// Body is a text that the first 16 KiB of the body must contain, BodyPattern a regular expression that must match them.
	Body, BodyPattern string

	// TLS encrypts GRPC; HTTPS always is.
	TLS bool
	// ServerName is the name in the certificate, and of SNI: by default the name in Host, otherwise the address of the
	// target. SkipVerify accepts any certificate. CAFile has the authorities in PEM instead of the system's; Set reads it.
	ServerName string
	SkipVerify bool
	CAFile     string

	// Service is the name of the gRPC service; empty means the server as a whole.
	Service string
}

// StatusRange is a range of HTTP statuses, both ends included.
type StatusRange struct{ First, Last int }

// String returns the form of models: a status, or FIRST-LAST.
func (r StatusRange) String() string {
	if r.First == r.Last {
		return strconv.Itoa(r.First)
	}
	return fmt.Sprintf("%d-%d", r.First, r.Last)
}

// UnmarshalText parses a status, or FIRST-LAST.
func (r *StatusRange) UnmarshalText(text []byte) error {
	first, last, ok := strings.Cut(string(text), "-")
	if !ok {
		last = first
	}
	low, err1 := strconv.ParseUint(first, 10, 16)
	high, err2 := strconv.ParseUint(last, 10, 16)
	if err1 != nil || err2 != nil || low < 100 || high > 599 || low > high {
		return fmt.Errorf("HTTP status %q: use a number from 100 to 599, or a range such as 200-299: %w", text, cube.ErrInvalid)
	}
	*r = StatusRange{int(low), int(high)}
	return nil
}

// MarshalText returns the form of models.
func (r StatusRange) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// Defaults and limits of checks.
const (
	defaultInterval = 5 * time.Second
	minInterval     = 100 * time.Millisecond
	maxInterval     = time.Hour
	defaultTimeout  = 2 * time.Second
	minTimeout      = 10 * time.Millisecond
	defaultRise     = 2
	defaultFall     = 3
	maxCount        = 100
	maxJitter       = 50
	maxText         = 1024
	maxDevice       = 15
	maxCAFile       = 1 << 20
)

// prepared is a valid check with its defaults, and what is computed from it once.
type prepared struct {
	Check
	request []byte
	pattern *regexp.Regexp
	roots   *x509.CertPool
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("health check: %s: %w", fmt.Sprintf(format, args...), cube.ErrInvalid)
}

// Validate returns an error that wraps cube.ErrInvalid if Set would refuse the check. It reads CAFile.
func (c Check) Validate() error {
	_, err := c.prepare()
	return err
}

func (c Check) prepare() (*prepared, error) {
	if c.Kind > API {
		return nil, invalid("kind %d: use None, TCP, HTTP, HTTPS, GRPC, ICMP or API", c.Kind)
	}
	c.defaults()
	for _, check := range []func() error{c.checkTimes, c.checkTarget, c.checkSource, c.checkHTTP} {
		if err := check(); err != nil {
			return nil, err
		}
	}
	p := &prepared{Check: c}
	if c.BodyPattern != "" {
		var err error
		if p.pattern, err = regexp.Compile(c.BodyPattern); err != nil {
			return nil, invalid("body-pattern: %v", err)
		}
	}
	if c.CAFile != "" && (c.Kind == HTTPS || c.Kind == GRPC && c.TLS) {
		var err error
		if p.roots, err = readAuthorities(c.CAFile); err != nil {
			return nil, err
		}
	}
	p.request = []byte(c.Method + " " + c.Path + " HTTP/1.1\r\nHost: " + c.Host +
		"\r\nUser-Agent: polycube-health\r\nAccept: */*\r\n")
	if c.Method == "POST" {
		p.request = append(p.request, "Content-Length: 0\r\n"...)
	}
	p.request = append(p.request, "\r\n"...)
	return p, nil
}

func (c *Check) defaults() {
	set := func(d *time.Duration, to time.Duration) {
		if *d == 0 {
			*d = to
		}
	}
	set(&c.Interval, defaultInterval)
	set(&c.Timeout, min(c.Interval, defaultTimeout))
	if c.Rise == 0 {
		c.Rise = defaultRise
	}
	if c.Fall == 0 {
		c.Fall = defaultFall
	}
	if c.Method == "" {
		c.Method = "GET"
	}
	if c.Path == "" {
		c.Path = "/"
	}
	c.Target = netip.AddrPortFrom(c.Target.Addr().Unmap(), c.Target.Port())
	if c.ServerName == "" {
		c.ServerName = c.Target.Addr().WithZone("").String()
		if name := hostName(c.Host); name != "" {
			c.ServerName = name
		}
	}
	if c.Host == "" && c.Target.IsValid() {
		c.Host = netip.AddrPortFrom(c.Target.Addr().WithZone(""), c.Target.Port()).String()
	}
	if len(c.Status) == 0 {
		c.Status = []StatusRange{{200, 299}}
	}
	c.Status = slices.Clone(c.Status)
	c.Source = c.Source.Unmap()
}

// hostName is a Host header without its port.
func hostName(host string) string {
	if strings.HasPrefix(host, "[") {
		name, _, _ := strings.Cut(host[1:], "]")
		return name
	}
	name, _, _ := strings.Cut(host, ":")
	return name
}

func (c *Check) checkTimes() error {
	switch {
	case c.Interval < minInterval || c.Interval > maxInterval:
		return invalid("interval %v: use %v to %v", c.Interval, minInterval, maxInterval)
	case c.Timeout < minTimeout:
		return invalid("timeout %v: use at least %v", c.Timeout, minTimeout)
	case c.Timeout > c.Interval:
		return invalid("timeout %v is longer than the interval, %v: use a timeout of at most the interval", c.Timeout, c.Interval)
	case c.Rise < 1 || c.Rise > maxCount || c.Fall < 1 || c.Fall > maxCount:
		return invalid("rise %d, fall %d: use 1 to %d", c.Rise, c.Fall, maxCount)
	case c.Jitter < 0 || c.Jitter > maxJitter:
		return invalid("jitter %d %%: use 0 to %d", c.Jitter, maxJitter)
	case c.Initial > Down:
		return invalid("initial state %d: use Unknown, Up or Down", c.Initial)
	}
	return nil
}

func (c *Check) checkTarget() error {
	a := c.Target.Addr()
	switch {
	case c.Kind == API || c.Kind == None:
		return nil
	case !a.IsValid():
		return invalid("no address: set the server's address")
	case a.IsUnspecified() || a.IsMulticast():
		return invalid("address %v is not a valid server address", a)
	case c.Kind != ICMP && c.Target.Port() == 0:
		return invalid("no port: set the server's port")
	case a.Zone() != "" && len(a.Zone()) > maxDevice:
		return invalid("device %q: use a name of at most %d characters", a.Zone(), maxDevice)
	}
	return nil
}

func (c *Check) checkSource() error {
	switch {
	case c.Source.IsValid() && c.Target.IsValid() && c.Source.Is4() != c.Target.Addr().Is4():
		return invalid("source address %v and target %v are of different address families", c.Source, c.Target.Addr())
	case c.Source.IsMulticast():
		return invalid("source address %v is not a unicast address", c.Source)
	case c.SourcePorts.Last != 0 && c.SourcePorts.First == 0 || c.SourcePorts.First > c.SourcePorts.Last:
		return invalid("source ports %v: use a range such as 20000-20999", c.SourcePorts)
	case len(c.Device) > maxDevice || strings.ContainsAny(c.Device, "/ \x00"):
		return invalid("device %q: use a name of at most %d characters without spaces or slashes", c.Device, maxDevice)
	}
	return nil
}

func (c *Check) checkHTTP() error {
	if !slices.Contains(methods, c.Method) {
		return invalid("HTTP method %q: use %s", c.Method, strings.Join(methods, ", "))
	}
	if !strings.HasPrefix(c.Path, "/") || !printable(c.Path) {
		return invalid("HTTP path %q: it begins with a slash, and has only visible ASCII characters: encode others as %%20", c.Path)
	}
	if !printable(c.Host) {
		return invalid("HTTP host %q: use visible ASCII characters", c.Host)
	}
	for _, r := range c.Status {
		if r.First < 100 || r.Last > 599 || r.First > r.Last {
			return invalid("HTTP status %v: use 100 to 599", r)
		}
	}
	for _, text := range []string{c.Path, c.Host, c.Body, c.BodyPattern, c.ServerName, c.CAFile, c.Service} {
		if len(text) > maxText {
			return invalid("%.20q...: a text has at most %d characters", text, maxText)
		}
	}
	return nil
}

// printable reports whether a text can be part of a request's first lines: visible ASCII, no spaces.
func printable(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r >= 0x7f })
}

// active reports whether the thread makes checks.
func (p *prepared) active() bool { return p != nil && p.Kind != None && p.Kind != API }

// accepts reports whether a status is expected.
func (p *prepared) accepts(status int) bool {
	return slices.ContainsFunc(p.Status, func(r StatusRange) bool { return status >= r.First && status <= r.Last })
}

// expected is the list of expected statuses in an error.
func (p *prepared) expected() string {
	texts := make([]string, len(p.Status))
	for i, r := range p.Status {
		texts[i] = r.String()
	}
	return strings.Join(texts, ", ")
}

// comparesBody reports whether the body decides.
func (p *prepared) comparesBody() bool { return p.Body != "" || p.pattern != nil }

// sameProbe reports whether checks differ only in their times and counts, so that results of one count for the other.
func (p *prepared) sameProbe(q *prepared) bool {
	a, b := p.Check, q.Check
	for _, c := range []*Check{&a, &b} {
		c.Interval, c.Timeout, c.Rise, c.Fall, c.Jitter, c.Initial, c.Known = 0, 0, 0, 0, 0, 0, false
	}
	return reflect.DeepEqual(a, b)
}

// readAuthorities reads certificates in PEM.
func readAuthorities(path string) (*x509.CertPool, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, invalid("ca-file: %v", err)
	case !info.Mode().IsRegular() || info.Size() > maxCAFile:
		return nil, invalid("ca-file: %s is not a regular file of at most %d bytes", path, maxCAFile)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, invalid("ca-file: %v", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, invalid("ca-file: %s contains no PEM certificate", path)
	}
	return pool, nil
}
