// SPDX-License-Identifier: Apache-2.0

// An operator asks which cube drops packets, and gets the cube, the reason, the rate and the time.

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
)

// dropped is one line of GET /drops.
type dropped struct {
	Cube, Reason string
	Packets      uint64
	PerSecond    uint64 `json:"per-second"`
	First, Last  *time.Time
}

func (m *machine) drops(path string) []dropped {
	m.t.Helper()
	var list []dropped
	text := m.Must(http.StatusOK, http.MethodGet, "/drops"+path, "")
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		m.t.Fatalf("%s: %v", text, err)
	}
	return list
}

func TestDropsAreToldWithRateAndTime(t *testing.T) {
	t.Parallel()
	for _, kind := range types {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			d := start(t)
			host := d.lab.Host("veth1", "")
			d.Do("helloworld add h1 type=" + kind)
			d.Do("h1 ports add p1 peer=veth1")
			begin := time.Now().Add(-2 * time.Second)
			in := netns.OpenRaw(t, host, netns.Inner)
			frame := pkt.EthernetFrame([]byte{255, 255, 255, 255, 255, 255}, host.MAC, streamType, make([]byte, 50))
			netns.Eventually(t, patience, func() error {
				if err := in.Send(frame); err != nil {
					return err
				}
				for _, one := range d.drops("/h1") {
					if one.Cube == "h1" && one.Reason == "action-drop" && one.PerSecond > 0 && one.First != nil &&
						one.First.After(begin) && one.Last != nil && !one.Last.Before(*one.First) {
						return nil
					}
				}
				return fmt.Errorf("%+v, want action-drop of h1 with a rate and times after %v", d.drops(""), begin)
			})
			d.Do("h1 set action=SLOWPATH")
			if err := in.Send(frame); err != nil {
				t.Fatal(err)
			}
			netns.Eventually(t, patience, func() error {
				if d.Stats("h1").Fate(t, "slowpath") == 0 {
					return fmt.Errorf("no packet went to the slow path")
				}
				if list := d.drops("/h1"); len(list) != 1 || list[0].PerSecond != 0 {
					return fmt.Errorf("%+v, want the one old reason and a rate of 0", list)
				}
				return nil
			})
		})
	}
}
