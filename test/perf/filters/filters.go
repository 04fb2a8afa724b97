// SPDX-License-Identifier: Apache-2.0

// Package filters measures the cubes that filter (firewall, ddosmitigator, synflood) compared with iptables, nftables and
// Open vSwitch, all on the same path: the kernel forwards between two hosts, and what differs is the filter.
package filters

import (
	"errors"

	"github.com/polycube/polycube/test/perf/contest"
	"github.com/polycube/polycube/test/perf/lab"
)

// What all groups share.
type (
	// Bench is how a part is measured.
	Bench = contest.Bench
	// Result of a part.
	Result = contest.Result
	device = contest.Device
	runner = contest.Runner
	alone  = contest.Alone
)

// none is the path without a filter.
const none = contest.None

// Parts lists the parts in the order in which they run.
func Parts() []contest.Part {
	return []contest.Part{
		{Name: "filter-program", Do: programs},
		{Name: "filter-rules", Do: exactly},
		{Name: "filter-lists", Do: generated},
		{Name: "filter-established", Do: established},
		{Name: "filter-host", Do: host},
		{Name: "filter-new", Do: fresh},
		{Name: "filter-ddos", Do: ddos},
		{Name: "filter-synflood", Do: synflood},
	}
}

// attached creates a cube and attaches it to the netdev where packets come in.
func attached(rig *lab.Rig, b *Bench, w *lab.Filtered, service string, conf any) (*lab.Daemon, error) {
	d, err := contest.DaemonAt(rig, b, w)
	if err != nil {
		return nil, err
	}
	return d, errors.Join(
		contest.Post(d, "/"+service+"/c1", conf),
		contest.Post(d, "/attach", map[string]any{"cube": "c1", "port": lab.In}), d.Inlined("c1"),
	)
}
