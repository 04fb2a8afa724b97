// SPDX-License-Identifier: Apache-2.0

// Package checks runs the health checks of a load balancer: with package health, in a namespace of package probe. The
// cube configures the check of each server of each service, sends the packets of checks, and passes back the replies, which
// <pcn/balance_checks.h> distinguishes from other packets.
//
//	c := checks.New(env, checks.Options{Send: send, Changed: changed})
//	err = c.Begin()                                      // in the first plan
//	err = c.Open(checks.Way{MTU: 1280, Sources: sources}) // in a plan, while a service has checks; else c.End()
//	is := c.Watch(key, checks.Wants{Config: conf, Target: server, Source: source, Number: number}, inUse)
//	err = c.Tick()                                       // starts and changes checks, outside of plans
//	for _, change := range c.Changes() { ... }           // after Options.Changed was called
//
// Package checks owns the health of servers: status, time of the last change, and error. It is kept in a map of the cube, so
// that a restart or crash of the daemon changes no status. The cube decides which servers get new flows. Methods must not be
// called concurrently with the cube's other functions.
package checks
