// SPDX-License-Identifier: Apache-2.0

package cube

// A transparent cube redirects packets to numbered outputs (pcn_pkt_redirect). The user configures their destinations; a
// model gets the list `outputs` by `uses polycube-transparent-base:redirect-outputs`. The framework reads the list from the
// configuration, as it reads the peers of ports: it checks the destinations when they are configured, and follows netdevs and
// cubes that come and go. A service has nothing to do for it. Its Config may have the list, and OutputChanged of its instance
// reports the netdevs.

// Output is an output in a transparent cube's configuration.
type Output struct {
	// Number is the argument of pcn_pkt_redirect: 0 to 15.
	Number uint8 `json:"number"`
	// To is a netdev, which sends the packets, or CUBE:PORT, which receives them.
	To string `json:"to"`
	// Received makes the netdev receive the packets instead (TC).
	Received bool `json:"received,omitempty"`
}
