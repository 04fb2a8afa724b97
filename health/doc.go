// SPDX-License-Identifier: Apache-2.0

// Package health checks the servers of load balancers: by TCP, HTTP, HTTPS, gRPC, ICMP, or by what an API reports.
//
//	checker, err := health.New(health.Options{Namespace: "/run/netns/blue", Changed: changed})
//	err = checker.Set("10.0.0.1:80", health.Check{Kind: health.HTTP, Target: server, Path: "/health", Interval: time.Second})
//	state, ok := checker.State("10.0.0.1:80")
//
// A Checker owns one thread in its network namespace, for any number of servers. That thread alone has the timers, the
// sockets and the counts of each server. TCP, HTTP and ICMP checks run on it entirely, without a goroutine or a timer
// of their own. HTTPS and gRPC connect on it, too; a goroutine continues once the connection is open, and the
// computations of TLS handshakes are limited in number (Options.Handshakes), so that they do not take the CPUs from
// other checks.
//
// # When a state changes
//
// The first result counts at once, unless the status is known from earlier checks (Check.Known). After it, a server is down after Fall failures in a row, and up after Rise successes
// in a row. A check starts each Interval, or up to Jitter percent of it earlier, and fails at the latest Timeout after it
// has started. So a server that fails is down within Interval times Fall, plus Timeout. First checks start at once, 200
// microseconds apart if many servers are set together; the second check of a server follows after a random part of the
// interval, so that the checks of many servers are spread over it.
//
// If a check cannot be made for a reason on this host, such as too many open files or a source address that the host
// does not have, the state stays as it is and its Error says why. If all servers of a service are down, it is up to the
// caller whether the last known set stays in use.
//
// # What servers see
//
// A TCP check sends a SYN, and a RST after the SYN-ACK: the connection is never established, so the server's accept
// does not return it, its log stays empty, and neither side has a connection in TIME_WAIT. It shows that a program
// listens and its queue is not full; whether the program works is shown by the other kinds. Only if this host is too busy
// to send the RST within the 40 ms of a delayed ACK, the server accepts a connection that is then reset.
//
// HTTP, HTTPS and gRPC checks keep their connection, and open a new one after 100 checks, so that a server that does
// not accept any more is found. They close with a RST, too. A server may close the connection at any time: a request
// that gets no byte of an answer on a kept connection is sent again on a new one, in the same check. Redirections are not
// followed. What a server sends is bounded: 16 KiB of status line and headers, 64 KiB of body, of which the first 16 KiB
// are compared.
package health
