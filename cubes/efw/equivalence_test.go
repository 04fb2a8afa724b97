// SPDX-License-Identifier: Apache-2.0

package efw_test

// Random rules and packets through a Linux router with the cube in front of its firewall, and without: the same frames must leave
// it, and each rule must count the same packets and bytes, those of the fast path and of the stack together.

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
	"github.com/polycube/polycube/test/repeat"
)

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

// rules is a random rule set.
type rules struct {
	*rand.Rand
	v6      bool
	program string
}

func (r rules) conditions() (out []string) {
	add := func(text ...string) { out = append(out, pick(r.Rand, text...)) }
	if r.IntN(3) == 0 {
		if r.v6 {
			add("-s fd00:1::/126", "! -s fd00:1::2/128", "-d fd00:2::2/128")
		} else {
			add("-s 10.0.1.0/30", "! -s 10.0.1.2/32", "-d 10.0.2.0/31", "! -d 10.0.2.2/32")
		}
	}
	if r.IntN(6) == 0 {
		add("-i veth1", "! -i veth1", "-i veth+", "-i none")
	}
	if r.IntN(2) == 0 {
		add("-p tcp", "-p tcp -m tcp --dport 80", "-p tcp -m tcp ! --dport 80:81", "-p tcp -m multiport --dports 80,82,84:85", "-p tcp -m tcp --syn",
			"-p udp", "-p udp -m udp --sport 82", "! -p udp", "-p udp -m multiport ! --dports 80,82", "-m dscp --dscp 10", "-m mark --mark 1")
	}
	if r.IntN(5) == 0 {
		add("-m limit --limit 1/day --limit-burst 3", "-m statistic --mode nth --every 2 --packet 0", "-m length --length 40:60", "-m ttl --ttl-lt 10")
		if r.v6 {
			out[len(out)-1] = "-m statistic --mode nth --every 2 --packet 0"
		}
	}
	return out
}

func (r rules) rule(forward bool, users []string) string {
	out := r.conditions()
	if forward && r.IntN(5) == 0 {
		out = append(out, pick(r.Rand, "-o veth2", "! -o veth2", "-o veth+"))
	}
	switch r.IntN(8) {
	case 0, 1:
		out = append(out, "-j DROP")
	case 2, 3:
		out = append(out, "-j ACCEPT")
	case 4:
		out = append(out, pick(r.Rand, "-j RETURN", "-j REJECT", "-j LOG"))
	case 5, 6:
		if len(users) > 0 {
			out = append(out, pick(r.Rand, "-j ", "-g ")+pick(r.Rand, users...))
		}
	}
	return strings.Join(out, " ")
}

// text is what iptables-restore reads. Some rule sets have other tables, or ask for the state of connections.
func (r rules) text() string {
	users := []string{"a", "b", "c"}
	var out strings.Builder
	if r.IntN(5) == 0 {
		out.WriteString(pick(r.Rand,
			"*mangle\n-A PREROUTING -p udp -j MARK --set-mark 1\nCOMMIT\n", "*mangle\n-A POSTROUTING -p udp -j TOS --set-tos 4\nCOMMIT\n",
			"*nat\n-A POSTROUTING -o veth2 -j MASQUERADE\nCOMMIT\n", "*nat\n-A PREROUTING -p tcp --dport 80 -j REDIRECT --to-ports 82\nCOMMIT\n",
			"*raw\n-A PREROUTING -p udp --dport 81 -j DROP\nCOMMIT\n"))
	}
	fmt.Fprintf(&out, "*filter\n:INPUT %s [0:0]\n:FORWARD %s [0:0]\n:OUTPUT ACCEPT [0:0]\n:a - [0:0]\n:b - [0:0]\n:c - [0:0]\n",
		pick(r.Rand, "ACCEPT", "DROP"), pick(r.Rand, "ACCEPT", "DROP"))
	states := r.IntN(4) == 0
	out.WriteString("-A INPUT -i lo -j ACCEPT\n") // what the host tells itself depends on the time
	for _, chain := range []string{"INPUT", "FORWARD"} {
		if states {
			fmt.Fprintf(&out, "-A %s -m conntrack --ctstate %s -j %s\n", chain, pick(r.Rand, "RELATED,ESTABLISHED", "INVALID", "NEW"), pick(r.Rand, "ACCEPT", "DROP"))
		}
		for range r.IntN(6) {
			fmt.Fprintf(&out, "-A %s %s\n", chain, r.rule(chain == "FORWARD", users))
		}
	}
	for i, name := range users {
		for range r.IntN(4) {
			fmt.Fprintf(&out, "-A %s %s\n", name, r.rule(false, users[i+1:]))
		}
	}
	return out.String() + "COMMIT\n"
}

