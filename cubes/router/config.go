// SPDX-License-Identifier: Apache-2.0

package router

// The configuration in Go.

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/polycube/polycube/cube"
)

// Config is the decoded configuration, except for its large lists.
type Config struct {
	Ports         []Port `json:"ports"`
	Fib           string `json:"fib"`
	Shadow        bool   `json:"shadow"`
	MaxRoutes     uint32 `json:"max-routes"`
	MaxNeighbours uint32 `json:"max-neighbours"`
	Arp           Arp    `json:"arp"`
}

// Port is a port with its addresses.
type Port struct {
	cube.Port
	// IP is the primary address with its prefix length; the zero value is none.
	IP          netip.Prefix `json:"ip"`
	Secondaryip []Secondary  `json:"secondaryip"`
	Mac         string       `json:"mac,omitempty"`
	Mtu         uint32       `json:"mtu"`
	RpFilter    RPFilter     `json:"rp-filter"`
	Align       Align        `json:"align"`
	LinkDetect  bool         `json:"link-detect"`
}

// Secondary is an entry of `secondaryip`.
type Secondary struct {
	IP netip.Prefix `json:"ip"`
}

// Arp is the container `arp`.
type Arp struct {
	// AgingTime is in seconds.
	AgingTime          uint32 `json:"aging-time"`
	DuplicateDetection bool   `json:"duplicate-detection"`
}

// RPFilter is enum router_rp_filter of the program.
type RPFilter uint32

// The reverse path filters.
const (
	RPOff RPFilter = iota
	RPStrict
	RPLoose
)

// UnmarshalText parses the model's name.
func (f *RPFilter) UnmarshalText(text []byte) (err error) {
	*f, err = cube.Enum[RPFilter]("rp-filter", text, "off", "strict", "loose")
	return err
}

// Align is how a port and its netdev are aligned.
type Align uint32

// The ways of alignment. AlignBoth comes first: it is the default.
const (
	AlignBoth Align = iota
	AlignPort
	AlignOff
)

// UnmarshalText parses the model's name.
func (a *Align) UnmarshalText(text []byte) (err error) {
	*a, err = cube.Enum[Align]("align", text, "both", "port-follows-netdev", "off")
	return err
}

// Route is an entry of the list `route`.
type Route struct {
	Network   string `json:"network"`
	Nexthop   string `json:"nexthop"`
	Interface string `json:"interface,omitempty"`
	Pathcost  uint32 `json:"pathcost"`
}

// ArpEntry is a configured entry of the list `arp-table`.
type ArpEntry struct {
	Address   string `json:"address"`
	Mac       string `json:"mac"`
	Interface string `json:"interface"`
}

// addresses returns all addresses of a port, the primary one first.
func (p Port) addresses() []netip.Prefix {
	if !p.IP.IsValid() {
		return nil
	}
	all := []netip.Prefix{p.IP}
	for _, s := range p.Secondaryip {
		all = append(all, s.IP)
	}
	return all
}

// parseNeighbour parses an address of `arp-table`: an address, or a host prefix.
func parseNeighbour(text string) (netip.Addr, error) {
	if host, bits, ok := strings.Cut(text, "/"); ok {
		addr, err := netip.ParseAddr(host)
		if err != nil || bits != fmt.Sprint(addr.BitLen()) {
			return netip.Addr{}, fmt.Errorf("arp-table %s: a neighbour must be a single address, not a network: %w", text, cube.ErrInvalid)
		}
		return addr.Unmap(), nil
	}
	addr, err := netip.ParseAddr(text)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("arp-table %s: %w", text, cube.ErrInvalid)
	}
	return addr.Unmap(), nil
}
