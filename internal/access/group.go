// SPDX-License-Identifier: Apache-2.0

package access

// Who may read and who may change is said by system groups, by name.

import (
	"os/user"
	"strconv"
)

// GroupID returns the number of a system group, -1 when there is none.
func GroupID(name string) int {
	g, err := user.LookupGroup(name)
	if err != nil {
		return -1
	}
	id, err := strconv.Atoi(g.Gid)
	if err != nil {
		return -1
	}
	return id
}
