// SPDX-License-Identifier: Apache-2.0

// Package haproxy says which frontends of an HAProxy configuration a load balancer in the kernel can do alone, and for each of
// the others which lines prevent it.
//
//	conf, err := haproxy.Parse(haproxy.File{Name: "haproxy.cfg", Text: text})
//	for _, f := range conf.Analyse() {
//		if len(f.Reasons) == 0 { /* f.Services, f.Servers, f.Check */ }
//		for _, r := range f.Reasons { fmt.Println(r) } // haproxy.cfg:12: acl: …
//	}
//
// A frontend can be taken over if it does nothing that needs the bytes of a connection: mode tcp, one default_backend, addresses
// that are known, and servers that are connected to plainly. Every word of its sections, of its backend and of the defaults
// that both inherit is known to have no effect on that, or it is a reason. What this package does not know is a reason, too, so a newer
// HAProxy's word never gets lost. What is lost without harm, such as logs, is a note.
//
// The language is that of HAProxy 2.6: quotes, escapes, comments, named defaults and `from`. Environment variables are not
// expanded, and a line that has one is a reason; so are conditional blocks, for every frontend.
package haproxy
