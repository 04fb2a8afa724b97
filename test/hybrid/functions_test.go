// SPDX-License-Identifier: Apache-2.0

package hybrid

// A lab with edpi, efw and elb on one netdev: the test has the place of nDPI, rules of iptables are the slow path of efw, and a program
// that listens behind them is that of elb.

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/cube"
	_ "github.com/polycube/polycube/cubes/edpi" // registers itself
	"github.com/polycube/polycube/cubes/efw"
	"github.com/polycube/polycube/cubes/elb"
	"github.com/polycube/polycube/dpi"
	"github.com/polycube/polycube/flow"
	"github.com/polycube/polycube/ring"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
)

// The machine has the address of the services; clients and servers are behind its netdev.
const (
	machine   = "10.0.0.1"
	client    = "10.0.0.2"
	server    = "10.0.0.11"
	clientMAC = "02:00:00:00:00:02"
	serverMAC = "02:00:00:00:00:11"
)

// Ports of the machine. The cube efw knows what the rules say about the first two, and leaves packets to the next two to the rules.
// elb has services on the first of each.
const (
	knownService   = 80
	known          = 81
	unknownService = 90
	unknown        = 91
	refused        = 99
)

// firewall are the rules. The first one counts all packets of clients that efw or the stack has judged. The host itself says nothing.
const firewall = `*filter
:INPUT DROP [0:0]
:FORWARD DROP [0:0]
:OUTPUT DROP [0:0]
-A INPUT -s 10.0.0.2/32 -p tcp
-A INPUT -p tcp --dport 99 -j DROP
-A INPUT -s 10.0.0.11/32 -p tcp --sport 8080 -j ACCEPT
-A INPUT -p tcp --dport 80:81 -j ACCEPT
-A INPUT -p tcp --dport 90:91 -m limit --limit 10000/second --limit-burst 10000 -j ACCEPT
COMMIT
`

// decided is the class of flows that the classifier knows.
const decided = 91

// functions are the three cubes on a netdev.
type functions struct {
	*bpftest.Lab
	t *testing.T
	// order are the names of the cubes, from the wire to the stack.
	wire  *netns.Raw
	stack *net.IPConn
	dpi   *dpi.Tables
	// sent is the number of packets, each of which contains its own.
	sent uint32
	// seen is how often a packet was seen, by its number.
	seen map[place]map[uint32]int
	// source is the source port that elb has given a packet.
	source map[uint32]uint16
	// rounds gets a word after each round of packets, if somebody waits for it.
	rounds chan struct{}
}

// place is where a packet is seen.
type place string

const (
	atProgram       place = "the program behind the rules"
	atServer        place = "the server, from elb"
	atClient        place = "the client, from elb"
	atClassifier    place = "the classifier, on the client's side of elb"
	atClassifierToo place = "the classifier, on the server's side of elb"
)

var places = []place{atProgram, atServer, atClient, atClassifier, atClassifierToo}

// conversation is a client's connection to a port of the machine.
type conversation struct {
	from, to uint16
	decided  bool // by the classifier, after its first packet
	// packets are the numbers of the client's, replies those of the server's.
	packets, replies []uint32
}

// newFunctions attaches the cubes in an order.
func newFunctions(t *testing.T, typ cube.Type, order ...string) *functions {
	t.Helper()
	if _, err := exec.LookPath("iptables-legacy-restore"); err != nil {
		t.Skip("iptables-legacy is not installed: there are no rules to offload")
	}
	l := bpftest.New(t, bpftest.Options{Type: typ, Hosts: 1, Host: bpftest.OnTheWire(), Follow: true, ServicesIn: func(l *bpftest.Lab) []cube.Service {
		list := slices.Clone(cube.Services())
		for i, s := range list {
			switch {
			case strings.Contains(s.Model, "module efw {"):
				list[i].New = func(env cube.Env) (cube.Instance, error) { return efw.NewIn(l.Do, env) }
			case strings.Contains(s.Model, "module elb {"):
				list[i].New = func(env cube.Env) (cube.Instance, error) { return elb.NewIn(l.Do, env) }
			}
		}
		return list
	}})
	f := &functions{Lab: l, t: t, seen: map[place]map[uint32]int{}, source: map[uint32]uint16{}, rounds: make(chan struct{})}
	for _, p := range places {
		f.seen[p] = map[uint32]int{}
	}
	l.Lab.Run("sysctl", "-qw", "net.ipv4.conf.all.rp_filter=0", "net.ipv4.conf.veth1.rp_filter=0")
	l.Lab.Run("ip", "addr", "add", machine+"/24", "dev", "veth1")
	for address, mac := range map[string]string{client: clientMAC, server: serverMAC} {
		l.Lab.Run("ip", "neigh", "replace", address, "lladdr", mac, "dev", "veth1", "nud", "permanent")
	}
	cmd := l.Command("iptables-legacy-restore")
	cmd.Stdin = strings.NewReader(firewall)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("iptables-legacy-restore: %v: %s", err, out)
	}
	f.wire = netns.OpenRaw(t, l.Hosts[0], netns.Inner)
	l.Must(f.listen)
	t.Cleanup(func() { _ = f.stack.Close() })
	l.Create("edpi", "edpi1", `{"inspect-packets":24,"sample-interval":0}`)
	l.Create("efw", "efw1", "")
	l.Create("elb", "elb1", fmt.Sprintf(`{"service":[%s,%s]}`, service(knownService), service(unknownService)))
	for _, name := range order {
		l.Attach(name, "veth1")
	}
	var err error
	if f.dpi, err = dpi.Open(l.PinsOf("edpi1")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.dpi.Close() })
	f.ready()
	return f
}

