// SPDX-License-Identifier: Apache-2.0

package pbforwarder

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/polycube/polycube/test/modeltest"
)

func TestValuesOfTheModelAreRead(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{`{"src_ip":"10.0.0.1"}`, "10.0.0.1/32"},
		{`{"src_ip":"10.0.0.1/8"}`, "10.0.0.0/8"},
		{`{"src_ip":"2001:db8::1"}`, "2001:db8::1/128"},
		{`{"src_ip":"::/0"}`, "::/0"},
	} {
		var r Rule
		if err := json.Unmarshal([]byte(tt.text), &r); err != nil || r.SrcIP.String() != tt.want {
			t.Errorf("%s: got %+v and error %v, want %s", tt.text, r.SrcIP, err, tt.want)
		}
	}
	for _, tt := range []struct {
		text string
		want Ports
	}{
		{`{"dst_port":0}`, Ports{0, 0}}, {`{"dst_port":443}`, Ports{443, 443}}, {`{"dst_port":"443"}`, Ports{443, 443}},
		{`{"dst_port":"0-65535"}`, Ports{0, 65535}}, {`{"dst_port":"7-7"}`, Ports{7, 7}},
	} {
		var r Rule
		if err := json.Unmarshal([]byte(tt.text), &r); err != nil || *r.DstPort != tt.want {
			t.Errorf("%s: got %+v and error %v, want %v", tt.text, r.DstPort, err, tt.want)
		}
	}
	var r Rule
	const masked = `{"dst_mac":"01:80:C2:00:00:00/ff:ff:ff:ff:ff:f0"}`
	if err := json.Unmarshal([]byte(masked), &r); err != nil || r.DstMAC.Address != [6]byte{1, 0x80, 0xc2} || r.DstMAC.Mask != [6]byte{255, 255, 255, 255, 255, 0xf0} {
		t.Errorf("%s: got %+v and error %v", masked, r.DstMAC, err)
	}
	for _, wrong := range []string{
		`{"src_ip":"10.0.0"}`, `{"dst_port":"9-8"}`, `{"dst_port":"1-65536"}`, `{"dst_port":"-"}`, `{"l4_proto":256}`, `{"l4_proto":"X"}`,
		`{"src_mac":"02:00:00:00:00:01:02:03"}`, `{"action":"BOUNCE"}`,
	} {
		if err := json.Unmarshal([]byte(wrong), new(Rule)); err == nil {
			t.Errorf("%s: no error", wrong)
		}
	}
}

// The names of protocols are in the model and in the code.
func TestProtocolsHaveTheNumbersOfTheModel(t *testing.T) {
	_, text, _ := strings.Cut(modeltest.Service(t, files).Model, "typedef protocol-match")
	text, _, _ = strings.Cut(text, "uses polycube-standard-base")
	found := regexp.MustCompile(`enum (\w+) \{\s*description\s*"(\d+),`).FindAllStringSubmatch(text, -1)
	if len(found) != len(protocols) {
		t.Errorf("the model has %d names, the code %d", len(found), len(protocols))
	}
	for _, m := range found {
		var r Rule
		if err := json.Unmarshal([]byte(`{"l4_proto":"`+m[1]+`"}`), &r); err != nil {
			t.Error(err)
			continue
		}
		if got, err := json.Marshal(*r.L4Proto); err != nil || string(got) != m[2] {
			t.Errorf("%s is %s (error %v), the model says %s", m[1], got, err, m[2])
		}
	}
}
