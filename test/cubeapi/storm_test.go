// SPDX-License-Identifier: Apache-2.0

package cubeapi

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath"
	"github.com/polycube/polycube/test/bpftest"
)

// Requests, a timer, messages, packets and a goroutine of the cube's own change the same cube's programs at once. There
// is no deadlock, nothing is refused, and in the end the programs are those requested last.
func TestEverybodyChangesProgramsAtOnce(t *testing.T) {
	storm := func(t *testing.T, b *bench) {
		const rounds = 3
		p := b.env.Programs()
		var changes [4]atomic.Int32
		var mu sync.Mutex
		var problems []error
		do := func(who int, err error) {
			changes[who].Add(1)
			if err != nil {
				mu.Lock()
				defer mu.Unlock()
				problems = append(problems, fmt.Errorf("changer %d: %w", who, err))
			}
		}
		b.set(func() {
			b.packetIn = func(*cube.PacketIn) { do(0, p.Reload(in(20), cube.Program{Function: "leave"})) }
			b.notified = func(uint32, []byte) { do(1, p.Reload(in(21), cube.Program{Function: "other7"})) }
		})
		stop := b.env.Every(2*time.Millisecond, func() { do(2, p.Reload(in(22), cube.Program{Function: "stage3"})) })
		end := make(chan struct{})
		var own sync.WaitGroup
		own.Go(func() {
			for {
				select {
				case <-end:
					return
				default:
				}
				index, err := p.AddProgram(cube.Egress, cube.Program{Function: "out3"})
				do(3, err)
				do(3, p.DelProgram(out(index)))
			}
		})
		for range rounds {
			for _, what := range []string{"SLOWPATH", "NOTIFY", "FORWARD"} {
				b.Set("PATCH", "tw what", fmt.Sprintf("%q", what))
				b.Flood("veth1", frame(0), 3)
			}
			b.Set("PATCH", "tw stages", "3")
			b.Set("PATCH", "tw stages", "8")
		}
		stop()
		close(end)
		own.Wait()
		b.goes("in the end", whole)
		for who := range changes {
			if changes[who].Load() == 0 {
				t.Errorf("changer %d changed nothing", who)
			}
		}
		for _, err := range problems {
			t.Error(err)
		}
		t.Logf("changes by packets %d, messages %d, timer %d, goroutine %d", changes[0].Load(), changes[1].Load(),
			changes[2].Load(), changes[3].Load())
	}
	for _, typ := range []cube.Type{cube.TypeTC, cube.TypeXDPDRV} {
		t.Run(string(typ), func(t *testing.T) { // with the background inliner, as in a daemon
			t.Parallel()
			storm(t, newBench(t, bpftest.Options{Type: typ, Mode: datapath.ModeAuto}))
		})
	}
}
