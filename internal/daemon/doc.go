// SPDX-License-Identifier: Apache-2.0

// Package daemon is polycubed: it reads its options, takes the instance's lock, opens the parts of the daemon in
// dependency order, and closes them in reverse. Only wire.go decides which data plane is used.
package daemon