// service is one of elb.
func service(port int) string {
	return fmt.Sprintf(`{"vip":%q,"vport":%d,"backend":[{"ip":%q,"port":8080}]}`, machine, port, server)
}

// listen opens the program behind the rules: it gets all packets that they accept.
func (f *functions) listen() (err error) {
	if f.stack, err = net.ListenIP("ip4:tcp", &net.IPAddr{IP: net.ParseIP(machine)}); err != nil {
		return err
	}
	raw, err := f.stack.SyscallConn()
	if err != nil {
		return err
	}
	return errors.Join(raw.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 16<<20)
	}), err)
}

// ready waits until efw has taken the rules over, and the server of elb is up.
func (f *functions) ready() {
	f.t.Helper()
	netns.Eventually(f.t, bpftest.Patience, func() error {
		gate, servers := f.Read("efw1 status gate"), f.Read("elb1 server")
		if gate != `"OPEN"` || strings.Count(servers, `"UP"`) != 2 || !strings.Contains(f.Read("efw1 report"), "dport 99") {
			return fmt.Errorf("the gate is %s, servers are %s", gate, servers)
		}
		return nil
	})
}

// send sends a packet of the client.
func (f *functions) send(c *conversation, flags pkt.TCPFlags) {
	f.t.Helper()
	f.sent++
	c.packets = append(c.packets, f.sent)
	flags.Seq = uint32(len(c.packets))
	f.put(pkt.Eth(clientMAC, f.Hosts[0].OuterMAC.String()).IPv4(client, machine).TCP(c.from, c.to, flags))
}

// reply sends a packet of the server.
func (f *functions) reply(c *conversation, flags pkt.TCPFlags) {
	f.t.Helper()
	f.sent++
	c.replies = append(c.replies, f.sent)
	flags.Seq, flags.Ack = uint32(len(c.replies)), 1
	f.put(pkt.Eth(serverMAC, f.Hosts[0].OuterMAC.String()).IPv4(server, machine).TCP(8080, f.source[c.packets[0]], flags))
}

const mark = "packet: "

// put sends a frame with the number of the packet in it.
func (f *functions) put(frame *pkt.Frame) {
	f.t.Helper()
	if err := f.wire.Send(frame.Data(binary.BigEndian.AppendUint32([]byte(mark), f.sent)).Bytes()); err != nil {
		f.t.Fatal(err)
	}
}

// number is that in a frame, or in a segment of TCP.
func number(data []byte) (is uint32, ok bool) {
	at := bytes.Index(data, []byte(mark))
	if at < 0 || len(data) < at+len(mark)+4 {
		return 0, false
	}
	return binary.BigEndian.Uint32(data[at+len(mark):]), true
}

// look takes what has arrived everywhere.
func (f *functions) look() {
	f.t.Helper()
	note := func(at place, data []byte) {
		if is, ok := number(data); ok {
			f.seen[at][is]++
		}
	}
	for buffer := make([]byte, 2048); ; {
		_ = f.stack.SetReadDeadline(time.Now().Add(time.Millisecond))
		n, _, err := f.stack.ReadFrom(buffer)
		if err != nil {
			break
		}
		note(atProgram, buffer[:n])
	}
	for {
		frame, err := f.wire.Recv(nil, 0)
		if err != nil {
			break
		}
		is, _ := flow.Read(frame)
		switch is.Destination.Addr().String() {
		case server:
			note(atServer, frame)
			if n, ok := number(frame); ok {
				f.source[n] = is.SourcePort.Number()
			}
		case client:
			note(atClient, frame)
		}
	}
	f.dpi.Packets.Read(func(p *ring.Packet) {
		is, _ := flow.Read(p.Data)
		if is.Source.Addr().String() == client || is.Destination.Addr().String() == client {
			note(atClassifier, p.Data)
		} else {
			note(atClassifierToo, p.Data)
		}
	})
}

