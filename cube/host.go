// SPDX-License-Identifier: Apache-2.0

package cube

import "net"

// Host is an Env that has information about the host. Those of external services do not.
type Host interface {
	// OwnStation reports whether the host's stack sends from a MAC address: whether it belongs to a netdev without
	// a cube. On every link Linux answers for all addresses of the host, whatever the interface.
	OwnStation(mac net.HardwareAddr) bool
}

// OwnStation queries an Env; the answer is false if it does not know.
func OwnStation(env Env, mac net.HardwareAddr) bool {
	h, ok := env.(Host)
	return ok && h.OwnStation(mac)
}
