// SPDX-License-Identifier: Apache-2.0

package inet

// Classes of queueing disciplines.

import (
	"fmt"

	"github.com/polycube/polycube/cube"
)

// QueueClass is a class of a queueing discipline, such as htb: major and minor number, as the priority of an skb has them. The
// type `queue-class`.
type QueueClass uint32

// UnmarshalText parses a class as tc writes it: 1:a0.
func (q *QueueClass) UnmarshalText(text []byte) error {
	var major, minor uint16
	if _, err := fmt.Sscanf(string(text), "%x:%x", &major, &minor); err != nil {
		return fmt.Errorf("class %.40q: want MAJOR:MINOR, as tc writes classes: %w", text, cube.ErrInvalid)
	}
	*q = QueueClass(uint32(major)<<16 | uint32(minor))
	return nil
}
