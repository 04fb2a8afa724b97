// SPDX-License-Identifier: Apache-2.0

// Package neigh resolves the MAC addresses of neighbours, by ARP and by neighbour discovery alike, for cubes with their
// own IP addresses. Table sends requests to neighbours, queues packets that wait for an answer, and keeps learned
// entries up to date (RFC 4861 7.3, RFC 1122 2.3.2). Claims checks, announces and defends the cube's own addresses (RFC
// 5227, RFC 4862).
//
// It has no clock, socket or map of its own: time is an argument and all actions go through a Host, or an Announcer, so
// a test simulates an hour in a microsecond. The state that strangers can create is bounded: by neighbour, by ingress
// port, by source and in total. It is not safe for concurrent use.
package neigh
