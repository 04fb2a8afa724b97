// SPDX-License-Identifier: Apache-2.0

// Package haproxy decides which frontends of an HAProxy configuration a load balancer in the kernel can handle alone, and for each of
// the others which lines prevent it.
//
//	conf, err := haproxy.Parse(haproxy.File{Name: "haproxy.cfg", Text: text})
//	for _, f := range conf.Analyse() {
//		if len(f.Reasons) == 0 { /* f.Services, f.Servers, f.Check */ }
//		for _, r := range f.Reasons { fmt.Println(r) } // haproxy.cfg:12: acl: …
//	}
//
// A frontend can be taken over if it does nothing that needs the payload of a connection: mode tcp, one default_backend, fixed
// addresses, and plain TCP connections to servers. Every word of its sections, of its backend and of the defaults
// that both inherit is either known to have no effect on that, or it is a reason. Unknown words are reasons, too, so words of a newer
// HAProxy are never ignored. A harmless loss, such as logs, is a note.
//
// The syntax is that of HAProxy 2.6: quotes, escapes, comments, named defaults and `from`. Environment variables are not
// expanded, and a line that uses one is a reason; so are conditional blocks, for every frontend.
package haproxy
