// SPDX-License-Identifier: Apache-2.0

package perf

import (
	"os"
	"testing"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/need"
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
		for name, s := range map[string]report.Sample{"relink": got.constant, "attach": got.attach, "detach": got.detach} {
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
	need.KernelThreads(t)
	for _, f := range forwarders("../..") {
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

func TestAQuickRunOfTheAPIMeasuresEverySize(t *testing.T) {
	netns.NeedRoot(t)
	if _, err := os.Stat("../../bin/polycubed"); err != nil {
		t.Skipf("needs bin/polycubed: run make build (%v)", err)
	}
	r := &Run{Config: Config{Rounds: 1, Quick: true, Root: "../..", Progress: t.Output()}}
	if err := r.Do(t.Context(), []string{"api"}); err != nil {
		t.Fatal(err)
	}
	if len(r.Sections) != 1 || len(r.Sections[0].Tables) != 2 || len(r.Checks) != 4 {
		t.Fatalf("%d checks, sections %+v", len(r.Checks), r.Sections)
	}
	for _, table := range r.Sections[0].Tables {
		if len(table.Rows) != 3 {
			t.Errorf("%s has %d lines, want one for each size and one for the growth", table.Title, len(table.Rows))
		}
		for _, row := range table.Rows {
			if len(row) != len(table.Columns) {
				t.Errorf("%s: %d figures in %d columns: %v", table.Title, len(row), len(table.Columns), row)
			}
		}
	}
}

func TestPagesFollowTheirLinks(t *testing.T) {
	for header, want := range map[string]string{
		`</polycube/v1/a/>; rel="self", </polycube/v1/a/?after=x&limit=1>; rel="next"`: "/a/?after=x&limit=1",
		`</polycube/v1/a/>; rel="self"`: "", "": "",
	} {
		if got := nextPage(header); got != want {
			t.Errorf("%s: %q, want %q", header, got, want)
		}
	}
}
