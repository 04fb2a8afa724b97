// SPDX-License-Identifier: Apache-2.0

package access

// System groups, by name, decide who can read and who can change.

import (
	"os/user"
	"strconv"
)

// GroupID returns the number of a system group, -1 if there is none.
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
