// SPDX-License-Identifier: Apache-2.0

// A stateful service in Python is upgraded to a version with another struct, under traffic.

package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/polycube/polycube/test/executable"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
)

// scriptService installs a service in Python that is a script in testdata, with the environment of another service, and
// returns its program.
func scriptService(t testing.TB, other, folder, name string) string {
	t.Helper()
	dir := installed(t)
	for _, file := range []string{".yang", ".tc.o", ".xdp.o", ".py"} {
		data, err := os.ReadFile(filepath.Join("testdata", folder, name+file))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name+file), data, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(dir, name)
	// The interpreter gets a descriptor of this file, so the files next to it need a path.
	script := fmt.Sprintf("#!%s/python3\nimport runpy\nrunpy.run_path(%q, run_name='__main__')\n", filepath.Dir(other), path+".py")
	if err := executable.Write(path, []byte(script)); err != nil {
		t.Fatal(err)
	}
	return path
}

// usage is an entry of the state of quota.
type usage struct {
	Bytes, Packets, Dropped uint64 `json:",string"`
}

// usage reads what a source has used.
func (d *daemon) usage(source string) usage {
	d.t.Helper()
	var state struct {
		Source []struct {
			Address string
			usage
		}
	}
	d.Get("/quota/q1/sources", &state)
	for _, s := range state.Source {
		if s.Address == source {
			return s.usage
		}
	}
	return usage{}
}

// sources are addresses of hosts behind the same port.
type sources struct {
	*daemon
	from, to *netns.Node
	wire     *netns.Raw
}

// frame is one of a source, of 84 bytes with the payload of a stream.
func (s *sources) headers(source string) []byte {
	ip := pkt.IPv4Header{From: source, To: "10.0.0.3", Protocol: 253, TTL: 64}.Packet(make([]byte, streamPayload))
	return pkt.EthernetFrame(s.to.MAC, s.from.MAC, 0x0800, ip[:len(ip)-streamPayload])
}

const quotaFrame = 14 + 20 + streamPayload

// send sends frames of a source, and waits until this many more of them were accepted and dropped.
func (s *sources) send(source string, frames, accepted, dropped uint64) {
	s.t.Helper()
	before, fate := s.usage(source), s.Stats("q1").Fate(s.t, "exceeded")
	frame := append(s.headers(source), make([]byte, streamPayload)...)
	for range frames {
		if err := s.wire.Send(frame); err != nil {
			s.t.Fatal(err)
		}
	}
	netns.Eventually(s.t, patience, func() error {
		bytes, drops := s.usage(source).Bytes-before.Bytes, s.Stats("q1").Fate(s.t, "exceeded")-fate
		if bytes != accepted*quotaFrame || drops != dropped {
			return fmt.Errorf("%d bytes of %s were accepted and %d packets dropped, want %d and %d", bytes, source, drops, accepted*quotaFrame, dropped)
		}
		return nil
	})
}

func TestAQuotaIsUpgradedWithAnotherStruct(t *testing.T) {
	t.Parallel()
	second := pythonService(t, "polycube-quota")
	first := scriptService(t, second, "quota1", "quota")
	for _, kind := range types {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			d := start(t)
			hosts := threeHosts(d.machine, v4)
			d.Do("services add type=lib uri=" + first + " name=quota")
			d.twoBridges(kind)
			d.Do("quota add q1 bytes=10000000000 type=" + kind)
			d.Do("attach q1 br1:p1")
			s := &sources{daemon: d, from: hosts[0], to: hosts[2], wire: netns.OpenRaw(t, hosts[0], netns.Inner)}
			stream := startStreamOf(t, hosts[0], hosts[2], s.headers("10.0.0.77"))
			stream.Flowing(400)
			s.send("10.0.0.50", 30, 30, 0)
			s.send("10.0.0.51", 12, 12, 0)
			before := d.usage("10.0.0.77").Bytes

			d.Do("services update quota uri=" + second)
			stream.Flowing(400)
			if got, want := d.usage("10.0.0.50"), (usage{Bytes: 30 * quotaFrame}); got != want {
				t.Errorf("after the update a source has used %+v, want %+v", got, want)
			}
			s.send("10.0.0.51", 3, 3, 0)
			if got, want := d.usage("10.0.0.51"), (usage{Bytes: 15 * quotaFrame, Packets: 3}); got != want {
				t.Errorf("packets after the update are counted as %+v, want %+v", got, want)
			}
			sent := stream.Stop()
			after := d.usage("10.0.0.77").Bytes
			t.Logf("%d bytes of the stream were counted before the update, %d after it, %d were sent", before, after, sent*quotaFrame)
			// What the old program counts while the new one takes its place, in some milliseconds, may be missing.
			if after <= before || after > sent*quotaFrame || after < sent*quotaFrame*95/100 {
				t.Errorf("%d bytes of the stream are counted, %d were sent", after, sent*quotaFrame)
			}

			// The quotas of before hold: half of it is left for one source, and nothing for the other.
			d.Do(fmt.Sprintf("q1 set bytes=%d", 30*quotaFrame))
			s.send("10.0.0.50", 5, 0, 5)
			s.send("10.0.0.51", 20, 15, 5)
			d.tellsOfQuota()
			d.Do("q1 sources reset address=10.0.0.50")
			s.send("10.0.0.50", 31, 30, 1)
			d.Do("q1 set period=1")
			netns.Eventually(t, patience, func() error {
				if err := s.wire.Send(append(s.headers("10.0.0.51"), make([]byte, streamPayload)...)); err != nil {
					return err
				}
				if got := d.usage("10.0.0.51"); got.Bytes >= 30*quotaFrame {
					return fmt.Errorf("no other period has begun: %+v", got)
				}
				return nil
			})
			d.Do("del q1")
			d.Do("services del quota")
		})
	}
}

// tellsOfQuota checks the log.
func (d *daemon) tellsOfQuota() {
	d.t.Helper()
	netns.Eventually(d.t, patience, func() error {
		if !strings.Contains(d.out.String(), "[quota] [q1] [warning] 10.0.0.50 has used up its quota") {
			return errors.New("the log does not tell of the source")
		}
		return nil
	})
}
