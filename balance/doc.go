// SPDX-License-Identifier: Apache-2.0

// Package balance is the control plane of <pcn/balance.h> and <pcn/balance_pins.h>: the tables that assign
// flows to the servers of a pool, the numbers of servers, and the pins that keep flows on their servers.
//
// Identical pools share a table. A table is written completely before a service refers to it, so packets see either the
// old or the new one, and the memory of the old one is reused a second later, when no packet can still be reading it.
package balance
