// SPDX-License-Identifier: Apache-2.0

package lbrp

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
)

// TestTimedAServerThatFailsLeavesInTime: its sessions go to another server within interval times fall, even if it is
// silent.
func TestTimedAServerThatFailsLeavesInTime(t *testing.T) {
	const interval, fall, slack = 500 * time.Millisecond, 3, 200 * time.Millisecond
	for name, fails := range map[string]func(*webServer){
		"refuses": (*webServer).stop,
		"is silent": func(w *webServer) {
			w.host.Run("ip", "address", "del", strings.TrimSuffix(w.at, ":8080")+"/24", "dev", "eth0")
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := bpftest.New(t, live)
			servers := map[string]*webServer{"10.0.2.11": newWebServer(t, l, "10.0.2.11:8080"), "10.0.2.12": newWebServer(t, l, "10.0.2.12:8080")}
			l.Create("lbrp", "lb", `{`+twoPorts+`,`+checkSource+`"service":[{"vip":"10.0.0.100","vport":80,"proto":"TCP",
				"health-check":{"type":"HTTP","interval":500,"timeout":200,"fall":3,"rise":1},"backend":[{"ip":"10.0.2.11","port":8080},{"ip":"10.0.2.12","port":8080}]}]}`)
			goTo(t, l, "10.0.2.11", "10.0.2.12")
			was := sentTo(l, request("10.0.1.9", 7777, syn))
			start := time.Now()
			fails(servers[was])
			netns.Eventually(t, bpftest.Patience, func() error {
				if now := sentTo(l, request("10.0.1.9", 7777, ack)); now == was {
					return fmt.Errorf("the session still goes to %s", now)
				}
				return nil
			})
			took := time.Since(start)
			t.Logf("its sessions went to the other server after %v", took)
			if most := interval*fall + slack; took > most {
				t.Errorf("its sessions went to the other server after %v, want at most %v", took, most)
			}
		})
	}
}
