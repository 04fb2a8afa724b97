// SPDX-License-Identifier: Apache-2.0

// Package yang is the management plane's view of YANG: it loads the model of a service, walks it, and keeps the
// configuration of cubes as data trees that are edited in place and validated as a whole. libyang does the work; this
// package is the only one that calls it, and the only one with cgo.
//
// A [Schema] may be used by any number of goroutines. A [Tree] and the
// [Change] values it returns belong to one goroutine at a time.
//
// JSON here is a dialect of RFC 7951: members have no module prefix and are in the order of the model, integers and
// decimals of every size are numbers, booleans are true and false, identities have no prefix, and a leaf of type empty
// is true. On input, numbers and booleans may be quoted, and the case of enums does not matter. The name of a cube is
// not part of its model: callers remove `name` from a body before they pass it on.
package yang
