// SPDX-License-Identifier: Apache-2.0

// Package ipset reads the commands of ipset and the format of `ipset save`, and prints both as ipset does. It knows the
// language only: it has no sets. The elements of a set depend on its type, which an `add` does not say; Header.Element
// reads them.
//
// It knows the types hash:ip, hash:net, hash:ip,port, hash:net,port, hash:ip,port,ip, hash:mac, bitmap:port and
// list:set. What it does not know, it refuses.
package ipset
