// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"maps"
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
		bpftest.Layout(t, object, "ports", portEntry{})
		bpftest.Layout(t, object, "bpdus", bpdus{})
	}
}

// Where all ports are in one VLAN, the program has nothing of VLANs.
func TestConstantsFollowTheConfiguration(t *testing.T) {
	access := func(vlans ...uint16) (out []Port) {
		for _, vlan := range vlans {
			out = append(out, Port{Access: Access{VLANID: vlan}})
		}
		return out
	}
	const second = uint64(time.Second)
	table := Fdb{AgingTime: 300, MaxEntries: 1024}
	plain := fdb.Constants(300*time.Second, 1024)
	maps.Copy(plain, map[string]any{"vlan_aware": false, "only_vlan": uint16(1), "stp_enabled": false})
	but := func(pairs ...any) map[string]any {
		m := maps.Clone(plain)
		for i := 0; i < len(pairs); i += 2 {
			m[pairs[i].(string)] = pairs[i+1]
		}
		return m
	}
	for name, tt := range map[string]struct {
		config Config
		want   map[string]any
	}{
		"no ports":           {Config{Fdb: table}, plain},
		"all in VLAN 1":      {Config{Fdb: table, Ports: access(1, 1, 1)}, plain},
		"all in VLAN 9":      {Config{Fdb: table, Ports: access(9, 9)}, but("only_vlan", uint16(9))},
		"two VLANs":          {Config{Fdb: table, Ports: access(1, 9)}, but("vlan_aware", true)},
		"a trunk":            {Config{Fdb: table, Ports: []Port{{Mode: ModeTrunk}}}, but("vlan_aware", true)},
		"spanning trees":     {Config{Fdb: table, Ports: access(1, 1), STPEnabled: true}, but("vlan_aware", true, "stp_enabled", true)},
		"a short aging time": {Config{Fdb: Fdb{AgingTime: 1, MaxEntries: 1024}}, but("aging_ns", second, "refresh_ns", second/10)},
		"no aging":           {Config{Fdb: Fdb{MaxEntries: 1024}}, but("aging_ns", uint64(0))},
		"the longest":        {Config{Fdb: Fdb{AgingTime: 4294967295, MaxEntries: 1024}}, but("aging_ns", 4294967295*second)},
		"a small table":      {Config{Fdb: Fdb{AgingTime: 300, MaxEntries: 65}}, but("cache_shift", uint32(25))},
	} {
		if got := tt.config.constants(); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: constants %v, want %v", name, got, tt.want)
		}
	}
}

func TestVLANsOfPorts(t *testing.T) {
	trunk := Trunk{DefaultVLAN: true, NativeVLANEnabled: true, NativeVLAN: 20, Allowed: []Allowed{{10}, {4094}, {63}, {64}}}
	untagged := trunk
	untagged.NativeVLANEnabled, untagged.DefaultVLAN = false, false
	for _, tt := range []struct {
		port   Port
		vlans  []uint16
		native uint16
		has    bool
	}{
		{Port{Access: Access{VLANID: 7}, Trunk: trunk}, []uint16{7}, 7, true},
		{Port{Mode: ModeTrunk, Trunk: trunk}, []uint16{1, 10, 20, 63, 64, 4094}, 20, true},
		{Port{Mode: ModeTrunk, Trunk: untagged}, []uint16{10, 63, 64, 4094}, 0, false},
	} {
		native, has := tt.port.untaggedVLAN()
		if got := tt.port.vlans(); !reflect.DeepEqual(got, tt.vlans) || native != tt.native || has != tt.has {
			t.Errorf("%+v: VLANs %v, native %d %v", tt.port, got, native, has)
		}
	}
}
