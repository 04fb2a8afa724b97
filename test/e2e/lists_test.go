// SPDX-License-Identifier: Apache-2.0

// Deleting whole lists: the same in every cube, for every list that the models of the daemon's services have.

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/polycube/polycube/dpi"
	"github.com/polycube/polycube/gtpu"
	"github.com/polycube/polycube/internal/yang"
	"github.com/polycube/polycube/pdusession"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
)

// populated are cubes of every service that has lists, with entries in all of them.
const populated = `[{"name":"helloworld1","service-name":"helloworld","ports":[{"name":"port1"}]},
	{"name":"simplebridge1","service-name":"simplebridge","ports":[{"name":"port1","peer":"bridge"},{"name":"port2"}],
		"fdb":{"entry":[{"address":"02:00:00:00:00:0a","port":"port1"}]}},
	{"name":"simpleforwarder1","service-name":"simpleforwarder","ports":[{"name":"port1"}],"actions":[{"inport":"port1","action":"DROP"}]},
	{"name":"bridge1","service-name":"bridge","stp-enabled":true,"stp":[{"vlan":10,"priority":4096}],
		"ports":[{"name":"port1","mode":"trunk","trunk":{"allowed":[{"vlanid":10}]},"stp":[{"vlan":10,"path-cost":7}]},{"name":"port2","peer":"station"}],
		"fdb":{"entry":[{"vlan":1,"mac":"02:00:00:00:00:0a","port":"port2"}]}},
	{"name":"router1","service-name":"router","ports":[{"name":"port1","peer":"routed","ip":"10.0.1.1/24","secondaryip":[{"ip":"10.0.2.1/24"}]},
			{"name":"port2","peer":"inside","ip":"10.0.0.1/24"}],
		"route":[{"network":"10.9.0.0/16","nexthop":"10.0.1.2"}],
		"arp-table":[{"address":"10.0.1.77","mac":"02:00:00:00:00:0a","interface":"port1"}]},
	{"name":"nat1","service-name":"nat","parent":"router1:port1","rule":{
		"snat":{"entry":[{"id":1,"internal-net":"10.0.0.0/24","external-ip":"203.0.113.1"}]},
		"dnat":{"entry":[{"id":1,"external-ip":"203.0.113.2","internal-ip":"10.0.0.2"}]},
		"port-forwarding":{"entry":[{"id":1,"external-ip":"203.0.113.3/32","external-port":80,"internal-ip":"10.0.0.3","internal-port":80}]}}},
	{"name":"nat2","service-name":"nat","table":[{"family":"ipv4","text":"*nat\n:X - [0:0]\nCOMMIT\n"}]},
	{"name":"ddosmitigator1","service-name":"ddosmitigator","parent":"bridge1:port2","auto-src-bytes":1,"blacklist-src":[{"ip":"192.0.2.0/24","lifetime":3600}],"blacklist-dst":[{"ip":"198.51.100.1"}],
		"allow":[{"ip":"203.0.113.0/24"}]},
	{"name":"firewall1","service-name":"firewall","parent":"router1:port2","chain":[{"name":"INGRESS","rule":[{"id":0,"src":"192.0.2.0/24","action":"DROP"}]},
		{"name":"EGRESS","rule":[{"id":0,"dport":9,"action":"DROP"}]}]},
	{"name":"iptables1","service-name":"iptables","parent":"router1:port2","chain":[{"name":"web","rule":[{"id":0,"spec":"-j RETURN"}]},
		{"name":"INPUT","rule":[{"id":0,"spec":"-j web"},{"id":1,"l4proto":"TCP","dport":9,"action":"DROP"}]},
		{"name":"FORWARD","default":"DROP","rule":[{"id":0,"spec":"-j SET --add-set ipset1 src"},{"id":1,"spec":"-j ACCEPT"}]},{"name":"OUTPUT","rule":[{"id":0}]}],
		"chain6":[{"name":"INPUT","rule":[{"id":0,"spec":"-j DROP"}]},{"name":"FORWARD","default":"DROP"},{"name":"OUTPUT","default":"DROP"}],
		"table":[{"family":"ipv4","name":"mangle","text":"*mangle\n:X - [0:0]\nCOMMIT\n"}]},
	{"name":"ipset2","service-name":"ipset","prefixes":[{"prefix":"192.0.2.0/24"}]},
	{"name":"ipset1","service-name":"ipset","set-type":"hash:ip","timeout":0,"element":[{"entry":"192.0.2.1"}]},
	{"name":"dynmon1","service-name":"dynmon","dataplane-config":{"ingress-path":{"code":"#include <pcn/monitor.h>\nPCN_MAP(n, BPF_MAP_TYPE_ARRAY, __u32, __u64, 1);\nPCN_MONITOR { return 0; }",
		"metric-configs":[{"name":"n","map-name":"n","open-metrics-metadata":{"labels":[{"name":"site","value":"lab"}],"buckets":[]}}]},
		"egress-path":{"code":"#include <pcn/monitor.h>\nPCN_MAP(n, BPF_MAP_TYPE_ARRAY, __u32, __u64, 1);\nPCN_MONITOR { return 0; }",
		"metric-configs":[{"name":"n","map-name":"n","open-metrics-metadata":{"labels":[{"name":"site","value":"lab"}]}}]}}},
	{"name":"synflood1","service-name":"synflood","protected-ports":[{"port":80}],"protected-addresses":[{"address":"192.0.2.1"}]},
	{"name":"lbdsr1","service-name":"lbdsr","frontend":{"vip":"10.0.0.200"},"backend":{"pool":[{"id":1,"mac":"02:00:00:00:00:0b"}]},
		"quic-config":[{"id":1,"server-id-length":4}],"ports":[{"name":"port1","type":"FRONTEND"},{"name":"port2","type":"BACKEND"}],
		"service":[{"vip":"10.0.0.100","vport":80,"proto":"TCP","server":[{"address":"02:00:00:00:00:0c"}]}]},
	{"name":"classifier1","service-name":"classifier","traffic-class":[{"id":1,"l4proto":"UDP"}],
		"subscriber":[{"address":"10.1.0.1","class":1,"flow":[{"precedence":1,"remote-port":"443","class":2}]}]},
	{"name":"gtphandler1","service-name":"gtphandler","local-address":[{"address":"192.0.2.1"}],
		"user-equipment":[{"ip":"10.1.0.1","tunnel-endpoint":"192.0.2.10","teid":1}]},
	{"name":"simplebridge2","service-name":"simplebridge","ports":[{"name":"port1","peer":"stations"}]},
	{"name":"gtphandler2","service-name":"gtphandler","parent":"simplebridge2:port1","session-type":"ETHERNET","local-address":[{"address":"10.4.0.1"}],"ethernet-session":[
		{"teid":257,"tunnel-endpoint":"10.4.0.2","remote-teid":1},{"teid":258,"tunnel-endpoint":"10.4.0.2","remote-teid":2,"mac-address":[{"address":"02:00:00:00:00:0d"}]}]},
	{"name":"efw1","service-name":"efw","port":[{"protocol":"TCP","direction":"DESTINATION","ports":80,"action":"BLOCK"}],
		"subnet":[{"direction":"SOURCE","prefix":"192.0.2.0/24","action":"BLOCK"}],"outputs":[{"number":1,"to":"bridge1:port2"}]},
	{"name":"elb1","service-name":"elb","parent":"web","service":[{"vip":"10.5.0.1","vport":80,"backend":[{"ip":"10.5.0.2","port":80}]}],"outputs":[{"number":1,"to":"bridge1:port2"}]},
	{"name":"policer1","service-name":"policer","contract":[{"traffic-class":1,"action":"DROP"}]},
	{"name":"edpi1","service-name":"edpi","parent":"bridge1:port2","idle-timeout":[{"kind":"PROTOCOL","name":"DNS","seconds":60}],"policy":[{"kind":"PROTOCOL","name":"DNS","action":"DROP"}],"outputs":[{"number":1,"to":"bridge1:port2"}]},
	{"name":"upf1","service-name":"upf","local-address":[{"address":"192.0.2.1"}]},
	{"name":"lbrp1","service-name":"lbrp","ports":[{"name":"port1","type":"FRONTEND","peer":"balanced"},{"name":"port2","type":"BACKEND"}],
		"service":[{"vip":"10.0.0.100","vport":80,"proto":"ALL","backend":[{"ip":"10.0.2.11","port":8080}]}]},
	{"name":"pbforwarder1","service-name":"pbforwarder","ports":[{"name":"port1"}],
		"rules":[{"id":1,"in_port":"port1","src_ip":"10.0.0.0/8","action":"DROP"}]}]`

