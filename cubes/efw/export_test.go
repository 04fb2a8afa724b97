// SPDX-License-Identifier: Apache-2.0

package efw

// Asked is the number of hosts whose tables of iptables-legacy are looked at.
func Asked() int {
	pollers.Lock()
	defer pollers.Unlock()
	return len(pollers.of)
}
