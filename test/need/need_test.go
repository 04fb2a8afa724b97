// SPDX-License-Identifier: Apache-2.0

package need

import (
	"os"
	"strings"
	"testing"

	"github.com/polycube/polycube/test/netns"
)

func TestMain(m *testing.M) { os.Exit(netns.CheckLeaks(m)) }

// judged is a test whose end is checked.
type judged struct {
	testing.TB
	said string
}

type end struct{}

func (j *judged) Fatalf(string, ...any) { j.said = "fatal"; panic(end{}) }

func (j *judged) Skipf(string, ...any) { j.said = "skip"; panic(end{}) }

func judge(t *testing.T, features ...Feature) string {
	j := &judged{TB: t}
	func() {
		defer func() {
			if r := recover(); r != nil && r != (end{}) {
				panic(r)
			}
		}()
		Features(j, features...)
	}()
	return j.said
}

// TestWhatIsMissingSkipsOrFails: a feature that no kernel has replaces one that the kernel lacks.
func TestWhatIsMissingSkipsOrFails(t *testing.T) {
	netns.NeedRoot(t)
	const never Feature = "hovercraft"
	if got := judge(t, never); got != "skip" {
		t.Errorf("without a word on it: %q, want a skip", got)
	}
	t.Setenv(Variable, "vlan,"+string(never))
	if got := judge(t, never); got != "fatal" {
		t.Errorf("where it has to be there: %q, want a failure", got)
	}
}

// TestEachFeatureHasAProbe: the kernel either has it or reports that it does not, rather than that the probe is wrong.
func TestEachFeatureHasAProbe(t *testing.T) {
	netns.NeedRoot(t)
	for _, f := range All() {
		err := probe(t, f)
		t.Logf("%s: %v", f, err)
		if err != nil && !strings.Contains(err.Error(), "not supported") && !strings.Contains(err.Error(), "Unknown device type") &&
			!strings.Contains(err.Error(), "qdisc kind is unknown") {
			t.Errorf("%s: %v", f, err)
		}
	}
}
