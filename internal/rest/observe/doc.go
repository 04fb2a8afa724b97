// SPDX-License-Identifier: Apache-2.0

// Package observe answers for how the daemon and its cubes are: status, probes, metrics,
// counters, drops, events, and streams of packets. Observer owns the places of clients that
// follow events, Packets the sessions that look at packets.
package observe