// frame is a random packet to the router: most are plain, some are for the stack alone.
func (r rules) frame(from, to string) []byte {
	f := pkt.Eth(from, to)
	if r.IntN(40) == 0 {
		f = pkt.Eth(from, "02:00:00:00:00:99") // another station
	}
	source, destination, own := client, server, host
	if r.v6 {
		source, destination, own = client6, server6, host6
	}
	if r.IntN(4) == 0 {
		destination = own
	}
	if r.IntN(3) == 0 && !r.v6 {
		source = pick(r.Rand, "10.0.1.3", "10.0.1.9", "10.0.2.1", "127.0.0.1", "10.0.1.255", "224.0.0.1", "0.0.0.0", "192.0.2.1")
	}
	if r.v6 {
		f = f.IPv6(source, destination)
	} else {
		f = f.IPv4(source, destination)
	}
	sport, dport := uint16(80+r.IntN(6)), uint16(80+r.IntN(6))
	switch r.IntN(5) {
	case 0, 1:
		f = f.TCP(sport, dport, pkt.TCPFlags{SYN: r.IntN(2) == 0, ACK: r.IntN(2) == 0, RST: r.IntN(9) == 0}).Payload(r.IntN(30))
	case 2, 3:
		f = f.UDP(sport, dport).Payload(r.IntN(30))
	default:
		if r.v6 {
			f = f.Protocol(47)
		} else {
			f = f.Echo(uint16(r.IntN(3)), 1)
		}
	}
	frame := f.Bytes()
	if r.v6 {
		frame[21] = byte(pick(r.Rand, 64, 64, 64, 1, 2)) // hop limit
		return frame
	}
	ip := frame[14:34]
	ip[1] = byte(pick(r.Rand, 0, 0, 40, 41))    // DSCP 10, ECN
	ip[8] = byte(pick(r.Rand, 64, 64, 5, 2, 1)) // TTL
	switch r.IntN(20) {
	case 0:
		ip[6] |= 0x20 // the first fragment of a datagram
	case 1:
		ip[7] = 3 // a later one
	case 2:
		ip[3] += 40 // longer than the frame
	case 3:
		ip[3] = 20 // without the header that follows
	}
	ip[10], ip[11] = 0, 0
	pkt.SumIPv4(ip)
	if r.IntN(20) == 0 {
		ip[10] ^= 1
	}
	return frame
}

// sent is what became of frames.
type sent struct {
	left    [][]byte // that left the router by veth2
	counted map[string][2]uint64
	listing string // of iptables, by family
}

// identify gives an IPv4 packet another identification, so that no fragment is of the same datagram as an earlier one.
func (r *router) identify(frame []byte) []byte {
	if frame[12] != 8 {
		return frame
	}
	r.id++
	frame = slices.Clone(frame)
	was := binary.BigEndian.Uint16(frame[18:])
	binary.BigEndian.PutUint16(frame[18:], r.id)
	sum := uint32(^binary.BigEndian.Uint16(frame[24:])) + uint32(^was) + uint32(r.id)
	sum = sum>>16 + sum&0xffff
	binary.BigEndian.PutUint16(frame[24:], ^uint16(sum>>16+sum&0xffff))
	return frame
}

// through sends frames one after the other, and returns what has left the router by veth2. The answer to a question that no rule is
// about says that the router is done with them.
func (r *router) through(frames [][]byte) [][]byte {
	r.t.Helper()
	r.arrived()
	from, to := r.mac()
	for i, frame := range frames {
		frames[i] = r.identify(frame)
	}
	for i, frame := range append(slices.Clone(frames), pkt.Eth(from, "ff:ff:ff:ff:ff:ff").ARPRequest(from, client, host).Bytes()) {
		if err := r.wires[0].Send(frame); err != nil {
			r.t.Fatalf("frame %d %x: %v", i, frame, err)
		}
	}
	isARP := func(frame []byte) bool {
		return frame[12] == 8 && frame[13] == 6 && bytes.Equal(frame[22:28], pkt.MAC(to))
	}
	if _, err := r.wires[0].Recv(isARP, bpftest.Patience); err != nil {
		r.t.Fatal(err)
	}
	return r.arrived()
}

