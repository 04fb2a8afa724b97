// SPDX-License-Identifier: Apache-2.0

// Package rest serves the API /polycube/v1 over HTTP. Nothing in it knows a service: the
// resources, their methods, their help and their metrics are read from the models at the
// time of the request.
//
// A request passes, in this order: the connection's identity (peer credentials on the
// Unix sockets; certificate, Host, Origin and token on TCP), the client's rate, its role,
// the limit on concurrent requests, the path's parser, the router, the body's limits, and
// then the Manager, which owns every cube. One function turns errors into statuses and one shape of JSON.
package rest