// arrive waits until packets have been seen at one of some places.
func (f *functions) arrive(packets []uint32, at ...place) {
	f.t.Helper()
	netns.Eventually(f.t, bpftest.Patience, func() error {
		f.look()
		missing := slices.DeleteFunc(slices.Clone(packets), func(is uint32) bool {
			return slices.ContainsFunc(at, func(p place) bool { return f.seen[p][is] > 0 })
		})
		if len(missing) > 0 {
			return fmt.Errorf("%d of %d packets have not arrived: %v", len(missing), len(packets), missing)
		}
		return nil
	})
}

// entry is the flow of a connection in edpi, by one end and the other.
func (f *functions) entry(from string, sport uint16, to string, dport uint16) (dpi.Key, dpi.Flow) {
	f.t.Helper()
	read, _ := flow.Read(pkt.Eth(clientMAC, serverMAC).IPv4(from, to).TCP(sport, dport, pkt.TCPFlags{}).Bytes())
	k, _ := dpi.KeyOf(&read)
	is, _, err := f.dpi.Flow(k)
	if err != nil {
		f.t.Fatal(err)
	}
	return k, is
}

// decide classifies a conversation.
func (f *functions) decide(c *conversation) {
	f.t.Helper()
	k, is := f.entry(client, c.from, machine, c.to)
	if err := f.dpi.Decide(k, dpi.Decision{ID: is.ID, Class: dpi.Class{Protocol: decided}}); err != nil {
		f.t.Fatal(err)
	}
	c.decided = true
}

// taken reports whether elb has the conversation.
func (f *functions) taken(c *conversation) bool { return f.seen[atServer][c.packets[0]] > 0 }

// check checks that each packet of a conversation was seen once at each place of its way, and counted once in edpi. Packets of a connection
// have one way.
func (f *functions) check(c *conversation) {
	f.t.Helper()
	taken := f.taken(c)
	want := map[place]bool{atServer: taken, atProgram: !taken, atClassifierToo: taken}
	for i, is := range c.packets {
		want[atClassifier] = i == 0 || !c.decided
		for _, p := range places {
			if n := f.seen[p][is]; n > 1 || (n > 0) != want[p] {
				f.t.Errorf("packet %d of %d to %d (taken by elb: %v, classified: %v) was seen %d times by %s, want it: %v", i+1, len(c.packets), c.to, taken, c.decided, n, p, want[p])
			}
		}
	}
	for _, is := range c.replies {
		if n, atProgram := f.seen[atClient][is], f.seen[atProgram][is]; n != 1 || atProgram > 0 {
			f.t.Errorf("a reply from port %d was seen %d times by the client, and %d times in the stack", c.to, n, atProgram)
		}
	}
	all := uint64(len(c.packets) + len(c.replies))
	if _, is := f.entry(client, c.from, machine, c.to); is.Packets[0]+is.Packets[1] != all {
		f.t.Errorf("port %d: edpi has counted %v packets of the client's connection, want %d", c.to, is.Packets, all)
	}
	if !taken {
		return
	}
	if _, is := f.entry(machine, f.source[c.packets[0]], server, 8080); is.Packets[0]+is.Packets[1] != all {
		f.t.Errorf("port %d: edpi has counted %v packets of the server's connection, want %d", c.to, is.Packets, all)
	}
}

// counted are the packets that a rule has counted in the stack and in front of it.
func (f *functions) counted(number int) uint64 {
	f.t.Helper()
	var rules []struct {
		Name    string
		Number  int
		Packets uint64
	}
	if err := json.Unmarshal([]byte(f.Read("efw1 chain")), &rules); err != nil {
		f.t.Fatal(err)
	}
	for _, r := range rules {
		if r.Name == "INPUT" && r.Number == number {
			return r.Packets
		}
	}
	f.t.Fatalf("no rule %d: %+v", number, rules)
	return 0
}

// balanced are the sessions and packets of a service in elb.
func (f *functions) balanced(port int) (opened, packets, replies uint64) {
	f.t.Helper()
	var servers []struct {
		VPort           int
		Opened, Packets uint64
		ReplyPackets    uint64 `json:"reply-packets"`
	}
	if err := json.Unmarshal([]byte(f.Read("elb1 server")), &servers); err != nil {
		f.t.Fatal(err)
	}
	for _, s := range servers {
		if s.VPort == port {
			return s.Opened, s.Packets, s.ReplyPackets
		}
	}
	return 0, 0, 0
}
