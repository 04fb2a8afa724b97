// SPDX-License-Identifier: Apache-2.0

// Package front decides which clients can use the REST API: its listeners identify the other end of a connection, and
// each request passes checks of identity, rate, role and the limit on concurrent requests before it reaches a handler.
// Changes and refusals are recorded in the audit log.
//
// Front owns all state of connections and clients; nothing here knows about cubes.
package front
