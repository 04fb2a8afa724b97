// SPDX-License-Identifier: Apache-2.0

package access

// Role is what a client may do.
type Role uint8

// The roles, each with the rights of the previous one.
const (
	// None has no rights.
	None Role = iota
	// Reader can read configuration, state and metrics.
	Reader
	// Admin has full access, which on this machine is as much as root has.
	Admin
)

// String is the role's name in messages and in the audit log.
func (r Role) String() string {
	switch r {
	case Reader:
		return "read-only"
	case Admin:
		return "admin"
	case None:
	}
	return "none"
}
