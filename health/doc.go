// SPDX-License-Identifier: Apache-2.0

// Package health checks the servers of load balancers over TCP, HTTP, HTTPS, gRPC or ICMP, or takes their health from an API.
//
//	checker, err := health.New(health.Options{Namespace: "/run/netns/blue", Changed: changed})
//	err = checker.Set("10.0.0.1:80", health.Check{Kind: health.HTTP, Target: server, Path: "/health", Interval: time.Second})
//	state, ok := checker.State("10.0.0.1:80")
//
// A Checker owns one thread in its network namespace, for any number of servers. Only that thread accesses the timers,
// sockets and counters of the servers. TCP, HTTP and ICMP checks run entirely on it, without their own goroutine or
// timer. HTTPS and gRPC checks also connect on it; a goroutine takes over once the connection is open, and the number
// of concurrent TLS computations is limited (Options.Handshakes), so that they do not starve other checks of CPU time.
//
// # When a state changes
//
// The first result takes effect at once, unless the status is known from earlier checks (Check.Known). After that, a
// server goes down after Fall consecutive failures, and up after Rise consecutive successes. A check starts every
// Interval, or up to Jitter percent of it earlier, and fails at most Timeout after its start.
//
// A failed server is down within Interval times Fall, even if it is silent: the last of Fall failing checks starts earlier, by its
// timeout. To fit, the timeout is at most Interval - 25 ms, and at most Interval / 2 - 25 ms for the last two checks. With Fall 1
// and 2, that is every check; with Fall 1, each starts as early as the last one. If this host runs checks late, or cannot run them,
// the server is down later by as much.
//
// First checks start at once, 200 microseconds apart if many servers are set together; the second check of a server
// follows after a random part of the interval, so that the checks of many servers are spread over it.
//
// If a check cannot be run because of this host, for example too many open files or a source address that is not
// assigned to it, the state stays as it is and its Error says why. If all servers of a service are down, the caller
// decides whether the last known set stays in use.
//
// # What servers see
//
// A TCP check sends a SYN, and an RST after the SYN-ACK: the connection is never established, so the server's accept
// does not return it, nothing is logged, and neither side has a connection in TIME_WAIT. It shows that a program
// is listening and its accept queue is not full; only the other types show whether the program works. If this host is too
// busy to send the RST within the 40 ms of a delayed ACK, the server accepts a connection that is then reset.
//
// HTTP, HTTPS and gRPC checks use persistent connections, which they replace after 100 checks to detect a server that no
// longer accepts new ones. They also close with an RST. A server may close the connection at any time: a request that
// gets no byte of a response on a reused connection is retried on a new one, within the same check. Redirects are not
// followed. Responses are limited: 16 KiB of status line and headers, 64 KiB of body, of which the first 16 KiB
// are compared.
package health