// learns are the lists that get entries from packets.
var learns = []string{"bridge fdb/entry", "ddosmitigator detected", "edpi flow", "firewall session-table", "ipset element", "iptables session-table", "lbrp session", "nat natting-table", "router arp-table", "simplebridge fdb/entry"}

// stays are the entries that cannot be deleted: they follow from other configuration.
var stays = map[string][]string{
	"bridge ports/port1/stp":           {"1"},
	"bridge ports/port1/trunk/allowed": {"1"},
	"bridge ports/port2/stp":           {"1"},
	"bridge stp":                       {"1", "10"},
	"firewall chain":                   {"INGRESS", "EGRESS"},
	"iptables chain":                   {"INPUT", "FORWARD", "OUTPUT"},
	"iptables chain6":                  {"INPUT", "FORWARD", "OUTPUT"},
	"router route":                     {"10.0.0.0/24 local", "10.0.1.0/24 local", "10.0.2.0/24 local"},
}

// crowded is a machine with the populated cubes. learn makes them learn what they can.
func crowded(t *testing.T) (d *daemon, learn func()) {
	t.Helper()
	m := newMachine(t)
	bridge := m.lab.Host("bridge", "10.1.0.1/24")
	station := m.lab.Host("station", "10.2.0.1/24")
	balanced := m.lab.Host("balanced", "10.3.0.2/24")
	m.lab.Host("routed", "10.0.1.2/24", netns.WithGateway("10.0.1.1"))
	inside := m.lab.Host("inside", "10.0.0.2/24", netns.WithGateway("10.0.0.1"))
	stations := m.lab.Host("stations", "10.4.0.2/24")
	web := m.lab.Host("web", "10.5.0.2/24", netns.WithoutTxChecksum())
	m.lab.Run("ip", "addr", "add", "10.5.0.1/24", "dev", "web")
	web.AnswerLines("10.5.0.2:80", func(net.Addr, string) string { return "hello" })
	d = m.Start()
	d.Must(http.StatusCreated, http.MethodPost, "/cubes", populated)
	return d, func() {
		session(d, "upf1")
		classes(d, "edpi1")
		frontends(d, "elb1")
		m.lab.Run("iptables-nft", "-A", "FORWARD", "-s", "192.0.2.9", "-j", "DROP") // for efw1 to report
		// The station sends IP packets to an address that does not answer either.
		station.Run("ip", "neigh", "replace", "10.2.0.8", "lladdr", "02:00:00:00:00:08", "nud", "permanent", "dev", netns.Inner)
		// There is no router behind the load balancer, which answers no ARP.
		balanced.Run("ip", "route", "replace", "10.0.0.100", "dev", netns.Inner)
		balanced.Run("ip", "neigh", "replace", "10.0.0.100", "lladdr", "02:00:00:00:00:08", "nud", "permanent", "dev", netns.Inner)
		netns.Eventually(t, patience, func() error {
			_ = balanced.Ping("10.0.0.100", netns.Brief)
			// There is no answer to the bridges: the request is enough.
			_, _ = bridge.Ping("10.1.0.9", netns.Brief), station.Ping("10.2.0.9", netns.Brief)
			_ = station.Ping("10.2.0.8", netns.Brief)
			if err := errors.Join(inside.Ping("10.0.1.2", netns.Brief), device(d, stations, "gtphandler2"), visit(d, web, "elb1")); err != nil {
				return err
			}
			for _, list := range learns {
				service, path, _ := strings.Cut(list, " ")
				all := d.Must(http.StatusOK, http.MethodGet, "/"+service+"/"+service+"1/"+path, "")
				if !strings.Contains(all, `"age"`) && !strings.Contains(all, `"time-left"`) {
					return fmt.Errorf("%s has learned nothing", list)
				}
			}
			if all := d.Must(http.StatusOK, http.MethodGet, "/upf/upf1/peer", ""); !strings.Contains(all, `"192.0.2.10"`) {
				return fmt.Errorf("the peers of upf1 are %s", all)
			}
			if all := d.Must(http.StatusOK, http.MethodGet, "/efw/efw1/report", ""); !strings.Contains(all, "192.0.2.9") {
				return fmt.Errorf("the report of efw1 is %s", all)
			}
			return nil
		})
	}
}

