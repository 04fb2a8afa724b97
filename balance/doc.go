// SPDX-License-Identifier: Apache-2.0

// Package balance is the control plane of <pcn/balance.h> and <pcn/balance_pins.h>: the tables that say which server of a
// pool a flow goes to, the numbers of servers, and the pins that keep flows where they are.
//
// Equal pools share a table. A table is written completely before a service refers to it, so packets see the old one or
// the new one, and the memory of the old one is used again a second later, when no packet can be reading it.
package balance
