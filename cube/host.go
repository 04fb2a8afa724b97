// SPDX-License-Identifier: Apache-2.0

package cube

import "net"

// Host is an Env that knows the machine. Those of services that are processes of their own do not.
type Host interface {
	// OwnStation says whether the stack of the machine that the daemon runs on sends from a MAC address: it is that of a
	// netdev without a cube. On every link Linux answers for all addresses that the machine has on any.
	OwnStation(mac net.HardwareAddr) bool
}

// OwnStation asks an Env for that; one that does not know says no.
func OwnStation(env Env, mac net.HardwareAddr) bool {
	h, ok := env.(Host)
	return ok && h.OwnStation(mac)
}
