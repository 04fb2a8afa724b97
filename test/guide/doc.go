// SPDX-License-Identifier: Apache-2.0

// Package guide tests what is offered to those who write cubes, as they meet it: in a fresh
// copy of the repository, on a machine with a daemon of its own, from the first command to a
// forwarded packet.
package guide
