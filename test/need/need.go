// SPDX-License-Identifier: Apache-2.0

// Package need skips tests that need optional features of the kernel, and fails them if the feature must be there: in
// the machines of `make test-kernels`, whose kernels have all of them, no test may skip because a device type is
// missing.
package need

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/test/netns"
)

// Variable is the environment variable with the features that have to be there, separated by commas.
const Variable = "POLYCUBE_MUST_HAVE"

// Feature is an optional feature of a kernel.
type Feature string

// The features.
const (
	VLAN       Feature = "vlan"        // VLAN devices
	Bond       Feature = "bond"        // bonds of devices
	Dummy      Feature = "dummy"       // devices that drop packets sent to them
	VRF        Feature = "vrf"         // routing domains
	Netem      Feature = "netem"       // loss and delay
	BridgeVLAN Feature = "bridge-vlan" // VLAN filtering in the kernel's bridge
	SCTP       Feature = "sctp"        // sockets of SCTP
)

// probes are commands that succeed in a separate namespace if the feature is there. SCTP has none: a socket is opened.
var probes = map[Feature][]string{
	VLAN:       {"ip link add veth1 type veth peer name veth2", "ip link add link veth1 name veth1.7 type vlan id 7"},
	Bond:       {"ip link add one type bond mode active-backup"},
	Dummy:      {"ip link add one type dummy"},
	VRF:        {"ip link add one type vrf table 10"},
	Netem:      {"ip link add veth1 type veth peer name veth2", "tc qdisc add dev veth1 root netem loss 1%"},
	BridgeVLAN: {"ip link add one type bridge vlan_filtering 1"},
	SCTP:       nil,
}

// All lists the features.
func All() []Feature { return []Feature{VLAN, Bond, Dummy, VRF, Netem, BridgeVLAN, SCTP} }

// List is the value of Variable where all features have to be there.
func List() string {
	var names []string
	for _, f := range All() {
		names = append(names, string(f))
	}
	return strings.Join(names, ",")
}

// Features skips the test unless the kernel has all of them. It fails it if the environment says that the kernel has
// them.
func Features(t testing.TB, features ...Feature) {
	t.Helper()
	for _, f := range features {
		err := probe(t, f)
		switch {
		case err == nil:
		case slices.Contains(strings.Split(os.Getenv(Variable), ","), string(f)):
			t.Fatalf("%s says that the kernel has %s: %v", Variable, f, err)
		default:
			t.Skipf("needs %s, which this kernel is built without: %v", f, err)
		}
	}
}

// probe checks a feature of the kernel, in a namespace that is removed at the test's end.
func probe(t testing.TB, f Feature) error {
	t.Helper()
	commands, ok := probes[f]
	if !ok {
		return fmt.Errorf("no feature is named %s", f)
	}
	ns := netns.New(t)
	if f == SCTP {
		return ns.Do(openSCTP)
	}
	for _, line := range commands {
		words := strings.Fields(line)
		if out, err := ns.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", line, err, strings.TrimSpace(string(out)))
		}
	}
	return nil
}

// openSCTP opens a socket of SCTP and closes it.
func openSCTP() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, unix.IPPROTO_SCTP)
	if err != nil {
		return fmt.Errorf("socket: %w", err)
	}
	return unix.Close(fd)
}

// KernelThreads skips the test in a PID namespace, where the kernel's own threads cannot be seen.
func KernelThreads(t testing.TB) {
	t.Helper()
	if comm, err := os.ReadFile("/proc/2/comm"); err != nil || strings.TrimSpace(string(comm)) != "kthreadd" {
		t.Skip("needs the kernel's threads among the processes, which this PID namespace hides")
	}
}

// Linux reports whether the kernel has a version or a newer one.
func Linux(t testing.TB, major, minor int) bool {
	t.Helper()
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		t.Fatal(err)
	}
	var have [2]int
	release := unix.ByteSliceToString(name.Release[:])
	if _, err := fmt.Sscanf(release, "%d.%d", &have[0], &have[1]); err != nil {
		t.Fatalf("the kernel's release %q: %v", release, err)
	}
	return slices.Compare(have[:], []int{major, minor}) >= 0
}