// device has a gtphandler cube learn the address of a device, from a frame in a tunnel.
func device(d *daemon, stations *netns.Node, cube string) error {
	frame := pkt.Eth("02:00:00:00:00:0e", "02:00:00:00:00:0f").ARPRequest("02:00:00:00:00:0e", "10.6.0.1", "10.6.0.2").Bytes()
	m := gtpu.Message{Type: gtpu.PDU, TEID: 257, Payload: frame}
	b, err := m.Append(nil)
	if err != nil {
		return err
	}
	err = stations.Do(func() error {
		c, err := net.Dial("udp", fmt.Sprintf("10.4.0.1:%d", gtpu.Port))
		if err != nil {
			return err
		}
		_, err = c.Write(b)
		return errors.Join(err, c.Close())
	})
	if all := d.Must(http.StatusOK, http.MethodGet, "/gtphandler/"+cube+"/ethernet-session/257/learned-address", ""); err == nil && !strings.Contains(all, "02:00:00:00:00:0e") {
		err = fmt.Errorf("%s has learned %s", cube, all)
	}
	return err
}

// visit opens a session of an elb cube.
func visit(d *daemon, web *netns.Node, cube string) error {
	if all := d.Must(http.StatusOK, http.MethodGet, "/elb/"+cube+"/session", ""); strings.Contains(all, `"client"`) {
		return nil
	}
	return web.Do(func() error {
		c, err := net.DialTimeout("tcp", "10.5.0.1:80", time.Second)
		if err == nil {
			d.t.Cleanup(func() { _ = c.Close() })
			err = fmt.Errorf("%s has no session yet", cube)
		}
		return err
	})
}