// send sends frames through the router, and reads what rules have counted.
func (r *router) send(frames [][]byte) (out sent) {
	r.t.Helper()
	for _, frame := range r.through(frames) {
		forwarded := bytes.Equal(frame[:6], r.Hosts[1].MAC) && (frame[12] == 8 && frame[13] == 0 || frame[12] == 0x86 && frame[20] != 58)
		if forwarded { // no ARP, nor neighbour discovery
			if frame[12] == 8 { // which differ from run to run: identify
				clear(frame[18:20])
				clear(frame[24:26])
			}
			out.left = append(out.left, frame)
		}
	}
	var lines []line
	if err := json.Unmarshal([]byte(r.Read("f chain")), &lines); err != nil {
		r.t.Fatal(err)
	}
	out.counted = map[string][2]uint64{}
	for _, l := range lines {
		if l.Text == "-i lo -j ACCEPT" {
			continue
		}
		out.counted[fmt.Sprintf("%s %s %d %s", l.Family, l.Name, l.Number, l.Text)] = [2]uint64{l.Packets, l.Bytes}
	}
	var listings []struct{ Family, Exact string }
	if err := json.Unmarshal([]byte(r.Read("f listing")), &listings); err != nil {
		r.t.Fatal(err)
	}
	for _, l := range listings {
		for line := range strings.SplitSeq(l.Exact, "\n") {
			if !strings.Contains(line, " lo ") && !strings.HasPrefix(line, "Chain OUTPUT") { // what the host sends depends on the time
				out.listing += l.Family + " " + line + "\n"
			}
		}
	}
	return out
}

// withoutPorts clears what masquerading chooses at random: source ports, the identifiers of ICMP, and checksums of both.
func withoutPorts(frames [][]byte) {
	for _, f := range frames {
		protocol, l4 := f[23], 34
		if f[12] == 0x86 {
			protocol, l4 = f[20], 54
		} else if f[20]&0x1f != 0 || f[21] != 0 {
			continue // a later fragment
		}
		for _, part := range map[byte][][2]int{1: {{2, 6}}, 6: {{0, 2}, {16, 18}}, 17: {{0, 2}, {6, 8}}}[protocol] {
			if l4+part[1] <= len(f) {
				clear(f[l4+part[0] : l4+part[1]])
			}
		}
	}
}

// arrived returns the frames that have left the router by veth2 since the last call.
func (r *router) arrived() (out [][]byte) {
	r.t.Helper()
	var left uint64
	r.Must(func() error {
		l, err := netlink.LinkByName("veth2")
		if err == nil {
			left = l.Attrs().Statistics.TxPackets
		}
		return err
	})
	if r.taken == 0 { // some were sent before the socket was open
		for {
			if _, err := r.wires[1].Recv(nil, 50*time.Millisecond); err != nil {
				r.taken = left
				return nil
			}
		}
	}
	for ; r.taken < left; r.taken++ {
		frame, err := r.wires[1].Recv(nil, time.Second)
		if err != nil { // the kernel counts some that it drops
			break
		}
		out = append(out, slices.Clone(frame))
	}
	r.taken = left
	return out
}

// reset makes the rules those of a text, with counters of zero, and forgets connections.
func (r *router) reset(program, other, text string) {
	r.t.Helper()
	for _, p := range []string{other, program} { // one of them at a time has rules
		rest := text
		if p == other {
			rest = "*filter\n:INPUT ACCEPT [0:0]\n:FORWARD ACCEPT [0:0]\nCOMMIT\n"
		}
		for _, table := range []string{"nat", "mangle", "raw"} {
			if !strings.Contains(rest, "*"+table) && strings.Contains(r.tables[p], table) {
				rest = "*" + table + "\nCOMMIT\n" + rest
			}
			if strings.Contains(rest, "*"+table) {
				r.tables[p] += table
			}
		}
		r.restore(p, rest)
	}
	r.Must(func() error { return netlink.ConntrackTableFlush(netlink.ConntrackTable) })
}

