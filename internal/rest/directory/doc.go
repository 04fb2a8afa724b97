// SPDX-License-Identifier: Apache-2.0

// Package directory finds cubes, ports, netdevs and entries of lists by name: what can stand
// where a name is wanted, and what was probably meant where a name is wrong. It reads the
// Manager and keeps nothing.
package directory
