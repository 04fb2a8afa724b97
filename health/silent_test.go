// SPDX-License-Identifier: Apache-2.0

package health

import (
	"fmt"
	"net/http"
	"net/netip"
	"os/exec"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
)

// TestSilentServersAreDownWithinIntervalTimesFall: all packets to the servers vanish at a moment between their checks. A busy
// machine makes checks later, so one of some rounds has to succeed.
func TestSilentServersAreDownWithinIntervalTimesFall(t *testing.T) {
	const interval, rounds = time.Second, 5
	if _, err := exec.LookPath("nft"); err != nil {
		t.Skip("nft is missing")
	}
	l := newLab(t)
	falls := l.silentServers(t, interval)
	for round := 1; ; round++ {
		for id := range falls {
			l.becomes(id, Up, "")
		}
		l.far.Run("nft", "add table inet silence; add chain inet silence received { type filter hook input priority 0; policy drop; }")
		fails := time.Now()
		late := ""
		for id, fall := range falls {
			took := l.becomesDown(id).Since.Sub(fails)
			if took > time.Duration(fall)*interval {
				late += fmt.Sprintf("\n%s is down after %v", id, took)
			}
			if least := time.Duration(fall-1) * interval / 2; took < least {
				t.Errorf("%s is down after %v, too early for %d checks", id, took, fall)
			}
		}
		if late == "" {
			break
		}
		if round == rounds {
			t.Fatalf("%s\n%+v", late, l.checker.Stats())
		}
		t.Logf("round %d:%s\n%+v", round, late, l.checker.Stats())
		l.far.Run("nft", "delete table inet silence")
	}
	if s := l.checker.Stats(); s.Skipped > 0 || s.Panics > 0 {
		t.Errorf("%+v", s)
	}
}

// silentServers starts checks of all kinds, and returns the Fall of each.
func (l *lab) silentServers(t *testing.T, interval time.Duration) map[string]int {
	_, cert := certificates(t)
	server, is := grpc.NewServer(), l.listen(serverIP)
	grpc_health_v1.RegisterHealthServer(server, health.NewServer())
	go func() { _ = server.Serve(is) }()
	t.Cleanup(server.Stop)
	plain := l.web(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }).to
	falls := map[string]int{}
	for kind, to := range map[Kind]netip.AddrPort{TCP: plain, HTTP: plain, HTTPS: l.webTLS(cert, text("ok")).to, GRPC: address(is), ICMP: plain} {
		for fall := 1; fall <= 4; fall++ {
			for _, tenths := range []int64{2, 6, 10} {
				id := fmt.Sprintf("%v, fall %d, timeout %d/10", kind, fall, tenths)
				falls[id] = fall
				l.set(id, Check{Kind: kind, Target: to, Interval: interval, Timeout: time.Duration(int64(interval) * tenths / 10), Rise: 1, Fall: fall, Jitter: 10, SkipVerify: true})
			}
		}
	}
	return falls
}
