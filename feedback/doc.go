// SPDX-License-Identifier: Apache-2.0

// Package feedback makes the weights of a load balancer's servers follow their load.
//
//	poller := feedback.NewPoller[string]()
//	poller.Set("web-1", conf.Agent(server, netip.Addr{}))
//	group := feedback.NewGroup[string](conf)
//	group.Set("web-1", 10)
//	for _, a := range poller.Take() {
//		group.Answer(a.Key, a.Reading, a.Err, a.At)
//	}
//	if group.Step(now) { /* group.Weight("web-1") has changed */ }
//
// A Poller asks servers for their load: by SNMP, by HTTP, or by the agent-check protocol of HAProxy. A Group computes the
// weights of the servers of one service from the answers; it does no I/O, and its only clock is the time that its caller
// passes.
//
// # The formula
//
// The load of a server is the weighted sum of what its agent reports, each as a fraction of the server's capacity; it is
// smoothed exponentially. Once per interval, the weight w of a server whose configured weight is c becomes
//
//	w + gain × c × root(target − load), within c / scale and c × scale,
//
// which is the dynamic feedback of Linux Virtual Server (Wensong Zhang, "Re: questions about aggregate load", lvs-users, 17
// July 2002: weight + A × (1 − load)^(1/3)). There are three differences. The target is the average load of the servers by
// default, because with a fixed one all weights of a cluster with less load end at the same maximum. The cube root is a line
// through zero where the difference is small, because the slope of the root is infinite there, so weights would oscillate. And
// with the average as the target, the sum of the weights stays that of the configured ones. A server whose load is as close to
// the target as Threshold says keeps its weight, and a weight is passed on only if it differs by more than Threshold from the
// previous one.
//
// An agent that misses Misses polls in a row is UNREACHABLE: its server has its configured weight until it answers again.
package feedback
