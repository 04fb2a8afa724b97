// SPDX-License-Identifier: Apache-2.0

// A service in Go as a whole, written with the SDK: the other example in examples/services.

package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/polycube/polycube/test/lint/readme"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
)

// goService compiles a service to where services are started from.
func goService(t testing.TB, folder string) string {
	t.Helper()
	path := filepath.Join(installed(t), filepath.Base(folder))
	cmd := exec.Command("go", "build", "-o", path, ".")
	cmd.Dir, cmd.Env = folder, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("compiling %s: %v: %s", folder, err, out)
	}
	return path
}

func TestRateLimit(t *testing.T) {
	t.Parallel()
	path := goService(t, "../../examples/services/ratelimit")
	for _, kind := range types {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			d := start(t)
			h1, h2 := d.lab.Host("veth1", "10.0.0.1/24"), d.lab.Host("veth2", "10.0.0.2/24")
			d.Do("simplebridge add br1 type=" + kind)
			d.Do("br1 ports add p1 peer=veth1")
			d.Do("br1 ports add p2 peer=veth2")
			d.Do("services add type=lib uri=" + path + " name=ratelimit")
			d.Do("ratelimit add r1 rate=1 burst=10 type=" + kind)
			reaches(t, h1, "10.0.0.2")
			d.Do("attach r1 br1:p1")
			in, out := netns.OpenRaw(t, h1, netns.Inner), netns.OpenRaw(t, h2, netns.Inner)
			frame := pkt.EthernetFrame(h2.MAC, h1.MAC, streamType, bytes.Repeat([]byte{7}, 50))
			for range 50 {
				if err := in.Send(frame); err != nil {
					t.Fatal(err)
				}
			}
			arrived := 0
			for {
				if _, err := out.Recv(isStream, patience/40); err != nil {
					break
				}
				arrived++
			}
			// The host's own packets use a part of the burst, and each second one more packet may pass.
			if arrived < 5 || arrived > 14 {
				t.Errorf("%d of 50 frames arrived, want about 10", arrived)
			}
			if n := d.Stats("r1").Fate(t, "over-rate"); n < 36 || n > 60 {
				t.Errorf("%d packets were dropped as over-rate, want about 40", n)
			}
			d.tellsOfSender(t, h1)
			d.Do("r1 set rate=100000")
			d.Do("r1 set burst=1000")
			reaches(t, h1, "10.0.0.2", netns.PingOptions{Count: 20})
			d.Do("r1 senders forget")
			if got := d.Do("r1 senders sender show"); strings.Contains(got, h1.MAC.String()) && strings.Contains(got, " 4") {
				t.Errorf("it remembers: %s", got)
			}
			d.Do("del r1")
			d.Do("services del ratelimit")
		})
	}
}

// tellsOfSender checks state and log.
func (d *daemon) tellsOfSender(t *testing.T, h *netns.Node) {
	t.Helper()
	var state struct {
		Sender []struct {
			Address          string
			Packets, Dropped uint64 `json:",string"`
		}
	}
	d.Get("/ratelimit/r1/senders", &state)
	found := false
	for _, s := range state.Sender {
		found = found || s.Address == h.MAC.String() && s.Packets >= 50 && s.Dropped >= 36
	}
	if !found {
		t.Errorf("the senders are %+v, want %s", state.Sender, h.MAC)
	}
	netns.Eventually(t, patience, func() error {
		if !strings.Contains(d.out.String(), "[ratelimit] [r1] [warning] a sender exceeds its rate address="+h.MAC.String()) {
			return errors.New("the log does not tell of the sender")
		}
		return nil
	})
}

// TestTheReadmesOfServices executes their examples. Only the installation path of a service differs.
func TestTheReadmesOfServices(t *testing.T) {
	t.Parallel()
	for name, install := range map[string]func(testing.TB) string{
		"portknock": func(t testing.TB) string { return pythonService(t, "polycube-portknock") },
		"quota":     func(t testing.TB) string { return pythonService(t, "polycube-quota") },
		"ratelimit": func(t testing.TB) string { return goService(t, "../../examples/services/ratelimit") },
		"hostguard": func(t testing.TB) string { return goService(t, "../../examples/services/hostguard") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, err := os.Open(fmt.Sprintf("../../examples/services/%s/README.md", name))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			examples, err := readme.Parse(f)
			if err != nil || len(examples) == 0 {
				t.Fatalf("no examples: %v", err)
			}
			d := start(t)
			hosts := threeHosts(d.machine, v4)
			d.execute(examples, "export SERVICE="+install(t)+"\n", hosts[:]...)
			if status, _, err := d.Request(http.MethodGet, "/services/"+name, ""); err != nil || status != http.StatusNotFound {
				t.Errorf("the service is left: %d, %v", status, err)
			}
		})
	}
}
