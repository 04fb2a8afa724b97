// SPDX-License-Identifier: Apache-2.0

// Package observe serves the state of the daemon and its cubes: status, probes, metrics, counters, drops, events, and
// packet streams. Observer owns the slots of clients that follow events, Packets owns the trace and capture sessions.
package observe
