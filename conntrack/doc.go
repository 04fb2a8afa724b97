// SPDX-License-Identifier: Apache-2.0

// Package conntrack is for cubes that track connections: the state of a connection after a packet, from the state
// before it, as programs compute it with <pcn/conntrack_state.h>; its progress without windows, as in
// <pcn/conntrack_progress.h>; the timeouts; and the names that users see. It is the same computation, and tests compare
// the two: what is explained there is not repeated here.
package conntrack
