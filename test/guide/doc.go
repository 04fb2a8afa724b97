// SPDX-License-Identifier: Apache-2.0

// Package guide tests the documentation and tools for cube authors: in a fresh copy of the repository, on a machine
// with its own daemon, from the first command to a forwarded packet.
package guide
