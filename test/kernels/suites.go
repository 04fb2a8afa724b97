// SPDX-License-Identifier: Apache-2.0

// The jobs of the machines.

package kernels

import "time"

// check is the output of `polycubed check` on the kernel.
var check = Job{Name: "check", Program: []string{"bin/polycubed", "check", "--json"}, Within: 5 * time.Minute}

// demo has packets flow while cubes change, and while the daemon is killed and started again.
var demo = Job{Name: "demo", Program: []string{"scripts/demo.sh"}, Within: 15 * time.Minute}

// trials loads every program of every service, at both hooks, in every role and mode, with every pair of constant
// values. The verifier's figures go into a file, which the next job prints.
var (
	trials    = Job{Package: "test/trials", Env: []string{"POLYCUBE_TRIAL_TABLE=" + trialsFile}, Within: 30 * time.Minute}
	trialsSay = Job{Name: "trials", Program: []string{"cat", trialsFile}, Within: time.Minute}
)

const trialsFile = "/tmp/trials.json"

// Short is part of every CI run: the packet path of each service at each hook, the demo, and the weight of the shared
// parts for the verifier, which differs by kernel. Tests are named: one that does not run, or skips, fails.
func Short() []Job {
	tests := func(pkg string, names ...string) Job {
		return Job{Package: pkg, Tests: names, Within: 10 * time.Minute}
	}
	return []Job{
		check,
		demo,
		tests("cubes/helloworld", "TestEachActionDecidesWhatHappens"),
		tests("cubes/simpleforwarder", "TestTheTableDecides"),
		tests("cubes/transparenthelloworld", "TestEachDirectionHasItsAction"),
		tests("cubes/simplebridge", "TestFramesGoWhereTheirAddressesWereLearned"),
		tests("cubes/bridge", "TestFramesStayInTheirVLAN"),
		tests("cubes/pbforwarder", "TestTheFirstRuleDecides"),
		tests("cubes/router", "TestPacketsGoTheWayOfTheLongestPrefix"),
		tests("cubes/nat", "TestSourceNAT"),
		tests("cubes/firewall", "TestConnectionsAreTracked"),
		tests("cubes/packetcapture", "TestPacketsOfADirectionAreCaptured"),
		tests("pcapfilter", "TestProgramsPassWhatTcpdumpPasses"),
		tests("cubes/synflood", "TestOnlyACKsWithACookieReachTheListener"),
		tests("cubes/lbdsr", "TestPacketsForTheFirstAddressGoToItsServers", "TestPacketsReachServersThroughTunnels"),
		tests("cubes/lbrp", "TestConnectionsGoToAServerAndBack", "TestAssociationsOfSCTPReachTheirServers"),
		tests("cubes/dynmon", "TestACompiledObjectServesBothPaths"),
		tests("cubes/classifier", "TestTheFirstRuleThatMatchesGivesTheClass", "TestSubscribersHaveTheirClassInBothDirections"),
		tests("cubes/gtphandler", "TestPacketsLeaveTheirTunnels", "TestPacketsEnterTheirTunnels", "TestFramesLeaveAndEnterTheirTunnels"),
		tests("cubes/policer", "TestEachClassHasItsContract", "TestNothingPassesTwice"),
		tests("cubes/efw", "TestMatchersComeFirst", "TestSwapsOfTablesAreTold", "TestTablesAreComparedWhereNothingTellsOfSwaps"),
		tests("cubes/edpi", "TestPoliciesFollowTheDecision", "TestFlowsWithoutRoomAreCountedAndElephantsAmongThemFound"),
		tests("cubes/elb", "TestASessionIsTranslatedAtBothEnds"),
		tests("cubes/upf", "TestPacketsFollowTheRulesOfTheirSession", "TestTheFirstRuleWhoseFlowsMatchDecides", "TestUsagesCountWarnAndBlock",
			"TestTunnelsToOtherUserPlanes"),
		tests("examples/cubes/ministate", "TestRepliesComeIn"),
		tests("examples/cubes/meter", "TestPacketsAboveTheRateAreDropped"),
		tests("examples/cubes/fastpath", "TestPacketsAreForwardedByTheRoutesOfTheHost", "TestFramesAreThoseOfTheStack"),
		tests("internal/datapath", "TestAConstantChangesWithoutALink"),
		tests("test/hairpin", "TestHostsReachAForwardedPortOfTheRoutersAddress"),
		tests("test/fates", "TestEveryFrameHasAFate"),
		tests("test/cubeapi", "TestProgramsCallEachOtherByIndex"),
		tests("test/perf", "TestPartsWeighWhatTheirPagesSay"),
	}
}

