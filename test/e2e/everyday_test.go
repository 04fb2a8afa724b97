// SPDX-License-Identifier: Apache-2.0

// Programs that people use every day, through the chains of the cube iptables.

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pace"
)

// strict lets in and through what the programs need, and nothing else, not even what the host itself begins to send. Messages
// about a connection belong to it.
const strict = `
	iptables-restore <<-'RULES'
		*filter
		:INPUT DROP
		:FORWARD DROP
		:OUTPUT DROP
		-A INPUT -m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT
		-A INPUT -i lan0 -p tcp --syn --dport 22 -m conntrack --ctstate NEW -j ACCEPT
		-A INPUT -p icmp --icmp-type echo-request -m limit --limit 100/second -j ACCEPT
		-A FORWARD -m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT
		-A FORWARD -i lan0 -o wan0 -p tcp -m multiport --dports 5201,8000 -m conntrack --ctstate NEW -j ACCEPT
		-A FORWARD -i lan0 -o wan0 -p udp -m multiport --dports 5201,33434:33534 -j ACCEPT
		-A FORWARD -i lan0 -o wan0 -p icmp --icmp-type echo-request -j ACCEPT
		-A OUTPUT -m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT
		COMMIT
	RULES
	ip6tables-restore <<-'RULES'
		*filter
		:INPUT DROP
		:FORWARD DROP
		:OUTPUT DROP
		-A INPUT -m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT
		-A INPUT -p icmpv6 --icmpv6-type neighbour-solicitation -m hl --hl-eq 255 -j ACCEPT
		-A INPUT -p icmpv6 --icmpv6-type neighbour-advertisement -m hl --hl-eq 255 -j ACCEPT
		-A INPUT -p icmpv6 --icmpv6-type echo-request -j ACCEPT
		-A OUTPUT -m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT
		-A OUTPUT -p icmpv6 --icmpv6-type neighbour-solicitation -j ACCEPT
		-A OUTPUT -p icmpv6 --icmpv6-type neighbour-advertisement -j ACCEPT
		COMMIT
	RULES`

// serves runs a program until the test ends.
func serves(t *testing.T, from *netns.Node, name string, args ...string) {
	t.Helper()
	cmd := from.Command(name, args...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
}

// prints runs a program, which may fail, until it prints something.
func prints(t testing.TB, from *netns.Node, wanted string, name string, args ...string) {
	t.Helper()
	var out []byte
	for deadline := time.Now().Add(pace.Stretch(patience)); time.Now().Before(deadline); {
		var err error
		out, err = from.Command("timeout", append([]string{"20", name}, args...)...).CombinedOutput()
		if strings.Contains(string(out), wanted) {
			return
		}
		out = fmt.Append(out, err)
	}
	t.Errorf("%s %s: %q is not in\n%s", name, strings.Join(args, " "), wanted, out)
}

// TestProgramsPassStrictChains at TC, and at XDP.
func TestProgramsPassStrictChains(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"/usr/sbin/sshd", "ssh", "curl", "iperf3", "traceroute"} {
		needs(t, name)
	}
	for _, initialize := range []string{"pcn-iptables-init", "pcn-iptables-init-xdp"} {
		t.Run(initialize, func(t *testing.T) {
			t.Parallel()
			testProgramsPassStrictChains(t, initialize)
		})
	}
}

