// SPDX-License-Identifier: Apache-2.0

// Package language reads the commands of iptables and ip6tables and the format of iptables-save, and prints both as
// these programs do. It knows their language only: it neither touches the kernel nor decides what a rule becomes.
//
// ReadCommand reads one command line, ReadSave a file of iptables-save. Both give Rules of plain values: a Rule has
// the fields of the packet's header, a Match for each -m (a value of one of the types TCP, Ports, ICMP, Conntrack, ...,
// never a pointer), and a Target. Rule.String prints a rule as `iptables -S` would.
//
// What iptables refuses, this package refuses, and so it does with what it does not know: the only option without
// effect is -W, which is obsolete. Like iptables it normalises what it reads: host bits of an address are cleared, a
// --limit becomes the rate that the kernel counts with, --syn becomes --tcp-flags. Unlike iptables it
//
//   - refuses what can never match: negations of everything (`! -i +`, `! -s 0/0`, `! --dport 0:65535`), of which
//     iptables loses the `!`, and reversed ranges;
//   - refuses text that iptables would cut, such as a --log-prefix of 30 bytes;
//   - accepts patterns of -m string of at most 64 bytes;
//   - resolves no host names.
//
// Whether a chain or a set exists is not known here, and a burst that overflows the kernel's arithmetic is accepted.
//
// The order of options matters as in iptables: --dport is known only after -p tcp or -m tcp, --reject-with after -j
// REJECT.
package language
