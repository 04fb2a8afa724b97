// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gosnmp/gosnmp"

	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pace"
)

// followingServer is the state of a server whose weight follows its load.
type followingServer struct {
	Feedback struct {
		State  string
		Load   json.Number
		Weight json.Number `json:"effective-weight"`
		Error  string      `json:"last-error"`
	}
}

// weighs waits until server n has an agent in a state, and a weight within limits.
func (d *daemon) weighs(t *testing.T, n int, state string, least, most float64) {
	t.Helper()
	netns.Eventually(t, patience, func() error {
		var is followingServer
		text := d.Must(200, "GET", fmt.Sprintf("/lbrp/lb/service/192.0.2.1/80/TCP/backend/10.0.%d.2/8080", n), "")
		if err := json.Unmarshal([]byte(text), &is); err != nil {
			return err
		}
		weight, err := json.Number(strings.Trim(is.Feedback.Weight.String(), `"`)).Float64()
		if err != nil {
			return err
		}
		if is.Feedback.State != state || weight < least || weight > most {
			return fmt.Errorf("server %d has %+v, want %s and a weight of %v to %v", n, is.Feedback, state, least, most)
		}
		return nil
	})
}

// loadOID is laLoadInt.1 of UCD-SNMP-MIB: the load in percent.
const loadOID = ".1.3.6.1.4.1.2021.10.1.5.1"

// busyServer is a server in a namespace with net-snmp's agent, which says that the load is what the test says.
type busyServer struct {
	*netns.Node
	daemon  *netns.Namespace
	address string // of the agent, for the daemon
	dir     string
	end     func()
}

// newBusyServer connects a server to the daemon's own network, as its management network does.
func newBusyServer(t *testing.T, node *netns.Node, daemon *netns.Namespace, n int) *busyServer {
	t.Helper()
	s := &busyServer{Node: node, daemon: daemon, address: fmt.Sprintf("10.1.%d.2", n), dir: t.TempDir()}
	outer := fmt.Sprintf("mgmt%d", n)
	daemon.Run("ip", "link", "add", outer, "type", "veth", "peer", "name", "mgmt", "netns", s.Name)
	daemon.Run("ip", "address", "add", fmt.Sprintf("10.1.%d.1/24", n), "dev", outer)
	daemon.Run("ip", "link", "set", outer, "up")
	s.Run("ip", "address", "add", s.address+"/24", "dev", "mgmt")
	s.Run("ip", "link", "set", "mgmt", "up")
	s.Run("ip", "link", "set", "lo", "up")
	s.start(t, 10)
	t.Cleanup(func() { s.end() })
	return s
}

// start starts the agent, with a load in percent.
func (s *busyServer) start(t *testing.T, load int) {
	t.Helper()
	conf := filepath.Join(s.dir, "snmpd.conf")
	text := fmt.Sprintf("rwcommunity shop\noverride .1.3.6.1.4.1.2021.11.67.0 integer 1\noverride -rw %s integer %d\n", loadOID, load)
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := s.Command("snmpd", "-f", "-LE", "3", "-C", "-c", conf, "-I", "-smux", "udp:161")
	cmd.Env = append(os.Environ(), "SNMP_PERSISTENT_DIR="+s.dir, "MIBS=")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.end = func() {
		_ = cmd.Process.Kill() // fails if it has ended
		_ = cmd.Wait()
	}
}

// busy sets the load, in percent.
func (s *busyServer) busy(percent int) {
	s.daemon.Must(func() error {
		c := gosnmp.GoSNMP{Target: s.address, Port: 161, Version: gosnmp.Version2c, Community: "shop", Timeout: pace.Stretch(2 * time.Second), Retries: 3, MaxOids: 1}
		if err := c.Connect(); err != nil {
			return err
		}
		defer c.Close()
		_, err := c.Set([]gosnmp.SnmpPDU{{Name: loadOID, Type: gosnmp.Integer, Value: percent}})
		return err
	})
}

// openConn is a connection that stays.
type openConn struct {
	net.Conn
	*bufio.Reader
	server string
}

// ask sends a line and returns which server answers.
func (c *openConn) ask() (server string, err error) {
	if err := c.SetDeadline(time.Now().Add(pace.Stretch(10 * time.Second))); err != nil {
		return "", err
	}
	if _, err := io.WriteString(c.Conn, "hi\n"); err != nil {
		return "", err
	}
	line, err := c.ReadString('\n')
	server, _, _ = strings.Cut(line, " ")
	return server, err
}

