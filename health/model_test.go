// SPDX-License-Identifier: Apache-2.0

package health

import (
	"encoding/json"
	"errors"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/inet"
	"github.com/polycube/polycube/test/modeltest"
)

// balancer is a service that uses the groupings.
const balancer = `module balancer {
	yang-version 1.1; namespace "urn:polycube:test:balancer"; prefix balancer;
	import polycube-standard-base { prefix sb; }
	import polycube-health { prefix health; }
	uses sb:standard-base-yang-module;
	container health-check { uses health:check; uses health:check-source; }
	list server { key name; leaf name { type string; } uses health:health-state; }
}`

// sourced are both groupings of a check.
type sourced struct {
	Config
	Source SourceConfig `json:"source"`
}

type balancerConfig struct {
	HealthCheck sourced `json:"health-check"`
	Server      []struct {
		Name string `json:"name"`
	} `json:"server"`
}

func TestModel(t *testing.T) { modeltest.Match(t, modeltest.Load(t, balancer), balancerConfig{}) }

// TestEveryLeafIsAMemberOfTheCheck: each leaf, set to another value, changes the check.
func TestEveryLeafIsAMemberOfTheCheck(t *testing.T) {
	server := netip.MustParseAddrPort("10.0.0.2:80")
	var none Config
	base := none.Check(server)
	if base.Kind != None || base.Target != server || base.SkipVerify {
		t.Errorf("%+v", base)
	}
	for text, change := range map[string]func(*Check){
		`{"type": "GRPC"}`:                    func(c *Check) { c.Kind = GRPC },
		`{"address": "10.0.0.10"}`:            func(c *Check) { c.Target = netip.MustParseAddrPort("10.0.0.10:80") },
		`{"port": 8080}`:                      func(c *Check) { c.Target = netip.MustParseAddrPort("10.0.0.2:8080") },
		`{"interval": 1500}`:                  func(c *Check) { c.Interval = 1500 * time.Millisecond },
		`{"timeout": 50}`:                     func(c *Check) { c.Timeout = 50 * time.Millisecond },
		`{"rise": 7}`:                         func(c *Check) { c.Rise = 7 },
		`{"fall": 8}`:                         func(c *Check) { c.Fall = 8 },
		`{"jitter": 9}`:                       func(c *Check) { c.Jitter = 9 },
		`{"initial-state": "DOWN"}`:           func(c *Check) { c.Initial = Down },
		`{"http": {"method": "HEAD"}}`:        func(c *Check) { c.Method = "HEAD" },
		`{"http": {"host": "a.test"}}`:        func(c *Check) { c.Host = "a.test" },
		`{"http": {"path": "/x"}}`:            func(c *Check) { c.Path = "/x" },
		`{"http": {"expected-status": 204}}`:  func(c *Check) { c.Status = []StatusRange{{204, 204}} },
		`{"http": {"body": "well"}}`:          func(c *Check) { c.Body = "well" },
		`{"http": {"body-pattern": "w.*"}}`:   func(c *Check) { c.BodyPattern = "w.*" },
		`{"grpc": {"service": "shop"}}`:       func(c *Check) { c.Service = "shop" },
		`{"grpc": {"tls": true}}`:             func(c *Check) { c.TLS = true },
		`{"tls": {"verify": false}}`:          func(c *Check) { c.SkipVerify = true },
		`{"tls": {"server-name": "b.test"}}`:  func(c *Check) { c.ServerName = "b.test" },
		`{"tls": {"ca-file": "/ca.pem"}}`:     func(c *Check) { c.CAFile = "/ca.pem" },
		`{"source": {"address": "10.0.0.5"}}`: func(c *Check) { c.Source = netip.MustParseAddr("10.0.0.5") },
		`{"source": {"ports": "2000-2999"}}`:  func(c *Check) { c.SourcePorts = inet.Ports{First: 2000, Last: 2999} },
		`{"source": {"mark": 119}}`:           func(c *Check) { c.Mark = 119 },
		`{"source": {"device": "eth1"}}`:      func(c *Check) { c.Device = "eth1" },
		`{"http": {"expected-status": "200-204,302"}, "tls": {"verify": true}}`: func(c *Check) { c.Status = []StatusRange{{200, 204}, {302, 302}} },
	} {
		var config sourced
		if err := json.Unmarshal([]byte(text), &config); err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		want := base
		change(&want)
		got := config.Source.From(config.Check(server))
		got.Status, want.Status = append([]StatusRange{}, got.Status...), append([]StatusRange{}, want.Status...)
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\n%+v, want\n%+v", text, got, want)
		}
	}
}

