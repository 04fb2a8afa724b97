// SPDX-License-Identifier: Apache-2.0

package pbforwarder

import (
	"encoding/json"
	"testing"

	"github.com/polycube/polycube/inet"
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
		want inet.Ports
	}{
		{`{"dst_port":0}`, inet.Ports{First: 0, Last: 0}}, {`{"dst_port":443}`, inet.Ports{First: 443, Last: 443}}, {`{"dst_port":"443"}`, inet.Ports{First: 443, Last: 443}},
		{`{"dst_port":"0-65535"}`, inet.Ports{First: 0, Last: 65535}}, {`{"dst_port":"7-7"}`, inet.Ports{First: 7, Last: 7}},
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