func testProgramsPassStrictChains(t *testing.T, initialize string) {
	d := start(t)
	lan, wan := d.betweenNetworks()
	addIPv6(&netns.Node{Namespace: d.lab.Namespace}, "lan0", "fd00::1/64")
	addIPv6(lan, netns.Inner, "fd00::2/64")
	d.inPlaceOfIptables(initialize + strict)

	t.Run("ssh", func(t *testing.T) { d.secureShell(t, lan, wan) })
	t.Run("curl", func(t *testing.T) {
		dir := t.TempDir()
		body := strings.Repeat("a page of the other side\n", 200_000)
		if err := os.WriteFile(filepath.Join(dir, "page"), []byte(body), 0o644); err != nil {
			t.Fatal(err)
		}
		// HTTPServer would look up its own name first, for ten seconds.
		serves(t, wan, "python3", "-c", "import http.server, os, socketserver; os.chdir('"+dir+"'); "+
			"socketserver.TCPServer(('203.0.113.2', 8000), http.server.SimpleHTTPRequestHandler).serve_forever()")
		prints(t, lan, "\n200 5000000", "curl", "-s", "-o", "/dev/null", "-w", "\n%{http_code} %{size_download}", "http://203.0.113.2:8000/page")
	})
	t.Run("ping", func(t *testing.T) {
		lan.Reaches(t, patience, "203.0.113.2")
		lan.Reaches(t, patience, "10.0.0.1")
		if err := wan.Ping("10.0.0.2", netns.Brief); err == nil {
			t.Error("a ping that no rule lets through is answered")
		}
	})
	t.Run("traceroute", func(t *testing.T) {
		prints(t, lan, " 1  10.0.0.1 ", "traceroute", "-n", "-q", "1", "-w", "1", "-m", "3", "203.0.113.2")
		prints(t, lan, " 2  203.0.113.2 ", "traceroute", "-n", "-q", "1", "-w", "1", "-m", "3", "203.0.113.2")
		prints(t, lan, " 1  10.0.0.1 ", "traceroute", "-n", "-I", "-q", "1", "-w", "1", "-m", "3", "203.0.113.2")
	})
	t.Run("neighbour discovery", func(t *testing.T) {
		d.lab.Run("ip", "-6", "neigh", "flush", "dev", "lan0")
		lan.Run("ip", "-6", "neigh", "flush", "dev", netns.Inner)
		lan.Reaches(t, patience, "fd00::1")
	})
	t.Run("path MTU", func(t *testing.T) {
		// Only the router knows that the link is small: it tells the sender, by a message that OUTPUT must let out.
		d.lab.Run("ip", "route", "replace", "203.0.113.0/24", "dev", "wan0", "mtu", "lock", "1300")
		prints(t, lan, "mtu = 1300", "ping", "-n", "-c", "1", "-W", "1", "-M", "do", "-s", "1400", "203.0.113.2")
		lan.Run("ip", "route", "flush", "cache")
		serves(t, wan, "iperf3", "-s", "-B", "203.0.113.2")
		prints(t, lan, "iperf Done", "iperf3", "-c", "203.0.113.2", "-n", "5M")
		prints(t, lan, "mtu 1300", "ip", "route", "get", "203.0.113.2")
		prints(t, lan, "iperf Done", "iperf3", "-c", "203.0.113.2", "-R", "-n", "5M")
		prints(t, lan, "iperf Done", "iperf3", "-c", "203.0.113.2", "-u", "-b", "10M", "-n", "1M")
	})
}

// secureShell logs in to the machine from one side, and cannot from the other.
func (d *daemon) secureShell(t *testing.T, lan, wan *netns.Node) {
	t.Helper()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"host", "user"} {
		if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", at(name)).CombinedOutput(); err != nil {
			t.Fatalf("ssh-keygen: %v\n%s", err, out)
		}
	}
	config := fmt.Sprintf("Port 22\nHostKey %s\nAuthorizedKeysFile %s\nPidFile none\nUsePAM no\nStrictModes no\nPermitRootLogin yes\nPasswordAuthentication no\n",
		at("host"), at("user.pub"))
	if err := os.WriteFile(at("config"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	// sshd wants a folder that only services of the machine have.
	serves(t, &netns.Node{Namespace: d.lab.Namespace}, "unshare", "--mount", "sh", "-c",
		"mount -t tmpfs run /run && mkdir /run/sshd && exec /usr/sbin/sshd -D -f "+at("config"))
	login := []string{"-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "ConnectTimeout=2", "-i", at("user"), "root@10.0.0.1"}
	prints(t, lan, "42", "ssh", append(login, "echo $((6 * 7))")...)
	if out, err := wan.Command("ssh", append(login, "true")...).CombinedOutput(); err == nil {
		t.Errorf("a login that no rule lets in works: %s", out)
	}
}
