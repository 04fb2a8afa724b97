// SPDX-License-Identifier: Apache-2.0

// Package hairpin tests a router together with a nat: internal hosts reach each other through addresses of the router
// itself, whose ports are forwarded (RFC 4787, REQ-9).
package hairpin
