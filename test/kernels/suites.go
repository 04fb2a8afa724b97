// SPDX-License-Identifier: Apache-2.0

// What runs in the machines.

package kernels

import "time"

// Short is part of every run of CI: what a packet meets, for each service at each hook, and the demo, in which packets flow
// while cubes change and while the daemon is killed and started again. Everything is named: what does not run fails.
func Short() []Job {
	tests := func(pkg string, names ...string) Job {
		return Job{Package: pkg, Tests: names, Within: 8 * time.Minute}
	}
	return []Job{
		{Name: "demo", Program: []string{"scripts/demo.sh"}, Within: 8 * time.Minute},

		tests("cubes/helloworld", "TestEachActionDecidesWhatHappens"),
		tests("cubes/simpleforwarder", "TestTheTableDecides"),
		tests("cubes/transparenthelloworld", "TestEachDirectionHasItsAction", "TestOnANetdevTheStackIsBehindIt"),
		tests("cubes/simplebridge", "TestFramesGoWhereTheirAddressesWereLearned", "TestARestartKeepsWhatIsKnown"),
		tests("cubes/bridge", "TestFramesStayInTheirVLAN", "TestFramesGoWhereLinuxWithVLANsSendsThem"),
		tests("cubes/pbforwarder", "TestEachMemberOfARuleDecides", "TestTheFirstRuleDecides"),
		tests("cubes/router", "TestPacketsGoTheWayOfTheLongestPrefix"),
		tests("cubes/nat", "TestSourceNAT"),
		tests("test/fates", "TestEveryFrameHasAFate"),
	}
}

func Long() []Job { return nil }