// classes writes the names of classes into the tables of a edpi cube, as its classifier does.
func classes(d *daemon, cube string) {
	d.t.Helper()
	uuid := strings.Trim(d.Must(http.StatusOK, http.MethodGet, "/edpi/"+cube+"/uuid", ""), "\"\n")
	tables, err := dpi.Open(filepath.Join(d.pins, "cubes", uuid))
	if err != nil {
		d.t.Fatal(err)
	}
	names := [dpi.Names]dpi.Name{5: dpi.NameOf("DNS"), dpi.Protocols + 1: dpi.NameOf("Media")}
	if err := errors.Join(tables.Announce("of a test", &names), tables.Close()); err != nil {
		d.t.Fatal(err)
	}
	netns.Eventually(d.t, patience, func() error {
		if all := d.Must(http.StatusOK, http.MethodGet, "/edpi/"+cube+"/category", ""); !strings.Contains(all, "Media") {
			return fmt.Errorf("the categories of %s are %s", cube, all)
		}
		return nil
	})
}

// frontends gives an elb cube a configuration of HAProxy, with a frontend that stays there.
func frontends(d *daemon, cube string) {
	d.t.Helper()
	file := filepath.Join(d.t.TempDir(), "haproxy.cfg")
	if err := os.WriteFile(file, []byte("frontend web\n  mode tcp\n  bind :80\n"), 0o600); err != nil {
		d.t.Fatal(err)
	}
	d.Must(http.StatusCreated, http.MethodPatch, "/elb/"+cube+"/haproxy", fmt.Sprintf(`{"file":[%q]}`, file))
}

