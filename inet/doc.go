// SPDX-License-Identifier: Apache-2.0

// Package inet has the Go types of the YANG module polycube-inet: addresses, prefixes, ports, protocols, TCP flags and
// packet counters, as the models of cubes write them. Each type parses its own text, so that a model's struct needs no
// parser. A parser returns an error that wraps cube.ErrInvalid and quotes the text.
package inet
