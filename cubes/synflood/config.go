// SPDX-License-Identifier: Apache-2.0

package synflood

// The configuration in Go, which a test compares with the model, and in the form of the program.

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/polycube/polycube/bucket"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/inet"
)

// Config is the decoded configuration.
type Config struct {
	Protection         Protection         `json:"protection"`
	Threshold          uint32             `json:"threshold"`
	HoldTime           uint16             `json:"hold-time"`
	ProtectedPorts     []ProtectedPort    `json:"protected-ports"`
	ProtectedAddresses []ProtectedAddress `json:"protected-addresses"`
	MSSIPv4            uint16             `json:"mss-ipv4"`
	MSSIPv6            uint16             `json:"mss-ipv6"`
	TTL                uint8              `json:"ttl"`
	WindowScale        *uint8             `json:"window-scale"`
	ForwardSYNRate     uint32             `json:"forward-syn-rate"`
}

// ProtectedPort is an entry of the list `protected-ports`.
type ProtectedPort struct {
	Port uint16 `json:"port"`
}

// ProtectedAddress is an entry of the list `protected-addresses`.
type ProtectedAddress struct {
	Address netip.Addr `json:"address"`
}

// Protection is the leaf `protection`, with the numbers of enum synflood_protection.
type Protection uint32

// Values of Protection.
const (
	Off Protection = iota
	Auto
	On
)

var protectionNames = []string{"OFF", "AUTO", "ON"}

// UnmarshalText parses the model's value.
func (p *Protection) UnmarshalText(text []byte) (err error) {
	*p, err = cube.Enum[Protection]("protection", text, protectionNames...)
	return err
}

// settings is struct synflood_settings.
type settings struct {
	Forward          bucket.Limit
	MAC              uint64
	Hold             uint64
	Threshold        uint32
	MSS4, MSS6       uint16
	Window           uint16
	WindowScale, TTL uint8
	Options          uint8
	Available        uint8
	_                [2]uint8
}

// floodPace is struct synflood_pace.
type floodPace struct{ Second, Count, Flooded, Until uint64 }

// Values of the map `addresses`.
const (
	isLocal     = 1
	isProtected = 2
)

// Bits of settings.Options: SYNFLOOD_TIMESTAMPS and so on.
const (
	allowTimestamps = 1 << iota
	allowSACK
	allowScaling
)

// The burst of SYNs to other hosts.
const (
	burstTime    = 250 * time.Millisecond
	burstPackets = 100
)

// forwardLimit is the limit of SYNs to other hosts, zero for none.
func (c *Config) forwardLimit() (bucket.Limit, error) {
	if c.ForwardSYNRate == 0 {
		return bucket.Limit{}, nil
	}
	burst := max(c.ForwardSYNRate/uint32(time.Second/burstTime), burstPackets)
	limit, err := bucket.New(uint64(c.ForwardSYNRate), time.Second, burst)
	if err != nil {
		return limit, fmt.Errorf("forward-syn-rate: %w", err)
	}
	return limit, nil
}

// onNetdev reports whether the cube is on a netdev that exists.
func onNetdev(p cube.Parent) bool { return p.Cube == "" && p.Index != 0 && len(p.MAC) == 6 }

// settings returns what the programs need to know.
func (c *Config) settings(p cube.Parent, f facts) (settings, error) {
	s := settings{
		Hold: uint64(c.HoldTime) * uint64(time.Second), Threshold: c.Threshold, TTL: c.TTL,
		MSS4: fits(c.MSSIPv4, p.MTU, 40), MSS6: fits(c.MSSIPv6, p.MTU, 60),
		Window: f.window(), WindowScale: c.windowScale(f), Options: f.options(),
	}
	if onNetdev(p) {
		s.MAC = uint64(inet.MACOf(p.MAC))
	}
	if f.unavailable() == "" {
		s.Available = 1
	}
	var err error
	s.Forward, err = c.forwardLimit()
	return s, err
}

// fits limits a maximum segment size to what an MTU has room for after `headers` bytes.
func fits(mss uint16, mtu, headers int) uint16 {
	if mtu <= headers {
		return mss
	}
	return uint16(min(int(mss), mtu-headers))
}

// windowScale is the window scale in answers.
func (c *Config) windowScale(f facts) uint8 {
	if c.WindowScale != nil {
		return *c.WindowScale
	}
	return f.windowScale()
}

// ports returns the map `ports`: a bit for each port.
func (c *Config) ports() map[uint32]uint64 {
	words := map[uint32]uint64{}
	for _, p := range c.ProtectedPorts {
		words[uint32(p.Port/64)] |= 1 << (p.Port % 64)
	}
	return words
}

// addresses returns the map `addresses`.
func (c *Config) addresses(p cube.Parent) map[inet.Address]uint8 {
	is := map[inet.Address]uint8{}
	if onNetdev(p) {
		for _, prefix := range p.Addresses {
			value := uint8(isLocal)
			if len(c.ProtectedAddresses) == 0 {
				value |= isProtected
			}
			is[inet.AddressOf(prefix.Addr())] = value
		}
	}
	for _, a := range c.ProtectedAddresses {
		is[inet.AddressOf(a.Address)] = isLocal | isProtected
	}
	return is
}
