// SPDX-License-Identifier: Apache-2.0

package efw

// Asked is the number of hosts whose tables of iptables-legacy are looked at.
func Asked() int {
	pollers.Lock()
	defer pollers.Unlock()
	return len(pollers.of)
}

// FollowSwaps tells when a table of iptables-legacy is swapped, until stop.
func FollowSwaps(tell func()) (stop func() error, err error) {
	s, err := followSwaps(swapFunction, tell)
	if err != nil {
		return nil, err
	}
	return s.close, nil
}
