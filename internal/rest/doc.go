// SPDX-License-Identifier: Apache-2.0

// Package rest serves the API /polycube/v1 over HTTP. Nothing in it depends on a particular service: the resources,
// their methods, their help and their metrics are read from the models at the time of the request.
//
// A request passes, in this order: package front (the connection's identity, the client's rate, its role, the limit on
// concurrent requests), the path parser, the router of this package, the limits of the body, and then the Manager,
// which owns every cube. One function maps errors to statuses and to one JSON format.
//
// Each package below owns one part of the state and serves one kind of resource:
//
//	message    paths, bodies, errors and JSON; no state
//	resource   what a URL names within a cube; no state
//	directory  what exists by its name
//	help       OPTIONS: help and completion
//	front      connections, clients, rates and slots
//	observe    status, metrics, drops, events, packets
//	describe   the OpenAPI document
//	services   services that come and go
//	config     the configuration as a document, and its history
//	cubes      what models describe
package rest
