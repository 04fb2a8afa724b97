// SPDX-License-Identifier: Apache-2.0

package classifier_test

import (
	"context"
	_ "embed"
	"errors"
	"net/netip"
	"testing"

	"github.com/polycube/polycube/classifier"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/pkt"
)

var (
	//go:embed testdata/twosets.tc.o
	twosetsTC []byte
	//go:embed testdata/twosets.xdp.o
	twosetsXDP []byte
)

const twosetsModel = `module twosets {
  yang-version 1.1;
  namespace "http://polycube.network/twosets";
  prefix twosets;
  import polycube-base { prefix polycube-base; }
  import polycube-standard-base { prefix polycube-standard-base; }
  revision 2026-01-01;
  polycube-base:service-name "twosets";
  polycube-base:service-description "For a test";
  polycube-base:service-version "1.0.0";
  uses polycube-standard-base:standard-base-yang-module;
}`

// newTwosets has a rule in each set: on a source, and on a state and a destination.
func newTwosets(env cube.Env) (cube.Instance, error) {
	sets := [...]*classifier.Set{classifier.New(env, 0), classifier.New(env, 1)}
	return cube.Instance{
		Prepare: func(_ context.Context, c cube.Change) (plan cube.Plan, err error) {
			if !c.Created() {
				return plan, nil
			}
			var rules [2]classifier.Rule
			err = errors.Join(rules[0].Source(netip.MustParsePrefix("10.0.0.1/32")),
				rules[1].Destination(netip.MustParsePrefix("10.0.0.9/32")))
			rules[1].State(5, 0xff)
			for i, set := range sets {
				p, e := set.Prepare([]classifier.Change{{Order: 1, Rule: &rules[i]}})
				plan.Before, plan.After = append(plan.Before, p.Before...), append(plan.After, p.After...)
				err = errors.Join(err, e)
			}
			return plan, err
		},
		Close: func() {
			if err := errors.Join(sets[0].Close(), sets[1].Close()); err != nil {
				env.Logger().Error("close the rules", "error", err)
			}
		},
	}, nil
}

// TestACubeSearchesTwoSetsForOneKey reads a packet once, and adds a state before the second search.
func TestACubeSearchesTwoSetsForOneKey(t *testing.T) {
	service := cube.Service{Model: twosetsModel, Objects: map[cube.Hook][]byte{cube.TC: twosetsTC, cube.XDP: twosetsXDP}, New: newTwosets}
	bpftest.Each(t, bpftest.Options{Hosts: 1, Services: []cube.Service{service}}, func(t *testing.T, l *bpftest.Lab) {
		l.Create("twosets", "s", `{"ports":[{"name":"p1","peer":"veth1"}]}`)
		for _, tt := range []struct{ from, to, want string }{
			{"10.0.0.1", "10.0.0.9", "s first"},
			{"10.0.0.2", "10.0.0.9", "s second"},
			{"10.0.0.2", "10.0.0.8", "s none"},
		} {
			frame := pkt.Eth("02:00:00:00:00:01", "02:00:00:00:00:02").IPv4(tt.from, tt.to).UDP(1, 2).Payload(30).Bytes()
			if got, want := l.Run("veth1", frame), (bpftest.Outcome{Verdict: "drop", Fate: tt.want}); got != want {
				t.Errorf("%s to %s: %+v, want %+v", tt.from, tt.to, got, want)
			}
		}
	})
}
