// SPDX-License-Identifier: Apache-2.0

package elb_test

// Beside a real HAProxy, with real clients and servers: they are the addresses of the host behind veth1.

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
)

// web is a frontend that can be taken over; %s are lines of it, and servers.
const web = `global
  stats socket %s mode 600 level admin
defaults
  mode tcp
  timeout connect 5s
  timeout client 1h
  timeout server 1h
frontend web
  bind 10.0.0.1:80
  bind [fd00::1]:80
%s  default_backend app
backend app
  balance roundrobin
%s
frontend app6
  bind [fd00::1]:81
  default_backend app6
backend app6
  server six [fd00::11]:8080
frontend other
  bind 10.0.0.1:81
  acl local src 127.0.0.0/8
  default_backend app
`

// site is a host with HAProxy and the cube, and the network of its servers.
type site struct {
	*rig
	dir    string
	master *exec.Cmd
}

// newSite is a host with HAProxy, whose cube does nothing yet. Servers send their names, and then everything back.
func newSite(t *testing.T, typ cube.Type) *site {
	t.Helper()
	if _, err := exec.LookPath("haproxy"); err != nil {
		t.Skip("haproxy is not installed: there are no frontends to take over")
	}
	s := &site{rig: newHost(t, typ), dir: t.TempDir()}
	network := s.Hosts[0]
	network.Run("ip", "link", "set", "lo", "up")
	for _, e := range []ends{v4, v6} {
		for _, a := range []string{e.client, e.server, e.other} {
			args := []string{"addr", "add", a + "/24", "dev", netns.Inner}
			if strings.Contains(a, ":") {
				args = []string{"addr", "add", a + "/64", "dev", netns.Inner, "nodad"}
			}
			network.Run("ip", args...)
		}
		s.echo(e.server)
		s.echo(e.other)
	}
	s.Create("elb", "e", fmt.Sprintf(`{"haproxy":{"stats-socket":%q}}`, s.socket()))
	s.Attach("e", "veth1")
	return s
}

func (s *site) socket() string { return filepath.Join(s.dir, "admin.sock") }
func (s *site) file() string   { return filepath.Join(s.dir, "haproxy.cfg") }

// echo starts a server behind veth1, or another netdev.
func (s *site) echo(address string) { s.echoAt(s.Hosts[0], address) }

func (s *site) echoAt(at *netns.Node, address string) {
	s.t.Helper()
	var l net.Listener
	at.Must(func() (err error) {
		l, err = net.Listen("tcp", net.JoinHostPort(address, "8080"))
		return err
	})
	s.t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				from, port, _ := net.SplitHostPort(c.RemoteAddr().String())
				fmt.Fprintf(c, "%s %s %s\n", address, from, port)
				_, _ = io.Copy(c, c)
			}()
		}
	}()
}

// write writes HAProxy's configuration, as an editor does.
func (s *site) write(lines string, servers ...string) {
	s.t.Helper()
	var list strings.Builder
	for i, a := range servers {
		if !strings.Contains(a, ":") {
			a += ":8080"
		}
		fmt.Fprintf(&list, "  server s%d %s\n", i+1, a)
	}
	text := fmt.Sprintf(web, s.socket(), lines, list.String())
	text = strings.Replace(text, "  bind [fd00::1]:80\n", "", 1) // its servers have IPv4
	if err := errors.Join(os.WriteFile(s.file()+".new", []byte(text), 0o600), os.Rename(s.file()+".new", s.file())); err != nil {
		s.t.Fatal(err)
	}
}

// run starts HAProxy, with a master that reloads it.
func (s *site) run() {
	s.t.Helper()
	cmd := s.Command("haproxy", "-W", "-f", s.file())
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.master = cmd
	s.t.Cleanup(func() { s.kill(cmd) })
	netns.Eventually(s.t, bpftest.Patience, func() error {
		c, err := net.Dial("unix", s.socket())
		if err != nil {
			return fmt.Errorf("HAProxy: %w: %s", err, out.String())
		}
		return c.Close()
	})
}

// kill kills HAProxy at once.
func (s *site) kill(cmd *exec.Cmd) {
	if cmd.ProcessState == nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
	}
}

// takenOver waits until a frontend is, or is not.
func (s *site) takenOver(name string, is bool) {
	s.t.Helper()
	netns.Eventually(s.t, bpftest.Patience, func() error {
		var all []struct {
			Name string
			Over bool `json:"taken-over"`
		}
		if err := json.Unmarshal([]byte(s.Read("e frontend")), &all); err != nil {
			return err
		}
		for _, f := range all {
			if f.Name == name && f.Over == is {
				return nil
			}
		}
		return fmt.Errorf("frontend %s is not as wanted: %+v, %s", name, all, s.Read("e report"))
	})
}

// through is how many connections HAProxy has opened to all servers.
func (s *site) through() (n uint64) {
	s.t.Helper()
	for _, one := range s.servers() {
		if one.Sessions != nil {
			n += *one.Sessions
		}
	}
	return n
}

