// SPDX-License-Identifier: Apache-2.0

package simplebridge

import (
	"reflect"
	"testing"
	"time"

	"github.com/polycube/polycube/fdb"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/modeltest"
)

func TestModelAndCodeSayTheSame(t *testing.T) {
	schema := modeltest.Load(t, modeltest.Service(t, files).Model)
	modeltest.Match(t, schema, Config{})
	modeltest.MatchEntry(t, schema, "fdb/entry", Entry{})
	for _, object := range modeltest.Service(t, files).Objects {
		bpftest.Layout(t, object, "fdb", fdb.Entry{})
	}
}

func TestConstantsFollowTheAgingTime(t *testing.T) {
	const second = uint64(time.Second)
	for _, tt := range []struct {
		seconds        uint32
		aging, refresh uint64
	}{
		{300, 300 * second, second}, {10, 10 * second, second}, {1, second, second / 10}, {0, 0, second},
		{4294967295, 4294967295 * second, second},
	} {
		want := fdb.Constants(0, 4096)
		want["aging_ns"], want["refresh_ns"] = tt.aging, tt.refresh
		if got := (Fdb{AgingTime: tt.seconds, MaxEntries: 4096}).constants(); !reflect.DeepEqual(got, want) {
			t.Errorf("aging-time %d: constants %v, want %v", tt.seconds, got, want)
		}
	}
}

func TestARestartKeepsWhatIsKnown(t *testing.T) {
	bpftest.Each(t, bpftest.Options{}, func(t *testing.T, l *bpftest.Lab) {
		l.Create("simplebridge", "br", threePorts)
		l.Set("POST", "br fdb entry "+three, `{"port":"p3"}`)
		walk(t, l, []step{{"learn", "veth2", frame(two, one), flood("br:p1 br:p3")}})
		l.Restart(nil)
		wantShown(t, l, map[string]string{two: "p2", three: "p3"})
		walk(t, l, []step{
			{"the learned address", "veth1", frame(one, two), send("br:p2")},
			{"the configured address", "veth1", frame(one, three), send("br:p3")},
		})
		l.Set("DELETE", "br fdb entry "+three, "")
		walk(t, l, []step{{"the configuration is in force", "veth1", frame(one, three), flood("br:p2 br:p3")}})
	})
}
