// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	_ "embed"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

var (
	//go:embed testdata/tally_picky.tc.o
	tallyPickyTC []byte
	//go:embed testdata/tally_picky.xdp.o
	tallyPickyXDP []byte
)

// tallyPicky is a version of tally with a program that the kernel refuses with one value of a constant.
const tallyPicky = "picky"

// TestServicesOnTrial: a program that the kernel would refuse later is refused when the service is added or updated,
// with the required constants; nothing is left of the service, and the previous version continues to run.
func TestServicesOnTrial(t *testing.T) {
	t.Parallel()
	d := start(t)
	d.Service(tallyFirst, 7001)
	d.Service(tallyPicky, 7002)
	services := func() string {
		_, text, err := d.Request(http.MethodGet, "/services", "")
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	refused := func(method, path, body string) {
		t.Helper()
		code, text, err := d.Request(method, path, body)
		if err != nil || code != http.StatusUnprocessableEntity {
			t.Errorf("%s %s: %d, %v: %s", method, path, code, err, text)
		}
		for _, says := range []string{"service tally: the ingress program at TC of a cube with netdevs as peers", "in call mode", "with strict=true",
			"the kernel's verifier refuses audit at ", "tally_picky.bpf.c:"} {
			if !strings.Contains(text, says) {
				t.Errorf("%s %s answers %s, want %q", method, path, text, says)
			}
		}
	}
	before := services()
	refused(http.MethodPost, "/services", `{"type":"grpc","uri":"127.0.0.1:7002","name":"tally"}`)
	if now := services(); now != before {
		t.Errorf("after a service was refused there are %s, before %s", now, before)
	}
	code, text, err := d.Request(http.MethodPost, "/services", `{"type":"grpc","uri":"127.0.0.1:7001","name":"tally"}`)
	var trial struct{ Programs, Combinations, Verified, Milliseconds, Untried int }
	if err == nil {
		err = json.Unmarshal([]byte(text), &trial)
	}
	if err != nil || code != http.StatusOK || trial.Programs < 8 || trial.Combinations < 3 || trial.Verified < 1000 || trial.Milliseconds == 0 || trial.Untried != 0 {
		t.Errorf("a service that is accepted: %d, %v: %s", code, err, text)
	}
	hosts := d.twoHosts("TC")
	stream := startStream(t, hosts[0], hosts[2])
	stream.Flowing(400)
	last := d.counted()
	refused(http.MethodPatch, "/services/tally", `{"uri":"127.0.0.1:7002"}`)
	stream.Flowing(200)
	if now := d.counted(); now <= last {
		t.Errorf("after an update that was refused the version before has counted %d packets, before %d", now, last)
	}
	d.Do("t1 set mark=9")
	stream.Stop()
	d.Kill9()
	d = d.machine.Start()
	d.turns("t1", false)
	d.refuses("services update tally uri=127.0.0.1:7002", "with strict=true")
}
