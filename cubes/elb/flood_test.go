// SPDX-License-Identifier: Apache-2.0

package elb_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/repeat"
)

// TestOpenConnectionsContinueDuringAFlood: SYNs from random sources fill the table, and all others are left to the stack. Connections
// that are open do not notice, and new ones are opened again when the half-open sessions have expired.
func TestOpenConnectionsContinueDuringAFlood(t *testing.T) {
	conf := fmt.Sprintf(`{"max-sessions":1024,"timeout":{"tcp-established":604800,"tcp-transitory":604800},"service":[%s]}`, v4.service("", v4.server))
	each(t, conf, func(t *testing.T, r *rig) {
		r.Lab.Lab.Run("ip", "neigh", "replace", v4.router, "lladdr", clientMAC, "dev", "veth1", "nud", "permanent")
		r.Lab.Lab.Run("ip", "route", "add", "default", "via", v4.router)
		const opened, rounds, size = 5, 8, 500
		type conversation struct{ is, want []byte }
		var all []conversation
		for port := uint16(5000); port < 5000+opened; port++ {
			at := source(r.open(v4, port))
			r.judged(r.reply(v4, v4.server, serverMAC, at, synAck))
			for _, is := range [][]byte{r.segment(v4, port, ack), r.reply(v4, v4.server, serverMAC, at, ack)} {
				_, want := r.judged(is)
				all = append(all, conversation{is, want})
			}
		}
		random, used := rand.New(rand.NewPCG(repeat.Seed(t), 0)), map[string]bool{}
		for round := range rounds {
			r.RunAll("veth1", r.flood(random, used, size))
			for i, c := range all {
				if out, got := r.judged(c.is); out != replies || !bytes.Equal(got, c.want) {
					t.Fatalf("round %d, packet %d of open connections: %+v\n got %x\nwant %x", round, i, out, got, c.want)
				}
			}
		}
		fresh, full := r.sessions("opened"), r.sessions("full")
		if fresh < 1024 || fresh > 2048 || fresh+full != opened+rounds*size {
			t.Errorf("%d sessions were opened and %d not, want 1024 to 2048 and %d together", fresh, full, opened+rounds*size)
		}
		if out, _ := r.judged(r.segment(v4, 6000, syn)); out != passes {
			t.Errorf("a SYN while the table is full: %+v, want %+v", out, passes)
		}
		r.Set("PUT", "e timeout", `{"tcp-established":604800,"tcp-transitory":1}`)
		netns.Eventually(t, bpftest.Patience, func() error {
			if n := r.sessions("active"); n != opened {
				return fmt.Errorf("%d sessions, want %d", n, opened)
			}
			return nil
		})
		r.open(v4, 6001)
		for i, c := range all {
			if out, got := r.judged(c.is); out != replies || !bytes.Equal(got, c.want) {
				t.Errorf("after the flood, packet %d of open connections: %+v\n got %x\nwant %x", i, out, got, c.want)
			}
		}
	})
}

// flood returns SYNs to the service from random sources that were not used before.
func (r *rig) flood(random *rand.Rand, used map[string]bool, size int) (frames [][]byte) {
	for len(frames) < size {
		from := netip.AddrFrom4([4]byte{198, 18 + byte(random.IntN(2)), byte(random.IntN(256)), byte(1 + random.IntN(254))}).String()
		port := uint16(1024 + random.IntN(60000))
		if name := fmt.Sprint(from, port); !used[name] {
			used[name] = true
			frames = append(frames, frame(clientMAC, r.mac, from, v4.vip).TCP(port, 80, syn).Bytes())
		}
	}
	return frames
}
