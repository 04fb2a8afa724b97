// SPDX-License-Identifier: Apache-2.0

package bridge

// The configuration in Go.

import (
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/fdb"
	"github.com/polycube/polycube/inet"
)

// Config is the decoded configuration.
type Config struct {
	Ports      []Port   `json:"ports"`
	Fdb        Fdb      `json:"fdb"`
	STPEnabled bool     `json:"stp-enabled"`
	MAC        inet.MAC `json:"mac,omitempty"`
	STP        []STP    `json:"stp"`
}

// Port is an entry of the list `ports`.
type Port struct {
	cube.Port
	// MAC is 0 if the address is chosen at random.
	MAC    inet.MAC  `json:"mac,omitempty"`
	Mode   Mode      `json:"mode"`
	Access Access    `json:"access"`
	Trunk  Trunk     `json:"trunk"`
	STP    []PortSTP `json:"stp"`
}

// Mode says how many VLANs a port carries.
type Mode uint32

// The modes.
const (
	ModeAccess Mode = iota
	ModeTrunk
)

var modes = []string{ModeAccess: "access", ModeTrunk: "trunk"}

// String returns the model's name.
func (m Mode) String() string { return modes[m] }

// UnmarshalText parses the model's name.
func (m *Mode) UnmarshalText(text []byte) (err error) {
	*m, err = cube.Enum[Mode]("mode", text, modes...)
	return err
}

// Access is the container `access` of an access port.
type Access struct {
	VLANID uint16 `json:"vlanid"`
}

// Trunk is the container `trunk` of a trunk.
type Trunk struct {
	Allowed           []Allowed `json:"allowed"`
	DefaultVLAN       bool      `json:"default-vlan"`
	NativeVLANEnabled bool      `json:"native-vlan-enabled"`
	NativeVLAN        uint16    `json:"native-vlan"`
}

// Allowed is a VLAN that is allowed on a trunk.
type Allowed struct {
	VLANID uint16 `json:"vlanid"`
}

// Fdb is the container `fdb`.
type Fdb struct {
	// AgingTime is in seconds; 0 keeps learned addresses forever.
	AgingTime  uint32 `json:"aging-time"`
	MaxEntries uint32 `json:"max-entries"`
}

// Entry is a configured address. There may be many, so they are passed one by one.
type Entry struct {
	VLAN uint16   `json:"vlan"`
	MAC  inet.MAC `json:"mac"`
	Port string   `json:"port"`
}

// key is the entry's key in the fast path.
func (e Entry) key() Key { return keyOf(e.VLAN, e.MAC) }

// STP contains the parameters of the spanning tree of a VLAN.
type STP struct {
	VLAN          uint16  `json:"vlan"`
	Priority      uint16  `json:"priority"`
	ForwardDelay  uint32  `json:"forward-delay"`
	HelloTime     uint32  `json:"hello-time"`
	MaxMessageAge uint32  `json:"max-message-age"`
	ForceVersion  Version `json:"force-version"`
}

// PortSTP contains the parameters of a port in the spanning tree of a VLAN.
type PortSTP struct {
	VLAN uint16 `json:"vlan"`
	// PathCost is 0 if it follows the speed of the link.
	PathCost       uint32       `json:"path-cost"`
	PortPriority   uint8        `json:"port-priority"`
	AdminEdge      bool         `json:"admin-edge"`
	AutoEdge       bool         `json:"auto-edge"`
	PointToPoint   PointToPoint `json:"point-to-point"`
	RestrictedRole bool         `json:"restricted-role"`
	RestrictedTCN  bool         `json:"restricted-tcn"`
}

// port returns the port with a name, or nil.
func (c *Config) port(name string) *Port {
	for i := range c.Ports {
		if c.Ports[i].Name == name {
			return &c.Ports[i]
		}
	}
	return nil
}

// defaultVLAN is the initial VLAN of every port.
const defaultVLAN = 1

// untaggedVLAN returns the VLAN whose frames are untagged on the port; false for a trunk without a native VLAN.
func (p *Port) untaggedVLAN() (uint16, bool) {
	switch {
	case p.Mode == ModeAccess:
		return p.Access.VLANID, true
	case p.Trunk.NativeVLANEnabled:
		return p.Trunk.NativeVLAN, true
	}
	return 0, false
}

// members returns the set of VLANs that the port carries.
func (p *Port) members() (set vlanSet) {
	if vlan, ok := p.untaggedVLAN(); ok {
		set.add(vlan)
	}
	if p.Mode == ModeTrunk {
		if p.Trunk.DefaultVLAN {
			set.add(defaultVLAN)
		}
		for _, a := range p.Trunk.Allowed {
			set.add(a.VLANID)
		}
	}
	return set
}

// vlans returns the VLANs that the port carries, in ascending order.
func (p *Port) vlans() []uint16 {
	set := p.members()
	return set.list()
}

// aging is how long a learned address is used; 0: forever.
func (f Fdb) aging() time.Duration { return time.Duration(f.AgingTime) * time.Second }

// constants returns the values of the program's constants.
func (c *Config) constants() map[string]any {
	only, aware := c.onlyVLAN()
	values := fdb.Constants(c.Fdb.aging(), c.Fdb.MaxEntries)
	values["vlan_aware"], values["only_vlan"], values["stp_enabled"] = aware, only, c.STPEnabled
	return values
}

// onlyVLAN is the VLAN that all ports are in. aware is set if there are several VLANs, or ports that may be blocked.
func (c *Config) onlyVLAN() (only uint16, aware bool) {
	only = defaultVLAN
	for i, p := range c.Ports {
		if p.Mode == ModeTrunk || i > 0 && p.Access.VLANID != only {
			return defaultVLAN, true
		}
		only = p.Access.VLANID
	}
	if c.STPEnabled {
		return only, true
	}
	return only, false
}
