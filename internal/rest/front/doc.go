// SPDX-License-Identifier: Apache-2.0

// Package front decides which clients may talk to the REST API: its listeners know who is at
// the other end of a connection, and each request passes identity, rate, role and the limit
// on concurrent requests before a handler sees it. Changes and refusals are recorded.
//
// Front owns everything that is known of connections and clients; nothing here knows a cube.
package front
