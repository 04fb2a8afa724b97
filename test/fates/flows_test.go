// SPDX-License-Identifier: Apache-2.0

package fates

// Flows of cube edpi, whose packets are dropped for each reason that a flow can have.

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/dpi"
	"github.com/polycube/polycube/flow"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
)

// flows classifies some, as a program beside the daemon does, and returns packets of these, and of one that is not
// classified. The first packets come before the classifier.
func flows(t *testing.T, l *bpftest.Lab) (all []sample) {
	t.Helper()
	tables, err := dpi.Open(l.PinsOf("e"))
	if err != nil {
		t.Fatal(err)
	}
	frame := func(port uint16) []byte {
		return pkt.Eth(macs[1], cubeMACs[1]).IPv4(v4[1], v4[2]).UDP(port, 4242).Payload(1000).Bytes()
	}
	names := [dpi.Names]dpi.Name{1: dpi.NameOf("one"), 2: dpi.NameOf("two"), dpi.Protocols + 3: dpi.NameOf("three")}
	errs := []error{tables.Announce("of a test", &names)}
	for port, class := range map[uint16]dpi.Class{1: {Protocol: 1}, 2: {Protocol: 2}, 3: {Protocol: 3, Category: 3}} {
		explained(t, l, "veth1", frame(port))
		f, _ := flow.Read(frame(port))
		key, _ := dpi.KeyOf(&f)
		is, ok, err := tables.Flow(key)
		if !ok {
			t.Fatalf("the flow of port %d has no entry", port)
		}
		errs = append(errs, err, tables.Decide(key, dpi.Decision{ID: is.ID, Class: class}))
		all = append(all, sample{dev: "veth1", frame: frame(port), times: 200})
	}
	now, err := cube.Time()
	tables.Beat(now + 3600e9) // for the whole test
	if err := errors.Join(append(errs, err, tables.Close())...); err != nil {
		t.Fatal(err)
	}
	netns.Eventually(t, bpftest.Patience, func() error {
		if is := l.Read("e protocol"); !strings.Contains(is, "two") {
			return fmt.Errorf("protocols are %s", is)
		}
		return nil
	})
	return append(all, sample{dev: "veth1", frame: frame(4)})
}