func TestConfigurationsThatAreRefused(t *testing.T) {
	for _, text := range []string{
		`{"type": "UDP"}`, `{"initial-state": "up"}`, `{"http": {"expected-status": "200-"}}`, `{"http": {"expected-status": 99}}`,
		`{"http": {"expected-status": ""}}`, `{"source": {"ports": "9-8"}}`,
	} {
		var config sourced
		if err := json.Unmarshal([]byte(text), &config); !errors.Is(err, cube.ErrInvalid) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestTheModelTakesWhatTheCodeTakes: values of both ends of each range, and those beyond.
func TestTheModelTakesWhatTheCodeTakes(t *testing.T) {
	schema := modeltest.Load(t, balancer)
	for path, values := range map[string][2][]string{ // accepted, refused
		"health-check/type":                 {kindNames, {"UDP"}},
		"health-check/initial-state":        {statusNames, {"MAYBE"}},
		"health-check/interval":             {{"100", "3600000"}, {"99", "3600001"}},
		"health-check/timeout":              {{"10", "3600000"}, {"9"}},
		"health-check/rise":                 {{"1", "100"}, {"0", "101"}},
		"health-check/fall":                 {{"1", "100"}, {"0", "101"}},
		"health-check/jitter":               {{"0", "50"}, {"51"}},
		"health-check/http/method":          {methods, {"PUT"}},
		"health-check/http/path":            {{"/", "/a?b=%20"}, {"a", "/a b", "/\n"}},
		"health-check/http/expected-status": {{"200", "200-299,302", "599"}, {"99", "600", "2xx", "200-"}},
		"health-check/source/ports":         {{"1", "20000-29999"}, {"x"}},
		"health-check/source/device":        {{"", "eth1"}, {"a/b", strings.Repeat("x", 16)}},
	} {
		node, _, err := schema.Resolve(strings.Split(path, "/"))
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		for i, list := range values {
			for _, value := range list {
				if err := node.Accepts(value); (err == nil) != (i == 0) {
					t.Errorf("%s %q: %v", path, value, err)
				}
			}
		}
	}
}

func TestStatesInTheFormOfTheModel(t *testing.T) {
	moment := time.Date(2026, 11, 28, 20, 0, 0, 0, time.FixedZone("", 3600))
	text, err := json.Marshal(State{Status: Down, Since: moment, Error: "connection refused", Latency: 1500 * time.Microsecond,
		Checked: moment, Checks: 9, Failed: 3}.View())
	want := `{"status":"DOWN","since":"2026-11-28T19:00:00Z","last-error":"connection refused","last-check":"2026-11-28T19:00:00Z",` +
		`"latency":1500,"checks":9,"failed-checks":3}`
	if err != nil || string(text) != want {
		t.Errorf("%s, %v", text, err)
	}
	if text, _ := json.Marshal(State{}.View()); string(text) != `{"status":"UNKNOWN","checks":0,"failed-checks":0}` {
		t.Errorf("%s", text)
	}
}

func TestServersThatAreNotCheckedAreUp(t *testing.T) {
	var log changes
	c := newChecker(t, Options{Changed: log.changed})
	if err := c.Set("s", Check{}); err != nil {
		t.Fatal(err)
	}
	if is, ok := c.State("s"); !ok || is.Status != Up || is.Checks != 0 {
		t.Errorf("%+v", is)
	}
	if err := c.Report("s", false, ""); !errors.Is(err, cube.ErrInvalid) {
		t.Error(err)
	}
}
