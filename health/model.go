// SPDX-License-Identifier: Apache-2.0

package health

// The Go types of the YANG module polycube-health.

import (
	"bytes"
	"fmt"
	"math"
	"net/netip"
	"strings"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/inet"
)

// Config is the grouping `check`. Times are milliseconds; Check returns the check of a server.
type Config struct {
	Type         Kind       `json:"type"`
	Address      netip.Addr `json:"address"`
	Port         uint16     `json:"port"`
	Interval     uint32     `json:"interval"`
	Timeout      uint32     `json:"timeout"`
	Rise         uint8      `json:"rise"`
	Fall         uint8      `json:"fall"`
	Jitter       uint8      `json:"jitter"`
	InitialState Status     `json:"initial-state"`
	HTTP         HTTPConfig `json:"http"`
	GRPC         GRPCConfig `json:"grpc"`
	TLS          TLSConfig  `json:"tls"`
}

// HTTPConfig is the container `http`.
type HTTPConfig struct {
	Method         string   `json:"method"`
	Host           string   `json:"host"`
	Path           string   `json:"path"`
	ExpectedStatus Statuses `json:"expected-status"`
	Body           string   `json:"body"`
	BodyPattern    string   `json:"body-pattern"`
}

// GRPCConfig is the container `grpc`.
type GRPCConfig struct {
	Service string `json:"service"`
	TLS     bool   `json:"tls"`
}

// TLSConfig is the container `tls`.
type TLSConfig struct {
	// Verify is a pointer, so that a configuration without it verifies.
	Verify     *bool  `json:"verify"`
	ServerName string `json:"server-name"`
	CAFile     string `json:"ca-file"`
}

// SourceConfig is the container `source` of the grouping `check-source`.
type SourceConfig struct {
	Address netip.Addr `json:"address"`
	Ports   inet.Ports `json:"ports"`
	Mark    uint32     `json:"mark"`
	Device  string     `json:"device"`
}

// Statuses is the type `http-status-match`: ranges separated by commas.
type Statuses []StatusRange

// UnmarshalJSON parses a number, or a text such as "200-299,302".
func (s *Statuses) UnmarshalJSON(data []byte) error {
	text := string(bytes.Trim(data, `"`))
	var out Statuses
	for part := range strings.SplitSeq(text, ",") {
		var r StatusRange
		if err := r.UnmarshalText([]byte(part)); err != nil {
			return fmt.Errorf("statuses %q: %w", text, err)
		}
		out = append(out, r)
	}
	*s = out
	return nil
}

// String returns the form of the model.
func (s Statuses) String() string {
	parts := make([]string, len(s))
	for i, r := range s {
		parts[i] = r.String()
	}
	return strings.Join(parts, ",")
}

// MarshalText returns the form of the model.
func (s Statuses) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText parses the name in models.
func (k *Kind) UnmarshalText(text []byte) (err error) {
	*k, err = cube.Enum[Kind]("kind of health check", text, kindNames...)
	return err
}

// MarshalText returns the name in models.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// Enabled reports whether servers are checked. Without a configuration they are not.
func (c *Config) Enabled() bool { return c != nil && c.Type != None }

// Check returns the check of a server. The address and the port are those of the configuration, or the server's.
func (c *Config) Check(server netip.AddrPort) Check {
	address, port := server.Addr(), server.Port()
	if c.Address.IsValid() {
		address = c.Address
	}
	if c.Port != 0 {
		port = c.Port
	}
	return Check{
		Kind: c.Type, Target: netip.AddrPortFrom(address, port),
		Interval: time.Duration(c.Interval) * time.Millisecond, Timeout: time.Duration(c.Timeout) * time.Millisecond,
		Rise: int(c.Rise), Fall: int(c.Fall), Jitter: int(c.Jitter), Initial: c.InitialState,
		Method: c.HTTP.Method, Host: c.HTTP.Host, Path: c.HTTP.Path, Status: c.HTTP.ExpectedStatus,
		Body: c.HTTP.Body, BodyPattern: c.HTTP.BodyPattern,
		TLS: c.GRPC.TLS, ServerName: c.TLS.ServerName, SkipVerify: c.TLS.Verify != nil && !*c.TLS.Verify, CAFile: c.TLS.CAFile,
		Service: c.GRPC.Service,
	}
}

// From returns a check that comes from this source.
func (s SourceConfig) From(c Check) Check {
	c.Source, c.SourcePorts, c.Mark, c.Device = s.Address, s.Ports, s.Mark, s.Device
	return c
}

// View is the container `health` of the grouping `health-state`.
type View struct {
	Status       Status `json:"status"`
	Since        string `json:"since,omitempty"`
	LastError    string `json:"last-error,omitempty"`
	LastCheck    string `json:"last-check,omitempty"`
	Latency      uint32 `json:"latency,omitempty"` // microseconds
	Checks       uint64 `json:"checks"`
	FailedChecks uint64 `json:"failed-checks"`
}

// View returns the state in the form of the model.
func (s State) View() View {
	moment := func(t time.Time) string {
		if t.IsZero() {
			return ""
		}
		return t.UTC().Format(time.RFC3339)
	}
	return View{
		Status: s.Status, Since: moment(s.Since), LastError: s.Error, LastCheck: moment(s.Checked),
		Latency: uint32(min(s.Latency.Microseconds(), math.MaxUint32)), Checks: s.Checks, FailedChecks: s.Failed,
	}
}
