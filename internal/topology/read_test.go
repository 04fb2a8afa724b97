// SPDX-License-Identifier: Apache-2.0

package topology

// What reads show: configuration, state and the framework's members in one document, in the model's order.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/yang"
)

func TestReads(t *testing.T) {
	l := newLab(t, "veth1")
	l.must(`create toybridge br <<< {"ports":[{"name":"p1","peer":"veth1","mac":"<m>"},{"name":"p2"}],"fdb":{"entry":[{"address":"bb","port":"p1"}]}}`,
		`create toyfilter th`, `attach th br:p1`)
	l.b.learned["aa"], l.b.learned["bb"] = "p2", "p1"
	rec := l.view.Load().Cubes["br"]
	uuid := func(name string) string { return rec.Ports[name].UUID }
	p1 := `{"name":"p1","uuid":"` + uuid("p1") + `","status":"UP","peer":"veth1","tcubes":["th"],"mac":"<m>","packets":9223372036854775808}`
	p2 := `{"name":"p2","uuid":"` + uuid("p2") + `","status":"DOWN","peer":"","tcubes":[]}`
	// In the order of their keys: bb is configured, and has what the state adds, aa was learned.
	const entries = `[{"address":"aa","port":"p2","age":7},{"address":"bb","port":"p1","age":7}]`
	th := l.view.Load().Cubes["th"].UUID
	cases := []struct{ name, path, want string }{
		{"br", "", `{"name":"br","uuid":"` + rec.UUID + `","service-name":"toybridge","type":"TC","loglevel":"INFO","shadow":false,"span":false,` +
			`"ports":[` + p1 + `,` + p2 + `],"fdb":{"aging-time":300,"entry":` + entries + `}}`},
		{"th", "", `{"name":"th","uuid":"` + th + `","service-name":"toyfilter","type":"TC","loglevel":"INFO","parent":"br:p1","ingress-action":"PASS"}`},
		{"br", "ports", `[` + p1 + `,` + p2 + `]`},
		{"br", "ports p1", p1},
		{"br", "ports p1 packets", `9223372036854775808`},
		{"br", "ports p2 peer", `""`},
		{"br", "ports p1 tcubes", `["th"]`},
		{"br", "ports p1 tcubes th", `"th"`},
		{"br", "fdb", `{"aging-time":300,"entry":` + entries + `}`},
		{"br", "fdb entry", entries},
		{"br", "fdb entry aa", `{"address":"aa","port":"p2","age":7}`},
		{"br", "fdb entry aa age", `7`},
		{"br", "uuid", `"` + rec.UUID + `"`},
		{"br", "shadow", `false`},
		{"th", "parent", `"br:p1"`},
	}
	for _, c := range cases {
		l.wantRead(c.want, c.name, strings.Fields(c.path)...)
	}
	missing := []struct {
		name, path string
		tag        yang.Tag
	}{
		{"br", "ports p9", yang.DataMissing}, {"br", "ports p9 peer", yang.DataMissing}, {"br", "note", yang.DataMissing},
		{"br", "ports gone", yang.DataMissing}, {"br", "fdb entry cc", yang.DataMissing}, {"br", "ports p1 tcubes no", yang.DataMissing},
		{"br", "fdb flush", yang.OperationNotSupported}, {"br", "nope", yang.BadElement},
	}
	for _, c := range missing {
		_, err := l.read(c.name, strings.Fields(c.path)...)
		var refused *yang.Error
		if !errors.As(err, &refused) || refused.Tag != c.tag {
			t.Errorf("reading %s %s answers %v, want %s", c.name, c.path, err, c.tag)
		}
	}
	for service, name := range map[string]string{"toybridge": "nope", "toyfilter": "br"} {
		if _, err := l.Read(context.Background(), service, name, nil); !errors.Is(err, cube.ErrNotFound) {
			t.Errorf("reading %s %s answers %v", service, name, err)
		}
	}
	if want := l.state().shown; !json.Valid([]byte(want)) || !strings.HasPrefix(want, `[{"name":"br","uuid":"`+rec.UUID+
		`","service-name":"toybridge","type":"TC","loglevel":"INFO","shadow":false,"span":false,"ports":[{"name":"p1","uuid":"`+uuid("p1")+
		`","status":"UP","peer":"veth1","tcubes":["th"]},`) {
		t.Errorf("the topology is %s", want)
	}
}

func TestStateThatCannotBeReadIsAnError(t *testing.T) {
	l := newLab(t)
	l.must(bridges[0])
	l.b.setFail(failAt("br1 State", nil))
	if _, err := l.read("br1"); !errors.Is(err, errInjected) {
		t.Errorf("answers %v", err)
	}
}

func TestServicesAndCounters(t *testing.T) {
	l := newLab(t)
	l.must(bridges...)
	s := l.Services()
	if len(s) != 2 || s[0].Name != "toybridge" || s[0].Version != "1.2.3" || s[0].Description != "bridge for tests" || s[0].MinKernel != "6.1" ||
		s[0].Transparent || !s[1].Transparent || !strings.Contains(s[1].Model, "module toyfilter") || s[0].Controller != "builtin" {
		t.Errorf("services are %+v", s)
	}
	if _, err := l.Schema("nope"); !errors.Is(err, cube.ErrNotFound) {
		t.Errorf("an unknown service answers %v", err)
	}
	if c, err := l.PortStats("br2", "p1"); err != nil || c.RxPackets != 2 {
		t.Errorf("counters of slot 2 are %+v, %v", c, err)
	}
	if _, err := l.PortStats("br2", "p9"); !errors.Is(err, cube.ErrNotFound) {
		t.Errorf("counters of no port: %v", err)
	}
	if f, err := l.Fates("br2"); err != nil || fmt.Sprint(f) != "[{pass false 2}]" {
		t.Errorf("fates are %v, %v", f, err)
	}
	if st, err := l.Status("br2"); err != nil || st.Mode != "inline" {
		t.Errorf("status is %v, %v", st, err)
	}
	if _, err := l.Fates("nope"); !errors.Is(err, cube.ErrNotFound) {
		t.Errorf("fates of no cube: %v", err)
	}
}

func TestServicesThatCannotBeLoaded(t *testing.T) {
	good := toyServices(t, &behaviour{})
	noCode := good[0]
	noCode.New = nil
	cases := []struct {
		name     string
		services []cube.Service
		says     string
	}{
		{"no model", []cube.Service{{}}, "service 0: its model"},
		{"the same twice", []cube.Service{good[0], good[0]}, "the name is in use by another service"},
		{"no constructor", []cube.Service{noCode}, "no constructor"},
		{"a reserved name", []cube.Service{{Model: strings.ReplaceAll(good[1].Model, "toyfilter", "attach"), New: good[1].New}}, "reserved for the command line"},
	}
	for _, c := range cases {
		if _, err := New(Options{Datapath: newFakePlane(), Netdevs: newFakeNetdevs(), Services: c.services}); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", c.name, err, c.says)
		}
	}
	if _, err := New(Options{}); err == nil {
		t.Error("a manager without a data plane is made")
	}
}