func TestHAProxyIsTakenOverAndGivenBack(t *testing.T) {
	for _, typ := range []cube.Type{cube.TypeTC, cube.TypeXDPDRV} {
		t.Run(string(typ), func(t *testing.T) { takeover(t, newSite(t, typ)) })
	}
}

func takeover(t *testing.T, s *site) {
	const to, to6 = "10.0.0.1:80", "[fd00::1]:81"
	s.write("", v4.server, v4.other)
	s.run()
	old := s.dial(to)
	if old.works("through HAProxy"); old.fast() {
		t.Fatalf("source port %d before the takeover", old.port)
	}

	s.Set("PUT", "e haproxy", fmt.Sprintf(`{"file":[%q],"stats-socket":%q}`, s.file(), s.socket()))
	s.takenOver("web", true)
	s.takenOver("app6", true)
	s.takenOver("other", false)
	if report := s.Read("e report"); !strings.Contains(report, "haproxy.cfg:23") || !strings.Contains(report, "acl") {
		t.Errorf("the report is %s", report)
	}
	s.settled()
	old.works("a connection that HAProxy has, after the takeover")
	connected := s.sessions("connected")
	again := s.segment(v4, uint16(old.LocalAddr().(*net.TCPAddr).Port), syn)
	if out, _ := s.judged(again); out != passes || s.sessions("connected") != connected+1 {
		t.Errorf("a SYN with the addresses and ports of a connection that HAProxy has: %+v, want %+v", out, passes)
	}
	if before := s.through(); before != 1 {
		t.Errorf("HAProxy has opened %d connections, want 1", before)
	}
	first, second, six := s.dial(to), s.dial(to), s.dial(to6)
	for _, c := range []*conn{first, second, six} {
		if c.works("after the takeover"); !c.fast() {
			t.Errorf("source port %d after the takeover", c.port)
		}
	}
	if first.server == second.server {
		t.Errorf("both connections are of %s", first.server)
	}
	if n := s.through(); n != 1 {
		t.Errorf("HAProxy has opened %d connections after the takeover, want 1", n)
	}

	s.kill(s.master)
	first.works("without HAProxy")
	for range 2 { // one for each server
		c := s.dial(to)
		if !c.fast() {
			t.Errorf("source port %d without HAProxy", c.port)
		}
		c.Close()
	}
	s.run()

	// Back to HAProxy, because of a line that it needs.
	s.write("  tcp-request content accept\n", v4.server, v4.other)
	if err := s.master.Process.Signal(syscall.SIGUSR2); err != nil {
		t.Fatal(err)
	}
	s.takenOver("web", false)
	if c := s.dial(to); c.fast() {
		t.Errorf("source port %d after the frontend was given back", c.port)
	} else {
		c.works("through HAProxy again")
	}
	first.works("a session after its frontend was given back")
	six.works("a session of another frontend")
	if is := s.server(second.server); is.State != "ENDING" {
		t.Errorf("the server is %+v, want ENDING", is)
	}

	// Another configuration, with one of the servers.
	s.write("", v4.other)
	if err := s.master.Process.Signal(syscall.SIGUSR2); err != nil {
		t.Fatal(err)
	}
	s.takenOver("web", true)
	netns.Eventually(t, bpftest.Patience, func() error {
		if is := s.server(v4.other); is.State != "UP" {
			return fmt.Errorf("the server is %+v", is)
		}
		return nil
	})
	for _, c := range []*conn{first, second} {
		c.works("a session whose server may be removed")
	}
	for range 3 {
		if c := s.dial(to); c.server != v4.other || !c.fast() {
			t.Errorf("a connection is of %s, source port %d, want %s", c.server, c.port, v4.other)
		}
	}
	ended(t, s, first, second)
}

// ended closes sessions, after which their removed server is forgotten.
func ended(t *testing.T, s *site, all ...*conn) {
	for _, c := range all {
		if err := c.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if _, err := c.r.ReadByte(); !errors.Is(err, io.EOF) {
			t.Errorf("the end of a session: %v, want %v", err, io.EOF)
		}
		c.Close()
	}
	s.Set("PUT", "e timeout", `{"tcp-time-wait":1}`)
	netns.Eventually(t, bpftest.Patience, func() error {
		if is := s.server(v4.server); is.State != "" {
			return fmt.Errorf("the removed server is still there: %+v", is)
		}
		return nil
	})
}

// TestServersThatAreDownGetNoSessions has HAProxy's checks made here.
func TestServersThatAreDownGetNoSessions(t *testing.T) {
	s := newSite(t, cube.TypeTC)
	s.Hosts[0].Run("ip", "addr", "add", "10.0.0.13/24", "dev", netns.Inner) // nothing listens
	s.write("", v4.server+":8080 check inter 100ms port 8080", "10.0.0.13:8080 check inter 100ms port 8080")
	s.Set("PUT", "e haproxy", fmt.Sprintf(`{"file":[%q]}`, s.file()))
	s.takenOver("web", true)
	state := func(ip, want string) {
		t.Helper()
		netns.Eventually(t, bpftest.Patience, func() error {
			if is := s.server(ip); is.State != want {
				return fmt.Errorf("%s is %+v, want %s", ip, is, want)
			}
			return nil
		})
	}
	state(v4.server, "UP")
	state("10.0.0.13", "DOWN")
	for range 4 {
		if c := s.dial("10.0.0.1:80"); c.server != v4.server || !c.fast() {
			t.Errorf("a connection is of %s, source port %d", c.server, c.port)
		}
	}
}

