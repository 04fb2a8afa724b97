// SPDX-License-Identifier: Apache-2.0

package health

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/inet"
)

func TestChecksThatAreRefused(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty.pem")
	if err := os.WriteFile(empty, []byte("nothing"), 0o644); err != nil {
		t.Fatal(err)
	}
	for why, change := range map[string]func(*Check){
		"kind 7":                      func(c *Check) { c.Kind = API + 1 },
		"interval 50ms":               func(c *Check) { c.Interval = 50 * time.Millisecond },
		"interval 2h0m0s":             func(c *Check) { c.Interval = 2 * time.Hour },
		"use a timeout of at most":    func(c *Check) { c.Interval, c.Timeout = time.Second, 2*time.Second },
		"timeout 1ms":                 func(c *Check) { c.Timeout = time.Millisecond },
		"rise -1":                     func(c *Check) { c.Rise = -1 },
		"fall 101":                    func(c *Check) { c.Fall = 101 },
		"jitter 51 %":                 func(c *Check) { c.Jitter = 51 },
		"initial state 3":             func(c *Check) { c.Initial = 3 },
		"no address":                  func(c *Check) { c.Target = netip.AddrPort{} },
		"no port":                     func(c *Check) { c.Target = netip.AddrPortFrom(c.Target.Addr(), 0) },
		"is not a valid server":       func(c *Check) { c.Target = netip.MustParseAddrPort("224.0.0.1:80") },
		"address :: is not":           func(c *Check) { c.Target = netip.MustParseAddrPort("[::]:80") },
		"different address families":  func(c *Check) { c.Source = netip.MustParseAddr("fd00::1") },
		"is not a unicast address":    func(c *Check) { c.Source = netip.MustParseAddr("224.0.0.1") },
		"source ports 9-8":            func(c *Check) { c.SourcePorts = inet.Ports{First: 9, Last: 8} },
		`device "a/b"`:                func(c *Check) { c.Device = "a/b" },
		`device "0123456789abcdef"`:   func(c *Check) { c.Device = "0123456789abcdef" },
		`HTTP method "GET /"`:         func(c *Check) { c.Method = "GET /" },
		`HTTP path "health"`:          func(c *Check) { c.Path = "health" },
		`HTTP path "/ HTTP/1.1\r\nX"`: func(c *Check) { c.Path = "/ HTTP/1.1\r\nX" },
		`HTTP host "a\nb"`:            func(c *Check) { c.Host = "a\nb" },
		"HTTP status 99":              func(c *Check) { c.Status = []StatusRange{{99, 100}} },
		"body-pattern: error":         func(c *Check) { c.BodyPattern = "(" },
		"at most 1024 characters":     func(c *Check) { c.Service = strings.Repeat("x", 1025) },
		"no such file":                func(c *Check) { c.Kind, c.CAFile = HTTPS, filepath.Join(dir, "none") },
		"is not a regular file":       func(c *Check) { c.Kind, c.CAFile = HTTPS, dir },
		"contains no PEM":             func(c *Check) { c.Kind, c.TLS, c.CAFile = GRPC, true, empty },
	} {
		c := Check{Kind: HTTP, Target: netip.MustParseAddrPort("10.0.0.2:80")}
		change(&c)
		if err := c.Validate(); !errors.Is(err, cube.ErrInvalid) || !strings.Contains(err.Error(), why) {
			t.Errorf("%v, want %q", err, why)
		}
	}
}

func TestDefaultsOfChecks(t *testing.T) {
	p := prepare(t, Check{Kind: HTTP})
	want := "GET / HTTP/1.1\r\nHost: 10.0.0.2:80\r\nUser-Agent: polycube-health\r\nAccept: */*\r\n\r\n"
	if string(p.request) != want || p.Interval != 5*time.Second || p.Timeout != 2*time.Second || p.Rise != 2 || p.Fall != 3 ||
		!p.accepts(200) || !p.accepts(299) || p.accepts(300) || p.accepts(199) || p.ServerName != "10.0.0.2" {
		t.Errorf("%q %+v", p.request, p)
	}
	if p := prepare(t, Check{Kind: TCP, Interval: time.Second}); p.Timeout != time.Second {
		t.Errorf("timeout %v", p.Timeout)
	}
	for host, name := range map[string]string{"a.test": "a.test", "a.test:8443": "a.test", "[fd00::1]:8443": "fd00::1", "": "10.0.0.2"} {
		if p := prepare(t, Check{Kind: HTTPS, Host: host}); p.ServerName != name {
			t.Errorf("host %q: server name %q, want %q", host, p.ServerName, name)
		}
	}
	if p := prepare(t, Check{Kind: HTTP, Method: "POST"}); !strings.Contains(string(p.request), "\r\nContent-Length: 0\r\n") {
		t.Errorf("%q", p.request)
	}
	mapped := Check{Kind: TCP, Target: netip.MustParseAddrPort("[::ffff:10.0.0.2]:80")}
	if q, err := mapped.prepare(); err != nil || !q.Target.Addr().Is4() {
		t.Errorf("%v, %v", q, err)
	}
}

func TestStatusRangesParseTheirOwnText(t *testing.T) {
	for _, text := range []string{"200", "200-299", "100-599"} {
		var r StatusRange
		if err := r.UnmarshalText([]byte(text)); err != nil || r.String() != text {
			t.Errorf("%q: %v, %v", text, r, err)
		}
	}
	for _, text := range []string{"", "99", "600", "300-200", "200-", "-200", "2xx", "200-299-300", "+200"} {
		var r StatusRange
		if err := r.UnmarshalText([]byte(text)); !errors.Is(err, cube.ErrInvalid) || r != (StatusRange{}) {
			t.Errorf("%q: %v, %v", text, r, err)
		}
	}
}

// TestWhichChangesRestartACheck: a change of any of them restarts the check, but for times and counts.
func TestWhichChangesRestartACheck(t *testing.T) {
	base := Check{Kind: HTTP}
	for _, c := range []Check{
		{Kind: TCP}, {Kind: HTTP, Path: "/x"}, {Kind: HTTP, Host: "x"}, {Kind: HTTP, Status: []StatusRange{{200, 200}}}, {Kind: HTTP, Body: "x"},
		{Kind: HTTP, Mark: 1}, {Kind: HTTP, Device: "x"}, {Kind: HTTP, SourcePorts: inet.Ports{First: 1, Last: 1}}, {Kind: HTTP, SkipVerify: true},
		{Kind: HTTP, Source: netip.MustParseAddr("10.0.0.1")}, {Kind: HTTP, Service: "x"}, {Kind: HTTP, TLS: true},
	} {
		if prepare(t, base).sameProbe(prepare(t, c)) {
			t.Errorf("%+v is taken for the same", c)
		}
	}
	same := Check{Kind: HTTP, Interval: time.Second, Rise: 9, Fall: 9, Jitter: 9, Initial: Up, Known: true, Status: slices.Clone([]StatusRange{{200, 299}})}
	if !prepare(t, base).sameProbe(prepare(t, same)) {
		t.Error("a change of times restarts the check")
	}
}

func TestNamesOfEnums(t *testing.T) {
	for _, s := range []Status{Unknown, Up, Down} {
		text, _ := s.MarshalText()
		var back Status
		if err := back.UnmarshalText(text); err != nil || back != s {
			t.Errorf("%s: %v, %v", text, back, err)
		}
	}
	if s := Status(9).String(); s != "?" {
		t.Error(s)
	}
	var s Status
	if err := s.UnmarshalText([]byte("up")); !errors.Is(err, cube.ErrInvalid) {
		t.Error(err)
	}
}
