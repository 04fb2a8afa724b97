// SPDX-License-Identifier: Apache-2.0

// What runs in the machines.

package kernels

import "time"

func Short() []Job { return nil }

func Long() []Job {
	var out []Job
	for _, p := range []string{"internal/kernel", "cubes/simplebridge", "cubes/helloworld", "cubes/simpleforwarder", "cubes/transparenthelloworld", "test/fates", "test/bpftest", "cubes/bridge", "cubes/pbforwarder", "cubes/router", "cubes/nat", "test/netns", "internal/netdev", "internal/slowpath", "internal/shadow", "internal/check", "internal/trace", "internal/topology", "classifier", "internal/datapath", "test/author"} {
		out = append(out, Job{Package: p, Within: 30 * time.Minute})
	}
	return append(out, Job{Name: "demo", Program: []string{"scripts/demo.sh"}, Within: 10 * time.Minute})
}
