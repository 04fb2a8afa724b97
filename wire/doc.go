// SPDX-License-Identifier: Apache-2.0

// Package wire parses and encodes the packets of slow paths: ARP, neighbour discovery, ICMP and ICMPv6, and IPv4
// fragments. Input is untrusted: each parser checks everything that it relies on, and its result points into the frame.
// The package has no state.
package wire