// session writes a session into the tables of a upf cube, which are not configuration.
func session(d *daemon, cube string) {
	d.t.Helper()
	uuid := strings.Trim(d.Must(http.StatusOK, http.MethodGet, "/upf/"+cube+"/uuid", ""), "\"\n")
	tables, err := pdusession.Open(filepath.Join(d.pins, "cubes", uuid))
	if err != nil {
		d.t.Fatal(err)
	}
	batch := tables.Begin()
	_, err = batch.Put(nil, &pdusession.Session{IPv4: netip.MustParseAddr("10.1.0.1"), Rules: []pdusession.Rule{
		{Forward: pdusession.Forward{Action: pdusession.Pass, Peer: netip.MustParseAddr("192.0.2.10"), TEID: 1}},
	}})
	if err == nil {
		_, err = batch.Commit()
	}
	if err := errors.Join(err, tables.Close()); err != nil {
		d.t.Fatal(err)
	}
}

// emptier deletes the lists of a cube.
type emptier struct {
	*daemon
	service, cube string
	// had are the lists that had entries, by their path without keys.
	had map[string]bool
}

// list is the path of a list: the words of the command line after the cube.
type list struct {
	node  *yang.Node
	words []string
}

func (e *emptier) url(words []string) string {
	out := "/" + e.service + "/" + e.cube
	for _, w := range words {
		out += "/" + url.PathEscape(w)
	}
	return out
}

// entries reads the keys of a list; false if its parent does not exist.
func (e *emptier) entries(l list) (keys [][]string, ok bool) {
	e.t.Helper()
	status, body, err := e.Request(http.MethodGet, e.url(l.words), "")
	if status == http.StatusNotFound {
		return nil, false // a port of the bridge has the members of its mode
	}
	var all []map[string]any
	if err != nil || status != http.StatusOK || json.Unmarshal([]byte(body), &all) != nil {
		e.t.Fatalf("reading %s %v: %d, %v: %s", e.cube, l.words, status, err, body)
	}
	for _, entry := range all {
		var one []string
		for _, k := range l.node.Keys() {
			one = append(one, fmt.Sprint(entry[k.Name()]))
		}
		keys = append(keys, one)
	}
	return keys, true
}

// turn is when a member has its turn: sessions go with their rules, and other entries refer to ports and to the local
// addresses of tunnels.
func turn(n *yang.Node) int {
	switch {
	case !n.Config():
		return 0
	case n.Path() == "ports", n.Path() == "local-address":
		return 2
	}
	return 1
}

// lists returns the lists below a node, those in entries before the entries.
func (e *emptier) lists(n *yang.Node, words []string) (all []list) {
	e.t.Helper()
	children := slices.Clone(n.Children())
	slices.SortStableFunc(children, func(a, b *yang.Node) int { return turn(a) - turn(b) })
	for _, c := range children {
		below := append(slices.Clone(words), c.Name())
		switch c.Kind() {
		case yang.Container:
			all = append(all, e.lists(c, below)...)
		case yang.List:
			here := list{c, below}
			keys, ok := e.entries(here)
			if !ok {
				continue
			}
			for _, k := range keys {
				all = append(all, e.lists(c, slices.Concat(below, k))...)
			}
			all = append(all, here)
		case yang.Leaf, yang.LeafList, yang.Action:
		}
	}
	return all
}

