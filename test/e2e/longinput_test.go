// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"strings"
	"testing"
)

// TestALargeRuleSetIsRestored restores 50,000 rules, more than 1 MiB, saves them, and refuses an input that is longer than
// the model of the action allows, which changes nothing.
func TestALargeRuleSetIsRestored(t *testing.T) {
	t.Parallel()
	d := start(t)
	script := strings.ReplaceAll(`exec 2>&1
		set -e
		cd DIR
		pcn-iptables-init
		{ echo '*filter'; for i in $(seq 0 49999); do
			echo "-A INPUT -s 10.$((i >> 16)).$((i >> 8 & 255)).$((i & 255))/32 -p tcp -m tcp --dport $((i % 1000 + 1)) -j DROP"
		done; echo COMMIT; } > rules
		test $(stat -c %s rules) -gt 1048576
		began=$SECONDS
		pcn-iptables-restore < rules
		echo "restored in $((SECONDS - began)) s"
		pcn-iptables-save > saved
		echo "saved $(grep -c -- '^-A INPUT' saved)"
		{ cat rules; head -c 16777216 /dev/zero | tr '\0' '#'; } > long
		pcn-iptables-restore < long && exit 1 || echo "status $?"
		{ cat long; cat long; } > longer
		pcn-iptables-restore longer && exit 1 || echo "status $?"
		pcn-iptables-save > again
		echo "kept $(grep -c -- '^-A INPUT' again)"`, "DIR", d.dir)
	out, err := d.shell(script).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	contains(t, string(out), "saved 50000\n", "the allowed length is 0..16777216", "the input is larger than 32 MiB", "kept 50000\n")
	t.Logf("%s", out)
}
