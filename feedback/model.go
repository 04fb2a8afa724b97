// SPDX-License-Identifier: Apache-2.0

package feedback

// The Go types of the YANG module polycube-feedback.

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"time"

	"github.com/polycube/polycube/cube"
)

// Config is the grouping `feedback`. Times are milliseconds, shares percent.
type Config struct {
	Method    Method     `json:"method"`
	Port      uint16     `json:"port"`
	Interval  uint32     `json:"interval"`
	Timeout   uint32     `json:"timeout"`
	Misses    uint8      `json:"misses"`
	Target    Target     `json:"target"`
	Gain      uint16     `json:"gain"`
	Scale     uint8      `json:"scale"`
	Smoothing uint8      `json:"smoothing"`
	Threshold uint8      `json:"threshold"`
	Ratios    Ratios     `json:"ratios"`
	Processes uint32     `json:"max-processes"`
	SNMP      SNMPConfig `json:"snmp"`
	HTTP      HTTPConfig `json:"http"`
}

// Ratios are how much each part counts in the load of a server.
type Ratios struct {
	CPU       uint8 `json:"cpu"`
	Load      uint8 `json:"load"`
	Memory    uint8 `json:"memory"`
	Processes uint8 `json:"processes"`
}

// SNMPConfig is the container `snmp`.
type SNMPConfig struct {
	Version     Version `json:"version"`
	Community   string  `json:"community"`
	User        string  `json:"user"`
	Auth        Auth    `json:"auth"`
	Priv        Priv    `json:"priv"`
	Credentials string  `json:"credentials"`
}

// HTTPConfig is the container `http`.
type HTTPConfig struct {
	Path string `json:"path"`
	Host string `json:"host"`
}

// Method is how agents are asked.
type Method uint32

// The methods.
const (
	None Method = iota
	SNMP
	Agent
	HTTP
)

// UnmarshalText parses the name in models.
func (m *Method) UnmarshalText(text []byte) (err error) {
	*m, err = cube.Enum[Method]("method", text, "NONE", "SNMP", "AGENT", "HTTP")
	return err
}

// Version is the version of SNMP.
type Version uint32

// The versions.
const (
	V2C Version = iota
	V3
)

// UnmarshalText parses the name in models.
func (v *Version) UnmarshalText(text []byte) (err error) {
	*v, err = cube.Enum[Version]("version", text, "V2C", "V3")
	return err
}

// Auth is how messages of SNMPv3 are authenticated.
type Auth uint32

// The protocols of authentication.
const (
	NoAuth Auth = iota
	SHA
	SHA256
	SHA512
)

// UnmarshalText parses the name in models.
func (a *Auth) UnmarshalText(text []byte) (err error) {
	*a, err = cube.Enum[Auth]("auth", text, "NONE", "SHA", "SHA256", "SHA512")
	return err
}

// Priv is how messages of SNMPv3 are encrypted.
type Priv uint32

// The protocols of encryption.
const (
	NoPriv Priv = iota
	AES
)

// UnmarshalText parses the name in models.
func (p *Priv) UnmarshalText(text []byte) (err error) {
	*p, err = cube.Enum[Priv]("priv", text, "NONE", "AES")
	return err
}

// Target is the load that weights aim at, in percent; 0: the average of the servers.
type Target uint8

// UnmarshalJSON parses AVERAGE or a number.
func (t *Target) UnmarshalJSON(data []byte) error {
	if string(data) == `"AVERAGE"` {
		*t = 0
		return nil
	}
	n, err := strconv.ParseUint(string(data), 10, 8)
	if err != nil || n == 0 || n > 100 {
		return fmt.Errorf("target %s: want AVERAGE or 1 to 100: %w", data, cube.ErrInvalid)
	}
	*t = Target(n)
	return nil
}

// MarshalJSON writes the form of the model.
func (t Target) MarshalJSON() ([]byte, error) {
	if t == 0 {
		return []byte(`"AVERAGE"`), nil
	}
	return strconv.AppendUint(nil, uint64(t), 10), nil
}

// Enabled reports whether weights follow the load. Without a configuration they do not.
func (c *Config) Enabled() bool { return c != nil && c.Method != None }

// Validate refuses a configuration that contradicts itself.
func (c *Config) Validate() error {
	if !c.Enabled() {
		return nil
	}
	var why error
	s := &c.SNMP
	switch {
	case c.Timeout > c.Interval:
		why = errors.New("timeout is more than interval")
	case c.Method == Agent && c.Port == 0:
		why = errors.New("method AGENT needs port: the protocol has no port of its own")
	case c.Method == SNMP && c.Ratios == Ratios{}:
		why = errors.New("all ratios are 0: at least one part has to count")
	case c.Method != SNMP || s.Version == V2C:
	case s.User == "":
		why = errors.New("version V3 needs user")
	case s.Priv != NoPriv && s.Auth == NoAuth:
		why = errors.New("priv needs auth: SNMPv3 has no encryption without authentication")
	case s.Auth != NoAuth && s.Credentials == "":
		why = errors.New("auth needs credentials, the file with the passphrases")
	}
	if why != nil {
		return fmt.Errorf("feedback: %w: %w", why, cube.ErrInvalid)
	}
	return nil
}

// target returns the address of the agent of a server, which is that of the server unless `agent` is valid.
func (c *Config) target(server netip.AddrPort, agent netip.Addr) netip.AddrPort {
	address, port := server.Addr(), server.Port()
	if agent.IsValid() {
		address = agent
	}
	if c.Method == SNMP {
		port = snmpPort
	}
	if c.Port != 0 {
		port = c.Port
	}
	return netip.AddrPortFrom(address, port)
}

func (c *Config) interval() time.Duration { return time.Duration(c.Interval) * time.Millisecond }

// State is what is known of a server's agent.
type State string

// The states of an agent.
const (
	Waiting     State = "WAITING"
	Following   State = "FOLLOWING"
	Unreachable State = "UNREACHABLE"
)

// View is the container `feedback` of the grouping `feedback-state`.
type View struct {
	State      State  `json:"state"`
	Load       string `json:"load,omitempty"`
	Weight     string `json:"effective-weight"`
	LastAnswer string `json:"last-answer,omitempty"`
	LastError  string `json:"last-error,omitempty"`
}
