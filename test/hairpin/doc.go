// SPDX-License-Identifier: Apache-2.0

// Package hairpin tests what a router and a nat do together: hosts inside reach each other by addresses of the router itself,
// whose ports are forwarded (RFC 4787, REQ-9).
package hairpin
