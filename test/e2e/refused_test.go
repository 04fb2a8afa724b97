// SPDX-License-Identifier: Apache-2.0

// The messages that the author of a service gets when the kernel refuses a program, and that nothing has changed.

package e2e

import (
	_ "embed"
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"testing"
)

var (
	//go:embed testdata/tally_forgetful.tc.o
	tallyForgetfulTC []byte
	//go:embed testdata/tally_forgetful.xdp.o
	tallyForgetfulXDP []byte
)

// tallyForgetful is a version of tally whose program is refused with a mark.
const (
	tallyForgetful = "forgetful"
	markForgets    = "77"
)

// refusedPrinted is polycubectl's output, the beginning of each line.
var refusedPrinted = regexp.MustCompile(`(?s)^[^\n]*cube t1 \(tally\): the kernel's verifier refuses pcn_ingress at [^\n]*tally\.h:\d+: ` +
	`R\d invalid mem access '(scalar|map_value_or_null)'\n` +
	` +\d+ \| c->packets [^\n]*\n` +
	`  Hint: the pointer may be NULL[^\n]*\n` +
	`  The verifier's last steps:\n` +
	`.*\n  +\d+: \([0-9a-f]{2}\) [^\n]*\n` +
	`  +R\d invalid mem access '(scalar|map_value_or_null)'\n` +
	`  It processed \d+ instructions of a program of \d+\.\n$`)

func TestAServiceWhoseProgramIsRefusedIsToldWhere(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"TC", "XDP_DRV"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			d := start(t)
			d.Service(tallyForgetful, 7001)
			d.Do("services add type=grpc uri=127.0.0.1:7001 name=tally")
			hosts := d.twoHosts(kind)
			before, history := d.Do("export"), d.Do("history -json")
			stream := startStream(t, hosts[0], hosts[2])
			stream.Flowing(200)

			r := d.CLI("t1", "set", "mark="+markForgets)
			if r.code != 2 || r.stdout != "" || !refusedPrinted.MatchString(r.stderr) {
				t.Errorf("the refusal reads %s", r)
			}
			answer := d.Must(http.StatusUnprocessableEntity, "PATCH", "/tally/t1/mark", markForgets)
			var body map[string]struct{ Error []map[string]any }
			if err := json.Unmarshal([]byte(answer), &body); err != nil {
				t.Fatal(err)
			}
			if e := body["ietf-restconf:errors"].Error; len(e) != 1 || e[0]["error-tag"] != "program-refused" || strings.Contains(e[0]["error-message"].(string), "\n") {
				t.Errorf("the error is %s", answer)
			}
			d.Must(http.StatusUnprocessableEntity, "POST", "/tally/t2", `{"type":"`+kind+`","mark":`+markForgets+`}`)
			d.Do("t1 set mark=8") // the next change is not affected
			d.Do("t1 set mark=7")

			if now := d.Do("export"); now != before {
				t.Errorf("the configuration is\n%s\nbefore it was\n%s", now, before)
			}
			var revisions, was struct{ Revisions []json.RawMessage }
			if err := json.Unmarshal([]byte(d.Do("history -json")), &revisions); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal([]byte(history), &was); err != nil {
				t.Fatal(err)
			}
			if len(was.Revisions) == 0 || len(revisions.Revisions) != len(was.Revisions)+2 {
				t.Errorf("there are %d revisions, before there were %d, and 2 changes were made", len(revisions.Revisions), len(was.Revisions))
			}
			stream.Flowing(200)
			stream.Stop()
			log := d.out.String()
			if n := strings.Count(log, "the verifier refused a program of a cube"); n != 3 {
				t.Errorf("the log has it %d times, want once for each of 3:\n%s", n, tail(log, 20))
			}
			for _, want := range []string{"cube=t1", "service=tally", "function=pcn_ingress", "tally.h", "line="} {
				if !strings.Contains(log, want) {
					t.Errorf("the log has no %s", want)
				}
			}
		})
	}
}
