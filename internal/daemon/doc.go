// SPDX-License-Identifier: Apache-2.0

// Package daemon is polycubed: it reads its options, takes the instance's lock, opens in
// dependency order what the daemon is made of, and closes it in reverse. Which data plane
// that is, is decided in wire.go alone.
package daemon
