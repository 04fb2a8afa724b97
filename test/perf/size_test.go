// SPDX-License-Identifier: Apache-2.0

package perf

import (
	"testing"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/perf/lab"
	"github.com/polycube/polycube/test/perf/report"
)

func TestChangesAreTimedAndTheTopologyForwardsAllTheWhile(t *testing.T) {
	netns.NeedRoot(t)
	for _, c := range []sizeCase{{1, 2}, {3, 4}} {
		got, err := c.run(t.Context(), cube.TypeTC, 2)
		if err != nil {
			t.Fatalf("%+v: %v", c, err)
		}
		for name, s := range map[string]report.Sample{"relink": got.relink, "attach": got.attach, "detach": got.detach} {
			if len(s) != 2 || s.Min() <= 0 {
				t.Errorf("%+v: %s took %v, want two times", c, name, s)
			}
		}
		if got.segments != 1 {
			t.Errorf("%+v: %d segments, want 1", c, got.segments)
		}
	}
}

func TestAShareOfPacketsTakesTheSlowPathAndArrives(t *testing.T) {
	netns.NeedRoot(t)
	for _, percent := range []int{0, 10} {
		s, err := slowShare(t.Context(), cube.TypeTC, percent, 50*time.Millisecond)
		if err != nil {
			t.Fatalf("%d %%: %v", percent, err)
		}
		if s.delivered <= 0 || s.delivered > 1.1*s.sent {
			t.Errorf("%d %%: %.2f Mpps of %.2f were delivered", percent, s.delivered, s.sent)
		}
		if percent == 0 && s.shed != 0 {
			t.Errorf("%.1f %% of nothing was shed", s.shed)
		}
	}
}

func TestUseIsCountedForEachPacket(t *testing.T) {
	netns.NeedRoot(t)
	for _, f := range forwarders() {
		if f.name != nothing && f.name != linuxBridge {
			continue
		}
		ns, err := f.use(t.Context(), 20_000, 500*time.Millisecond)
		if err != nil || ns <= 0 {
			t.Errorf("%s: %.0f ns, error %v", f.name, ns, err)
		}
	}
}

func TestFramesSayWhenTheyWereSent(t *testing.T) {
	if got := lab.Since(make([]byte, 8)); got != 0 {
		t.Errorf("a frame too short to say: %v", got)
	}
	if got := lab.Since(make([]byte, 60)); got <= 0 {
		t.Errorf("a frame of the beginning of the clock: %v", got)
	}
}