// Long is run by `make test-kernels`: all tests of the data plane, and those with a daemon that need no clock. It is
// divided between two machines: a single one does not finish in an hour.
func Long() [][]Job {
	tests := func(pkgs ...string) (jobs []Job) {
		for _, pkg := range pkgs {
			jobs = append(jobs, Job{Package: pkg, Skip: tooLong[pkg], Within: 30 * time.Minute})
		}
		return jobs
	}
	core := append([]Job{check, demo, trials, trialsSay},
		tests("internal/kernel", "internal/datapath", "internal/datapath/bpfmap", "internal/datapath/floods", "internal/datapath/state",
			"internal/datapath/trial", "internal/slowpath", "internal/netdev", "internal/shadow", "internal/check")...)
	daemon := func(names []string) Job { return Job{Package: "test/e2e", Tests: names, Within: 40 * time.Minute} }
	cubes := tests("cubes/helloworld", "cubes/simpleforwarder", "cubes/transparenthelloworld", "cubes/simplebridge", "cubes/bridge",
		"cubes/pbforwarder", "cubes/router", "cubes/nat", "cubes/synflood", "cubes/lbdsr", "cubes/lbrp", "cubes/dynmon", "cubes/classifier", "cubes/gtphandler", "cubes/policer", "cubes/upf", "cubes/edpi", "cubes/efw", "cubes/elb",
		"examples/cubes/ministate", "examples/cubes/meter", "examples/cubes/fastpath", "test/hairpin", "test/fates", "test/bpftest", "test/netns", "test/need", "test/cubeapi")
	return [][]Job{append(core, daemon(withADaemon)), append(cubes, daemon(withDevices))}
}

// EVNF returns options for a chain of network functions on two machines, each with a script, which speak with each other
// over the cables.
func EVNF(o Options) Options {
	o.Jobs = nil
	for _, role := range []string{"firewall", "accounting"} {
		o.Jobs = append(o.Jobs, []Job{{Name: role, Program: []string{"examples/evnf/traffic-accounting/vm.sh", role}, Within: 30 * time.Minute}})
	}
	o.Side, o.Cables = 2, 2
	// Only these: what else is in the kernel may act on packets, and a fast path leaves them to it then.
	o.Modules = []string{"virtio_net", "veth", "tun"}
	o.Packages = []string{"iptables", "libndpi4.2", "nginx"}
	return o
}

// tooLong are tests that fill tables, which takes minutes on emulated CPUs. Their results do not depend on the kernel.
var tooLong = map[string]map[string]string{
	"cubes/nat":    {"TestAMillionSessions": "a million sessions"},
	"cubes/bridge": {"TestThousandsOfTrees": "a tree for each VLAN", "TestTwentyThousandAddresses": "20,000 addresses", "TestManyPortsAndNotOneMore": "hundreds of ports"},
}

// withADaemon are tests of the whole: cubes and netdevs of all kinds, packets during changes, and a restart and an
// upgrade under traffic.
var withADaemon = []string{
	"TestHostsReachEachOtherThroughTwoBridges", "TestFramesOfEveryKindArriveUnharmed", "TestTCPArrivesIntact",
	"TestChainOfEveryService", "TestSlowPathPutsPacketsBack", "TestTransparentCubesStandInTheOrderAskedFor",
	"TestKindsOfNetdevsAsPeers", "TestWhatHappensToNetdevs", "TestMTUChangesAcrossTheLimitOfOneBuffer", "TestTagsBesideTheFrameArrive",
	"TestMasqueradeInOneCommand", "TestCaptureKeepsPacketsAsTheyAre", "TestTraceTellsWhyPacketsAreDropped",
	"TestInjectTellsWhatWouldHappen", "TestPacketsThroughAServiceOfAnotherProcess",
	"TestChangesUnderTrafficLoseNothing", "TestProgramsAreExchangedWhileTheDaemonIsKilled", "TestUpgradesOfAServiceUnderTraffic",
	"TestNothingStaysAfter",
}

// withDevices are tests with kinds of netdevs that the machine of make test may lack.
var withDevices = []string{
	"TestDevicesOfDevicesAsPortsOfBridges", "TestDevicesOfDevicesAsPortsOfARouter", "TestADummyAsAPort", "TestTCPOverABadLine",
	"TestNativeXDPCannotSendToADeviceOfDevices",
}