func TestConfiguredChecksHaveTheirTargets(t *testing.T) {
	s := newSite(t, cube.TypeTC)
	for _, tt := range []struct{ check, want string }{
		{`"port":8081`, "DOWN"},
		{`"address":"10.0.0.12","port":8080`, "UP"},
		{`"address":"10.0.0.12","port":8081`, "DOWN"},
		{`"rise":1`, "UP"},
	} {
		s.Set("PUT", "e service", fmt.Sprintf(`[%s]`, v4.service(fmt.Sprintf(`,"health-check":{"type":"TCP","interval":250,"timeout":100,"fall":1,%s}`, tt.check), v4.server)))
		netns.Eventually(t, bpftest.Patience, func() error {
			if is := s.server(v4.server); is.State != tt.want {
				return fmt.Errorf("%s: %+v, want %s", tt.check, is, tt.want)
			}
			return nil
		})
	}
}

// TestWhatPreventsATakeoverIsSaid has reasons that are those of the cube.
func TestWhatPreventsATakeoverIsSaid(t *testing.T) {
	s := newSite(t, cube.TypeTC)
	for _, tt := range []struct{ what, conf, lines, server, why string }{
		{"a service of the same address", `{"service":[` + v4.service("", v4.other) + `]}`, "", v4.server, "service 10.0.0.1 80 is configured in the cube"},
		{"an agent without a port", `{}`, "", v4.server + ":8080 agent-check", "agent-check needs agent-port"},
		{"the address of the host", `{"source":"10.0.0.11"}`, "", v4.server, "or the source address that servers see"},
		{"many ports", `{}`, "  bind 10.0.0.7:1000-1099\n", v4.server, "all ports"},
		{"a name", `{}`, "", "app.example", "may change"},
	} {
		s.write(tt.lines, tt.server)
		conf := map[string]any{}
		if err := json.Unmarshal([]byte(tt.conf), &conf); err != nil {
			t.Fatal(err)
		}
		conf["haproxy"] = map[string]any{"file": []string{s.file()}}
		body, err := json.Marshal(conf)
		if err != nil {
			t.Fatal(err)
		}
		s.Set("PATCH", "e", string(body))
		s.takenOver("web", false)
		netns.Eventually(t, bpftest.Patience, func() error {
			if report := s.Read("e report"); !strings.Contains(report, tt.why) {
				return fmt.Errorf("%s: the report is %s, want %q", tt.what, report, tt.why)
			}
			return nil
		})
		s.Set("DELETE", "e service", "")
		if tt.conf != `{}` {
			_ = s.Try("DELETE", "e source", "")
		}
	}
}

// TestFilesThatAreNotHAProxysAreNotQuoted: whoever may configure a cube may not read every file.
func TestFilesThatAreNotHAProxysAreNotQuoted(t *testing.T) {
	s := newSite(t, cube.TypeTC)
	pipe := filepath.Join(s.dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	secret := filepath.Join(s.dir, "secret")
	if err := os.WriteFile(secret, []byte("password:hunter2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for file, why := range map[string]string{secret: "begins with a section", pipe: "not a file", s.dir: "not a file", s.dir + "/none": "no such file"} {
		s.Set("PUT", "e haproxy", fmt.Sprintf(`{"file":[%q]}`, file))
		if is := s.Read("e haproxy"); !strings.Contains(is, why) || strings.Contains(is, "hunter2") {
			t.Errorf("%s: %s, want %q", file, is, why)
		}
	}
	s.Set("PUT", "e haproxy", fmt.Sprintf(`{"stats-socket":%q}`, s.socket()))
	if is := s.Read("e haproxy"); !strings.Contains(is, "stats-error") || !strings.Contains(is, "no such file") {
		t.Errorf("without HAProxy: %s, want stats-error", is)
	}
	// With a file that is right, and one that is not any more.
	s.write("", v4.server)
	s.Set("PUT", "e haproxy", fmt.Sprintf(`{"file":[%q]}`, s.file()))
	s.takenOver("web", true)
	if err := os.WriteFile(s.file(), []byte("global\nfrontend web\n  what is this\nfrontend web\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	netns.Eventually(t, bpftest.Patience, func() error {
		if is := s.Read("e haproxy"); !strings.Contains(is, "haproxy.cfg:4") {
			return fmt.Errorf("the error is %s", is)
		}
		return nil
	})
	if is := s.server(v4.server); is.State != "" && is.State != "ENDING" {
		t.Errorf("the server is %+v", is)
	}
}
