// SPDX-License-Identifier: Apache-2.0

// Package neigh resolves the MAC addresses of neighbours, by ARP and by neighbour discovery alike, for cubes with IP
// addresses of their own. Table asks for neighbours, holds the packets that wait for an answer, and keeps what was learned
// up to date (RFC 4861 7.3, RFC 1122 2.3.2). Claims checks, announces and defends the cube's own addresses (RFC 5227, RFC
// 4862).
//
// It has no clock, no socket and no map of its own: time comes as an argument and all else goes through a Host, or an
// Announcer, so that an hour is a test of a microsecond. What strangers can make it hold is bounded in each direction: by
// neighbour, by the port where packets come from, by their source and in total. It is not safe for concurrent use.
package neigh
