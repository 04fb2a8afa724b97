// SPDX-License-Identifier: Apache-2.0

// Package table is the table of connections that programs use with <pcn/conntrack.h>: it sets up the memory, removes
// connections that have expired or ended, lists them, and sets what zones may have.
//
// All cubes share one table, which the framework pins, so it outlives the daemon. Programs open connections and mark
// their end; only a Table removes them, since memory that programs may still read must not be used again before a grace
// period (docs/adr/0048-connection-table.md). Half-open connections are in a small table of their own, where a new one
// takes the place of the oldest. A cube that defines PCN_CONNTRACK_OWN has a table of its own, without these.
package table
