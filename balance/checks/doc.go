// SPDX-License-Identifier: Apache-2.0

// Package checks has the health checks of a load balancer: package health makes them, in a namespace of package probe. The
// cube says what each server of each service is checked by, sends what checks send, and gives back answers, which
// <pcn/balance_checks.h> tells from other packets.
//
//	c := checks.New(env, checks.Options{Send: send, Changed: changed})
//	err = c.Begin()                                      // in the first plan
//	err = c.Open(checks.Way{MTU: 1280, Sources: sources}) // in a plan, while a service has checks; else c.End()
//	is := c.Watch(key, checks.Wants{Config: conf, Target: server, Source: source, Number: number}, inUse)
//	err = c.Tick()                                       // begins and changes checks, outside of plans
//	for _, change := range c.Changes() { ... }           // after Options.Changed was called
//
// Package checks owns what is known of servers: status, since when, and why. It is in a map of the cube, so that a restart of
// the daemon, however it ended, changes no status. Which servers get new flows is the cube's decision. Methods are called in
// turn with the cube's other functions.
package checks
