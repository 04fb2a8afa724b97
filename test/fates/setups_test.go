// SPDX-License-Identifier: Apache-2.0

package fates

import (
	_ "embed"
	"encoding/base64"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/pace"
)

var (
	//go:embed testdata/monitor.tc.o
	monitorTC []byte
	//go:embed testdata/monitor.xdp.o
	monitorXDP []byte
)

// monitors are compiled, since other kernels run these tests where there is no compiler.
var monitors = map[cube.Hook][]byte{cube.TC: monitorTC, cube.XDP: monitorXDP}

// three are ports at the three hosts.
const three = `"ports":[{"name":"p1","peer":"veth1"},{"name":"p2","peer":"veth2"},{"name":"p3","peer":"veth3"}]`

// setups make one cube of each service between the hosts of a lab, with as much configured as it can have at once.
var setups = map[string]func(*bpftest.Lab){
	"bridge": func(l *bpftest.Lab) {
		l.Create("bridge", "br", `{"ports":[{"name":"p1","peer":"veth1","mode":"trunk","trunk":{"allowed":[{"vlanid":10}],"native-vlan":5}},
			{"name":"p2","peer":"veth2"},{"name":"p3","peer":"veth3","access":{"vlanid":5}}]}`)
	},
	"ddosmitigator": func(l *bpftest.Lab) {
		between(l)
		l.Create("ddosmitigator", "d", `{"blacklist-src":[{"ip":"10.0.1.2"},{"ip":"2001:db8::/32"}],"blacklist-dst":[{"ip":"10.0.3.0/24"},{"ip":"fd00::/16"}],
			"allow":[{"ip":"10.0.1.77"}],"auto-src-packets":1000,"auto-src-syns":1000,"auto-src-bytes":100000,
			"auto-dst-packets":1000,"auto-dst-syns":1000,"auto-dst-bytes":100000}`)
		l.Attach("d", "f:p1")
	},
	"edpi": func(l *bpftest.Lab) {
		between(l)
		l.Create("edpi", "e", `{"outputs":[{"number":1,"to":"f:p3"}],"undecided":"DROP","on-failure":"CLOSED","elephant-bytes":1000000,"elephant-rate":100000,"sample-interval":64,
			"policy":[{"kind":"PROTOCOL","name":"one","action":"DROP"},{"kind":"PROTOCOL","name":"two","action":"LIMIT","rate":8},
			{"kind":"CATEGORY","name":"three","action":"REDIRECT","output":1},{"kind":"ELEPHANT","name":"any","action":"MARK","mark":1}]}`)
		l.Attach("e", "f:p1")
	},
	"efw": func(l *bpftest.Lab) {
		between(l)
		l.Create("efw", "e", `{"port":[{"protocol":"TCP","direction":"DESTINATION","ports":80,"action":"BLOCK"},{"protocol":"UDP","direction":"SOURCE","ports":"1000-2000","action":"ALLOW"}],
			"subnet":[{"direction":"SOURCE","prefix":"10.0.1.2","action":"BLOCK"},{"direction":"DESTINATION","prefix":"2001:db8::/32","action":"PASS"}]}`)
		l.Attach("e", "f:p1")
	},
	"elb": func(l *bpftest.Lab) {
		between(l)
		l.Create("elb", "e", `{"service":[{"vip":"10.0.0.2","vport":80,"backend":[{"ip":"10.0.0.3","port":80}]}]}`)
		l.Attach("e", "f:p1")
	},
	"firewall": func(l *bpftest.Lab) {
		between(l)
		l.Create("firewall", "fw", `{"families":["ipv4","ipv6"],"chain":[{"name":"INGRESS","default":"DROP","rule":[
			{"id":0,"ethertype":"0x88b5","action":"DROP"},{"id":1,"action":"LOG"},{"id":2,"l4proto":"TCP","action":"REJECT"},
			{"id":3,"src":"10.0.0.0/8","limit":"5/second","limit-by":"SOURCE","action":"ACCEPT"}]},
			{"name":"EGRESS","rule":[{"id":0,"conntrack":"INVALID","action":"DROP"}]}]}`)
		l.Attach("fw", "f:p1")
	},
	"helloworld": func(l *bpftest.Lab) {
		l.Create("helloworld", "h", `{"action":"FORWARD","ports":[{"name":"p1","peer":"veth1"},{"name":"p2","peer":"veth2"}]}`)
	},
	"ipset": func(l *bpftest.Lab) {
		between(l)
		l.Create("ipset", "s", `{"prefixes":[{"prefix":"10.0.0.0/8"},{"prefix":"2001:db8::/32"}]}`)
		l.Attach("s", "f:p1")
	},
	"iptables": func(l *bpftest.Lab) {
		between(l)
		if l.Type != cube.TypeTC && pace.Slow() {
			return // minutes of verification on an emulated machine, of code that it has verified at TC
		}
		rules := `[{"id":0,"spec":"-p tcp -j REJECT --reject-with tcp-reset"},{"id":1,"spec":"-j LOG"},{"id":2,"spec":"-m limit --limit 5/s -j web"},
			{"id":3,"spec":"-m conntrack --ctstate INVALID -j DROP"},{"id":4,"spec":"-j MARK --set-mark 1"},{"id":5,"spec":"-m set --match-set s src,dst"},{"id":6,"spec":"-j SET --add-set s src,dst"}]`
		web := `{"name":"web","rule":[{"id":0,"spec":"-m string --algo bm --string a -j RETURN"},{"id":1,"spec":"-m length --length 0:100"}]}`
		l.Create("iptables", "ipt", `{"chain":[{"name":"INPUT","default":"DROP","rule":`+rules+`},`+web+`,{"name":"OUTPUT","rule":`+rules+`}],
			"chain6":[{"name":"INPUT","default":"DROP","rule":`+rules+`},`+web+`]}`)
		l.Attach("ipt", "f:p1")
	},
	"nat": func(l *bpftest.Lab) {
		between(l)
		l.Create("nat", "n", `{"behaviour":{"filtering":"address-dependent"},"rule":{
			"snat":{"entry":[{"id":0,"internal-net":"10.0.1.0/24","external-ip":"203.0.113.0/30"},{"id":1,"internal-net":"fd00:1::/64","external-ip":"2001:db8::1"}]},
			"dnat":{"entry":[{"id":0,"external-ip":"10.0.1.2","internal-ip":"10.0.2.2"},{"id":1,"external-ip":"fd00:1::2","internal-ip":"fd00:2::2"}]},
			"port-forwarding":{"entry":[{"id":0,"external-ip":"10.0.2.2","external-port":1,"external-port-last":2000,"internal-ip":"10.0.1.2","internal-port":1}]}}}`)
		l.Attach("n", "f:p2")
	},
	"lbrp": func(l *bpftest.Lab) {
		l.Create("lbrp", "lb", `{"port_mode":"MULTI","src-ip-rewrite":{"ip-range":"10.0.3.0/24","new_ip_range":"10.9.3.0/24"},"ports":[
			{"name":"p1","type":"FRONTEND","peer":"veth1","ip":"10.0.1.2"},{"name":"p2","type":"BACKEND","peer":"veth2"},
			{"name":"p3","type":"FRONTEND","peer":"veth3","ip":"10.0.3.2"}],"service":[
			{"vip":"10.0.1.1","vport":80,"proto":"ALL","backend":[{"ip":"10.0.2.2","port":8080}]},
			{"vip":"10.0.2.2","vport":1,"last-port":65535,"proto":"UDP","affinity":60,"backend":[{"ip":"10.0.2.3","port":1}]},
			{"vip":"10.0.2.2","vport":443,"proto":"TCP","select":"LEAST_CONNECTIONS","full-nat":true,"backend":[{"ip":"10.0.2.3","port":443}]},
			{"vip":"10.0.3.2","vport":0,"proto":"ICMP"},
			{"vip":"fd00:2::2","vport":80,"proto":"ALL","select":"ROUND_ROBIN","backend":[{"ip":"fd00:2::3","port":0}]}]}`)
	},
	"lbdsr": func(l *bpftest.Lab) {
		l.Create("lbdsr", "lb", `{"tunnel":{"source":"172.16.0.0/16"},"quic-config":[{"id":0,"server-id-length":4}],"ports":[
			{"name":"p1","type":"FRONTEND","peer":"veth1","mac":"`+cubeMACs[1]+`"},
			{"name":"p2","type":"BACKEND","peer":"veth2","mac":"`+cubeMACs[2]+`","ip":"10.0.2.1/24","ip6":"fd00:2::1/64","mtu":1280},
			{"name":"p3","type":"BACKEND","peer":"veth3"}],"service":[
			{"vip":"10.0.1.1","vport":80,"proto":"ALL","server":[{"address":"`+macs[2]+`"},{"address":"10.0.2.2"}]},
			{"vip":"10.0.2.2","vport":0,"proto":"ALL","health-check":{"type":"API","initial-state":"UP"},"server":[{"address":"`+macs[2]+`"},{"address":"10.0.2.2","forward":"IPIP"}]},
			{"vip":"10.0.1.2","vport":443,"proto":"UDP","select":"QUIC","server":[{"address":"fd00:2::2","forward":"GUE","quic-server-id":"01:02:03:04"}]},
			{"vip":"fd00:2::2","vport":0,"proto":"ALL","select":"SOURCE","server":[{"address":"`+macs[2]+`"}]}]}`)
	},
	"pbforwarder": func(l *bpftest.Lab) {
		l.Create("pbforwarder", "pb", `{`+three+`,"rules":[
			{"id":1,"in_port":"p1","vlan":7,"src_mac":"02:00:00:00:00:00/ff:00:00:00:00:00","action":"FORWARD","out_port":"p3"},
			{"id":2,"src_ip":"10.0.0.0/8","l4_proto":"TCP","dst_port":"1-1023","action":"FORWARD","out_port":"p2"},
			{"id":3,"dst_ip":"2001:db8::/32","src_port":1000,"action":"SLOWPATH"},{"id":4,"l4_proto":"UDP","action":"DROP"},
			{"id":5,"in_port":"p2","l4_proto":58,"action":"FORWARD","out_port":"p1"}]}`)
	},
	"router": func(l *bpftest.Lab) {
		l.Create("router", "r", `{"ports":[
			{"name":"p1","peer":"veth1","ip":"10.0.1.1/24","mac":"`+cubeMACs[1]+`","secondaryip":[{"ip":"fd00:1::1/64"}],"rp-filter":"strict"},
			{"name":"p2","peer":"veth2","ip":"10.0.2.1/24","mac":"`+cubeMACs[2]+`","secondaryip":[{"ip":"fd00:2::1/64"}],"mtu":1280},
			{"name":"p3","peer":"veth3","ip":"10.0.3.1/24","mac":"`+cubeMACs[3]+`"}],
			"arp-table":[{"address":"10.0.2.2","mac":"`+macs[2]+`","interface":"p2"},{"address":"fd00:2::2","mac":"`+macs[2]+`","interface":"p2"}],
			"route":[{"network":"0.0.0.0/0","nexthop":"10.0.2.2"},{"network":"::/0","nexthop":"fd00:2::2"},
				{"network":"10.9.0.0/16","nexthop":"blackhole"},{"network":"10.8.0.0/16","nexthop":"unreachable"}]}`)
	},
	"simplebridge": func(l *bpftest.Lab) { l.Create("simplebridge", "br", "{"+three+"}") },
	"simpleforwarder": func(l *bpftest.Lab) {
		l.Create("simpleforwarder", "f", `{`+three+`,"actions":[{"inport":"p1","action":"FORWARD","outport":"p2"},
			{"inport":"p2","action":"SLOWPATH"}]}`)
	},
	"packetcapture": func(l *bpftest.Lab) {
		between(l)
		l.Create("packetcapture", "pc", `{"capture":"BIDIRECTIONAL","networkmode":true,"filter":"udp or tcp port 80","snaplen":128}`)
		l.Attach("pc", "f:p1")
	},
	"dynmon": func(l *bpftest.Lab) {
		between(l)
		l.Create("dynmon", "dm", `{"dataplane-config":{"ingress-path":{"object":"`+base64.StdEncoding.EncodeToString(monitors[l.Type.Hook()])+`"}}}`)
		l.Attach("dm", "f:p1")
	},
	"classifier": func(l *bpftest.Lab) {
		between(l)
		l.Create("classifier", "k", `{"default-class":3,"traffic-class":[{"id":1,"l4proto":"UDP","srcip":"10.0.0.0/8"},{"id":2,"ethtype":"ARP","smac":"02:00:00:00:00:01"}],
			"subscriber":[{"address":"10.0.0.1","class":7,"flow":[{"precedence":1,"remote-port":"80","class":8},{"precedence":2,"remote":"2001:db8::/32","class":9}]}]}`)
		l.Attach("k", "f:p1")
	},
	"gtphandler": func(l *bpftest.Lab) {
		between(l)
		l.Create("gtphandler", "g", `{"mtu":1344,"echo-interval":0,"local-address":[{"address":"10.0.0.2"},{"address":"2001:db8::2"}],
			"user-equipment":[{"ip":"10.0.0.1","tunnel-endpoint":"10.0.0.1","qfi":9},{"ip":"2001:db8::","tunnel-endpoint":"2001:db8::1","teid":1,"remote-teid":2}]}`)
		l.Attach("g", "f:p1")
	},
	"policer": func(l *bpftest.Lab) {
		between(l)
		l.Create("policer", "p", `{"length":"IP","default-contract":{"action":"MARK","rate-limit":8,"burst-limit":16,"mark-below":90,"mark-dscp":8}}`)
		l.Attach("p", "f:p1")
	},
	"synflood": func(l *bpftest.Lab) {
		between(l)
		l.Create("synflood", "s", `{"protection":"ON","forward-syn-rate":1,"protected-ports":[{"port":80}]}`)
		l.Attach("s", "f:p1")
	},
	"transparenthelloworld": func(l *bpftest.Lab) {
		between(l)
		l.Create("transparenthelloworld", "th", "")
		l.Attach("th", "f:p1")
	},
	"upf": func(l *bpftest.Lab) {
		between(l)
		l.Create("upf", "u", `{"mtu":1344,"echo-interval":0,"local-address":[{"address":"10.0.0.2"},{"address":"2001:db8::2"}],"buffered-packets":1,
			"max-sessions":16,"max-rules":64,"max-meters":64,"max-usages":64,"max-flow-lists":4}`)
		l.Attach("u", "f:p1")
	},
}

// between joins the first two hosts, for transparent cubes.
func between(l *bpftest.Lab) {
	l.Create("simpleforwarder", "f", `{`+three+`,"actions":[{"inport":"p1","action":"FORWARD","outport":"p2"},
		{"inport":"p2","action":"FORWARD","outport":"p1"}]}`)
}