// connect opens connections, and returns how many each server has.
func connect(client *netns.Node, n int) (all []*openConn, seen map[string]int, err error) {
	seen = map[string]int{}
	err = client.Do(func() error {
		for range n {
			c, err := net.DialTimeout("tcp", "192.0.2.1:80", pace.Stretch(10*time.Second))
			if err != nil {
				return err
			}
			is := &openConn{Conn: c, Reader: bufio.NewReader(c)}
			all = append(all, is)
			if is.server, err = is.ask(); err != nil {
				return err
			}
			seen[is.server]++
		}
		return nil
	})
	return all, seen, err
}

func closeAll(all []*openConn) {
	for _, c := range all {
		_ = c.Close()
	}
}

// stay fails unless each connection still has its server.
func stay(t *testing.T, when string, all []*openConn) {
	t.Helper()
	for _, c := range all {
		if is, err := c.ask(); err != nil || is != c.server {
			t.Fatalf("%s, a connection to server %s is to %q: %v", when, c.server, is, err)
		}
	}
}

// TestWeightsFollowRealAgents: servers with net-snmp, clients with real connections, and a daemon that is killed.
func TestWeightsFollowRealAgents(t *testing.T) {
	t.Parallel()
	for _, kind := range types {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			var opts []netns.Option
			if kind != "TC" {
				opts = append(opts, netns.WithoutTxChecksum(), netns.WithGRO())
			}
			m := newMachine(t)
			client := m.lab.Host("veth0", "10.0.0.2/24", opts...)
			client.Run("ip", "route", "add", "default", "via", "10.0.0.1")
			var servers [3]*busyServer
			var ports, backends []string
			for n := 1; n < len(servers); n++ {
				servers[n] = newBusyServer(t, m.lab.Host(fmt.Sprintf("veth%d", n), fmt.Sprintf("10.0.%d.2/24", n), opts...), m.lab.Namespace, n)
				servers[n].Run("ip", "route", "add", "default", "via", fmt.Sprintf("10.0.%d.1", n))
				servers[n].AnswerLines(":8080", func(_ net.Addr, line string) string { return fmt.Sprintf("%d %s", n, line) })
				ports = append(ports, fmt.Sprintf(`{"name":"p%d","ip":"10.0.%[1]d.1/24","peer":"veth%[1]d"}`, n))
				backends = append(backends, fmt.Sprintf(`{"ip":"10.0.%d.2","port":8080,"weight":10,"agent-address":%q}`, n, servers[n].address))
			}
			d := m.Start()
			d.Must(201, "POST", "/cubes", fmt.Sprintf(`[{"service-name":"router","name":"r","type":%q,"ports":[{"name":"up","ip":"10.0.0.1/24","peer":"lb:b"},%s]},
				{"service-name":"lbrp","name":"lb","type":%[1]q,"ports":[{"name":"f","type":"FRONTEND","peer":"veth0"},{"name":"b","type":"BACKEND","peer":"r:up"}],
				 "service":[{"vip":"192.0.2.1","vport":80,"proto":"TCP","backend":[%[3]s],"feedback":{"method":"SNMP","interval":500,"timeout":500,"misses":4,
				 "gain":50,"scale":4,"smoothing":0,"ratios":{"cpu":0,"load":100,"memory":0},"snmp":{"community":"shop"}}}]}]`, kind, strings.Join(ports, ","), strings.Join(backends, ",")))
			d.weighs(t, 1, "FOLLOWING", 10, 10)
			d.weighs(t, 2, "FOLLOWING", 10, 10)
			var all []*openConn
			defer func() { closeAll(all) }()
			netns.Eventually(t, patience, func() (err error) { // until the router knows the servers
				closeAll(all)
				all, _, err = connect(client, 60)
				return err
			})
			servers[1].busy(90) // its weight becomes 2.5, the least that scale permits, and that of the other about 17.5
			d.weighs(t, 1, "FOLLOWING", 2.5, 2.7)
			d.weighs(t, 2, "FOLLOWING", 16.6, 18.9)
			stay(t, "after weights changed", all)
			later, seen, err := connect(client, 200)
			defer closeAll(later)
			if err != nil || seen["1"] < 5 || seen["1"] > 50 { // about 25 are expected
				t.Fatalf("with the weights 2.5 and 17.5, 200 connections go to %v, %v", seen, err)
			}
			d.Kill9()
			stay(t, "while the daemon is killed", all)
			d = m.Start()
			d.weighs(t, 1, "FOLLOWING", 2.5, 2.7)
			stay(t, "after the daemon was killed", append(all, later...))
			servers[1].end()
			d.weighs(t, 1, "UNREACHABLE", 10, 10)
			stay(t, "after an agent ended", all)
			servers[1].start(t, 90)
			d.weighs(t, 1, "FOLLOWING", 2.5, 2.7)
			d.Alive()
		})
	}
}