// empty deletes a list. Entries that remain cannot be deleted by key either.
func (e *emptier) empty(l list) {
	e.t.Helper()
	name := e.cube + " " + strings.Join(l.words, " ")
	before, _ := e.entries(l)
	e.had[l.node.Path()] = e.had[l.node.Path()] || len(before) > 0
	if !l.node.Config() && !l.node.Deletable() {
		if status, body, err := e.Request(http.MethodDelete, e.url(l.words), ""); err != nil || status != http.StatusMethodNotAllowed || !strings.Contains(body, "can only be read") {
			e.t.Errorf("%s is only read, DELETE answers %d, %v: %s", name, status, err, body)
		}
		return
	}
	words := append(strings.Fields(name), "del")
	if r := e.CLI(words...); r.code != 64 || !strings.Contains(r.stderr, "--all to delete every entry") {
		e.t.Errorf("without --all: %s", r)
	}
	if after, _ := e.entries(l); len(after) < len(before) {
		e.t.Errorf("%s: without --all, of %v there are %v", name, before, after)
	}
	var left [][]string
	netns.Eventually(e.t, patience, func() error { // a packet that is late may have something learned once more
		if r := e.CLI(append(words, "--all")...); r.code != 0 || r.stderr != "" {
			e.t.Fatal(r)
		}
		left, _ = e.entries(l)
		var names []string
		for _, keys := range left {
			names = append(names, strings.Join(keys, " "))
		}
		if want := stays[e.service+" "+strings.Join(l.words, "/")]; !slices.Equal(names, want) {
			return fmt.Errorf("%s: %q are left, want %q", name, names, want)
		}
		return nil
	})
	for _, keys := range left {
		if status, body, err := e.Request(http.MethodDelete, e.url(slices.Concat(l.words, keys)), ""); err != nil || status < 400 || status >= 500 {
			e.t.Errorf("%s: %v was left, and deleting it answers %d, %v: %s", name, keys, status, err, body)
		}
	}
	e.Must(http.StatusOK, http.MethodDelete, e.url(l.words), "") // once more is no error
}

func TestDeletingAListMeansTheSameInEveryCube(t *testing.T) {
	t.Parallel()
	d, learn := crowded(t)
	learn()
	var services []struct{ Name string }
	if err := json.Unmarshal([]byte(d.Must(http.StatusOK, http.MethodGet, "/services", "")), &services); err != nil || len(services) < 8 {
		t.Fatalf("the services are %v, %v", services, err)
	}
	for _, s := range services {
		var model []struct{ Datamodel string }
		if err := json.Unmarshal([]byte(d.Must(http.StatusOK, http.MethodGet, "/services/"+s.Name, "")), &model); err != nil {
			t.Fatal(err)
		}
		schema, err := yang.Load(model[0].Datamodel)
		if err != nil {
			t.Fatal(err)
		}
		defer schema.Close()
		wanted := listsIn(schema.Root())
		if len(wanted) == 0 {
			continue
		}
		e := &emptier{d, s.Name, s.Name + "1", map[string]bool{}}
		for _, l := range e.lists(schema.Root(), nil) {
			e.empty(l)
		}
		if slices.Contains([]string{"ipset", "nat", "gtphandler"}, s.Name) { // they have one of two lists, kinds of rules, or of sessions
			e.cube = s.Name + "2"
			for _, l := range e.lists(schema.Root(), nil) {
				e.empty(l)
			}
		}
		for _, path := range wanted {
			if !e.had[path] {
				t.Errorf("the list %s of %s had no entry: put one into the populated cubes of this test", path, s.Name)
			}
		}
	}
}

// listsIn are the paths of all lists below a node.
func listsIn(n *yang.Node) (paths []string) {
	for _, c := range n.Children() {
		if c.Kind() == yang.List {
			paths = append(paths, c.Path())
		}
		if c.Kind() == yang.List || c.Kind() == yang.Container {
			paths = append(paths, listsIn(c)...)
		}
	}
	return paths
}

// TestPortsThatEntriesReferToStay: all of them, including those without a reference, and the answer names the entry.
func TestPortsThatEntriesReferToStay(t *testing.T) {
	t.Parallel()
	d, _ := crowded(t)
	config := func() string { return d.Must(http.StatusOK, http.MethodGet, "/config", "") }
	for service, names := range map[string]string{
		"simplebridge": "fdb entry 02:00:00:00:00:0a port", "bridge": "fdb entry 1 02:00:00:00:00:0a port",
		"simpleforwarder": "actions port1 inport", "pbforwarder": "rules 1 in_port",
	} {
		before := config()
		status, body, err := d.Request(http.MethodDelete, "/"+service+"/"+service+"1/ports", "")
		if err != nil || status != http.StatusBadRequest || !strings.Contains(body, names) {
			t.Errorf("%s: DELETE of its ports answers %d, %v: %s", service, status, err, body)
		}
		if after := config(); after != before {
			t.Errorf("%s: the configuration was\n%s\nand is\n%s", service, before, after)
		}
	}
}