// difference compares two runs with rules of a family.
func difference(with, without sent, v6 bool) string {
	if len(with.left) != len(without.left) {
		return fmt.Sprintf("%d frames left the router with the cube, %d without: counters %v, %v", len(with.left), len(without.left), with.counted, without.counted)
	}
	for i := range with.left {
		if !bytes.Equal(with.left[i], without.left[i]) {
			return fmt.Sprintf("frame %d with the cube\n%x without\n%x", i, with.left[i], without.left[i])
		}
	}
	if lines := strings.Split(with.listing, "\n"); with.listing != without.listing {
		for i, line := range strings.Split(without.listing, "\n") {
			if (i >= len(lines) || lines[i] != line) && !strings.HasPrefix(line, map[bool]string{false: "IPV6", true: "IPV4"}[v6]) {
				return fmt.Sprintf("line %d of the listing is without the cube\n%s\nwith it\n%s", i, line, with.listing)
			}
		}
	}
	for name, n := range without.counted {
		if strings.HasPrefix(name, map[bool]string{false: "IPV6", true: "IPV4"}[v6]) {
			continue // the rules of the other family were not reset
		}
		if with.counted[name] != n {
			return fmt.Sprintf("%s: with the cube it counts %v, without %v", name, with.counted[name], n)
		}
	}
	return ""
}

// onRandomRules runs a comparison for a number of random rule sets at both hooks. Lines of the report that `decides` selects must
// have decided one of fifty packets at least.
func onRandomRules(t *testing.T, sets int, one func(r *router, random *rand.Rand, frames int), decides func(l line) bool) {
	t.Helper()
	needIptables(t)
	for _, typ := range []cube.Type{cube.TypeTC, cube.TypeXDPSKB} {
		t.Run(string(typ), func(t *testing.T) {
			seed := repeat.Seed(t)
			r := newRouter(t, typ, `{}`)
			r.pin()
			random := rand.New(rand.NewPCG(seed, uint64(len(typ))))
			sets, frames := sets, 150
			if os.Getenv("POLYCUBE_SOAK") != "" {
				sets, frames = 400, 200
			}
			decided, total := uint64(0), uint64(sets*frames)
			for range sets {
				one(r, random, frames)
				for _, l := range r.report() {
					if decides(l) {
						decided += l.Packets
					}
				}
			}
			t.Logf("%d of %d packets were decided in the fast path", decided, total)
			if decided < total/50 {
				t.Errorf("the fast path decided %d of %d packets: the comparison says little", decided, total)
			}
		})
	}
}

func TestTheHostBehavesAsWithoutTheCube(t *testing.T) {
	onRandomRules(t, 24, func(r *router, random *rand.Rand, frames int) {
		r.compare(rules{Rand: random, v6: random.IntN(4) == 0, program: pick(random, "iptables-legacy", "iptables-nft")}, frames)
	}, func(l line) bool {
		return l.Number == 0 || strings.Contains(l.Text, "-j DROP") || strings.Contains(l.Text, "-j ACCEPT")
	})
}

// compare sends random frames through a random rule set, with and without the cube.
func (r *router) compare(g rules, frames int) {
	r.t.Helper()
	program, other := g.program, map[string]string{"iptables-legacy": "iptables-nft", "iptables-nft": "iptables-legacy"}[g.program]
	if g.v6 {
		program, other = "ip6"+program[2:], "ip6"+other[2:]
	}
	text := g.text()
	r.same(g, frames, program+":\n"+text, func() { r.reset(program, other, text) })
}

// same compares what becomes of random frames with and without the cube, each time behind rules that are set.
func (r *router) same(g rules, frames int, text string, set func()) {
	r.t.Helper()
	from, to := r.mac()
	list := make([][]byte, frames)
	for i := range list {
		list[i] = g.frame(from, to)
	}
	why := ""
	// The host sends packets of its own at times of its own; what the cube does wrong is there each time.
	for range 3 {
		r.Set("PATCH", "f offload", "false")
		set()
		without := r.send(list)
		r.Set("PATCH", "f offload", "true")
		set()
		r.settled()
		with := r.send(list)
		if strings.Contains(text, "MASQUERADE") {
			withoutPorts(with.left)
			withoutPorts(without.left)
		}
		if why = difference(with, without, g.v6); why == "" {
			return
		}
		r.t.Logf("a difference that may be one of times: %s", why)
	}
	r.t.Fatalf("%s\n%s\n%s\n%s", text, why, r.Read("f report"), r.Read("f environment"))
}

// settled waits until rules are in effect, and nothing of the host has changed for some time.
func (r *router) settled() {
	r.t.Helper()
	var last status
	var since time.Time
	netns.Eventually(r.t, bpftest.Patience, func() error {
		s := r.status()
		if s.Gate != "OPEN" || s.Changes != last.Changes {
			last, since = s, time.Now()
			return fmt.Errorf("the gate is %s: %s", s.Gate, s.Error)
		}
		if time.Since(since) < 60*time.Millisecond { // tables of iptables-legacy are compared every 20 ms
			return errors.New("the host may still change")
		}
		return nil
	})
}
