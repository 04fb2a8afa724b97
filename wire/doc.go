// SPDX-License-Identifier: Apache-2.0

// Package wire reads and writes the packets of slow paths: ARP, neighbour discovery, ICMP and ICMPv6, and fragments of
// IPv4. What is read was sent by anybody: each parser checks all that it relies on, and what it returns points into the
// frame. Nothing here keeps state.
package wire
