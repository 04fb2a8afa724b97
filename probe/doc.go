// SPDX-License-Identifier: Apache-2.0

// Package probe leads health checks of package health through a cube, to one server of a virtual address.
//
// All servers of a service with direct server return have the virtual address, and packets for it are to reach one of them
// in the way that packets of clients do. So checks are made in a network namespace of their own, with a TUN device as the
// only way out. What comes out of the device is given to the cube with the number of the server that it is for, and the cube
// forwards it. Answers, which the cube receives, go back into the device.
//
//	path, err := probe.Open(probe.Options{MTU: 1280, Send: send})
//	err = path.SetSources([]netip.Addr{source})
//	ports, err := path.Take(probe.Target{Addr: vip, Port: 80}, server)
//	checker, err := health.New(health.Options{Namespace: path.Namespace()})
//	err = checker.Set(id, health.Check{Kind: health.TCP, Target: vipAndPort, Source: source, SourcePorts: ports})
//
// The source port of a packet says which server it is for: the servers of a target have four ports each, from 32,768 on. A
// check by ICMP has the first of them as the identifier of its requests.
//
// The namespace has no name. It exists as long as the daemon has it open, so nothing is left of it even if the daemon is
// killed, and the host's routes, addresses and filters have no part in it.
package probe
