// SPDX-License-Identifier: Apache-2.0

package nat

// Uploads through SNAT, compared with the same ones through a router that does not translate.

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"testing"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pace"
)

// iperf uploads for a second with iperf3 and returns the bits per second that arrived.
func iperf(t *testing.T, inside, outside *netns.Node, address string) (rate float64) {
	t.Helper()
	server := outside.Command("iperf3", "--server", "--one-off", "--bind", address)
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = server.Process.Kill() // it ends by itself after an upload
		_ = server.Wait()
	}()
	netns.Eventually(t, pace.Stretch(20*time.Second), func() error { // until the server listens
		out, err := inside.Command("iperf3", "--client", address, "--time", "1", "--json").Output()
		if err != nil {
			return fmt.Errorf("iperf3: %w: %.300s", err, out)
		}
		var result struct {
			End struct {
				Received struct {
					Rate float64 `json:"bits_per_second"`
				} `json:"sum_received"`
			}
		}
		if err := json.Unmarshal(out, &result); err != nil {
			return fmt.Errorf("iperf3: %w: %.300s", err, out)
		}
		rate = result.End.Received.Rate
		return nil
	})
	return rate
}

// TestTimedUploadThroughSNAT: an upload is not slowed down by segmenting superframes or computing checksums in
// software: either would leave less than a third.
func TestTimedUploadThroughSNAT(t *testing.T) {
	netns.NeedRoot(t)
	if _, err := exec.LookPath("iperf3"); err != nil {
		t.Skip("iperf3 is not installed")
	}
	e := newEdge(t, cube.TypeTC, `{"rule":{"snat":{"entry":[{"id":1,"internal-net":"10.0.0.0/24","external-ip":"203.0.113.1"}]}}}`)
	_, plain := linuxRouter(t)
	plain[inside].Run("ip", "addr", "add", insideIP+"/24", "dev", netns.Inner)
	plain[outside].Run("ip", "addr", "add", outsideIP+"/24", "dev", netns.Inner)
	plain[inside].Run("ip", "route", "add", "default", "via", "10.0.0.1")
	plain[outside].Run("ip", "route", "add", "default", "via", edgeIP)
	var with, without float64
	for round := 0; round < 3 || round < 12 && with < without/2; round++ { // the best of each: disturbances do not affect all runs
		with = max(with, iperf(t, e.inside, e.outside, outsideIP))
		without = max(without, iperf(t, plain[inside], plain[outside], outsideIP))
	}
	packets, size := e.outward()
	t.Logf("%.1f Gbit/s with SNAT, %.1f without; %d bytes in %d packets", with/1e9, without/1e9, size, packets)
	if with < without/2 {
		t.Errorf("an upload comes to %.1f Gbit/s, without SNAT to %.1f", with/1e9, without/1e9)
	}
	if packets == 0 || size/packets < 4*1514 {
		t.Errorf("%d bytes went out in %d packets: superframes were cut on their way", size, packets)
	}
}
