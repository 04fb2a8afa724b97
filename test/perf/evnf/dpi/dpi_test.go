// SPDX-License-Identifier: Apache-2.0

package dpi

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/perf/contest"
	"github.com/polycube/polycube/test/perf/lab"
	"github.com/polycube/polycube/test/perf/report"
)

func TestMain(m *testing.M) { os.Exit(netns.CheckLeaks(m)) }

// needs skips a test of a peer whose library is not installed: only `make bench` needs it.
func needs(t *testing.T, c chain) {
	t.Helper()
	netns.NeedRoot(t)
	if strings.Contains(c.name, "NFQUEUE") && exec.Command("gcc", "-fsyntax-only", "-include", "libnetfilter_queue/libnetfilter_queue.h", "-xc", os.DevNull).Run() != nil {
		t.Skip("libnetfilter-queue-dev is not installed")
	}
}

func TestPeersClassifyAllFlows(t *testing.T) {
	for _, c := range chains[:6] {
		if c.classify == nil {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			needs(t, c)
			err := lab.With(t.Context(), func(rig *lab.Rig) error {
				r, err := c.runner(rig, &contest.Bench{})
				if err != nil {
					return err
				}
				for l, want := range map[load]seen{
					{0, true}: {2048, 2048, 128, 128}, {2, true}: {2048, 1024, 64, 64}, {}: {packets: 2048}, allElephants: {packets: 2048},
				} {
					is, err := r.send(l, 2*lab.MixPeriod)
					if err != nil {
						return err
					}
					if c.partial { // the packets of elephants pass by
						want.packets = want.inspected
					}
					if is.seen != want {
						t.Errorf("%s: %+v, want %+v", l, is.seen, want)
					}
					if is.packets != 2*lab.MixPeriod || is.usage.Sender <= 0 || !c.partial && is.usage.Processes[0] <= 0 {
						t.Errorf("%s: %+v", l, is)
					}
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		})
	}
}

// made is a run in which each chain takes some ns per packet with all loads.
func made(ns map[string]float64) []*runner {
	var all []*runner
	for _, c := range chains {
		r := &runner{chain: c, at: map[load]*figures{}}
		if c.classify != nil {
			r.of = &peer{}
		}
		for _, l := range loads() {
			r.at[l] = &figures{all: report.Sample{ns[c.name]}, process: report.Sample{1}, packets: 1000, good: 999, seen: seen{999, 500, 20, 20}}
		}
		all = append(all, r)
	}
	return all
}

func TestTheBetterPeerIsWhatCounts(t *testing.T) {
	long := lasting{all: report.Sample{500}, peer: report.Sample{1500}, path: report.Sample{500}, without: report.Sample{400}, process: report.Sample{0.005}, daemon: report.Sample{0.01}}
	is := result(made(map[string]float64{queued: 3000, queuedMark: 10, copied: 1500, copiedEFW: 1000, copiedNext: 1200, nextEFW: 600, chainXDP: 500, chainTCX: 2000}), long)
	want := map[string]string{
		"0 % elephants, the others long flows": "3.00 ×", "50 % elephants, the others mice": "3.00 ×", "100 % elephants": "3.00 ×",
		"against iptables + nDPI, AF_PACKET, as many packets of each share, long flows":                     "1.50 ×",
		"against iptables + nDPI, AF_PACKET on the next machine, as many packets of each share, long flows": "2.00 ×",
	}
	for _, c := range is.Checks {
		for name, measured := range want {
			if strings.HasSuffix(c.What, " "+name) {
				delete(want, name)
				if c.Measured != measured {
					t.Errorf("%s: %s, want %s", c.What, c.Measured, measured)
				}
			}
		}
		if strings.HasPrefix(c.What, "packets lost by") && !c.Pass || strings.HasPrefix(c.What, "polycube-ndpi") && !c.Pass {
			t.Errorf("%s: %s does not pass", c.What, c.Measured)
		}
	}
	if len(want) > 0 {
		t.Errorf("no check of %v", want)
	}
	if text := is.Tables[3].Markdown(); !strings.Contains(text, "20.0 %") || !strings.Contains(text, "0.50 %") {
		t.Errorf("elephants alone:\n%s", text)
	}
}
