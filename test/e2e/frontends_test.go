// SPDX-License-Identifier: Apache-2.0

// Programs that call iptables, unmodified, with the programs of the cube iptables in its place.

package e2e

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/polycube/polycube/test/netns"
)

// inPlaceOfIptables runs a script in the machine, where all programs of iptables are those of the cube: they are one file,
// by many names.
func (d *daemon) inPlaceOfIptables(script string, hosts ...*netns.Node) string {
	d.t.Helper()
	there, err := filepath.EvalSymlinks("/usr/sbin/iptables")
	if err != nil {
		d.t.Skipf("iptables is not installed: %v", err)
	}
	cmd := d.shell(fmt.Sprintf("exec 2>&1\nset -e\nmount --bind %s %s\n%s", program(d.t, "pcn-iptables"), there, script), hosts...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		d.t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

// needs skips the test if a program is not installed.
func needs(t *testing.T, name string) {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		t.Skipf("%s is not installed", name)
	}
}

// contains checks that a text has others in it.
func contains(t *testing.T, text string, wants ...string) {
	t.Helper()
	for _, w := range wants {
		if !strings.Contains(text, w) {
			t.Errorf("%q is missing in\n%s", w, text)
		}
	}
}

// dials opens a TCP connection from a host.
func dials(from *netns.Node, to string, port int) error {
	return from.Command("timeout", "2", "bash", "-c", fmt.Sprintf(": < /dev/tcp/%s/%d", to, port)).Run()
}

// TestUfwRunsOnTheCube enables ufw, adds rules, reloads and disables it. Its rules filter.
func TestUfwRunsOnTheCube(t *testing.T) {
	t.Parallel()
	needs(t, "ufw")
	d := start(t)
	lan, _ := d.betweenNetworks()
	d.lab.AnswerLines("10.0.0.1:7000", sender)
	d.lab.AnswerLines("10.0.0.1:7001", sender)
	// ufw keeps its rules in /etc/ufw.
	etc := filepath.Join(d.dir, "ufw")
	prepare := fmt.Sprintf("mkdir -p %[1]s && cp -a /etc/ufw/. %[1]s && mount --bind %[1]s /etc/ufw\n", etc)
	out := d.inPlaceOfIptables(prepare + `
		pcn-iptables-init
		ufw --force enable
		ufw allow proto tcp from 10.0.0.0/24 to any port 7000
		ufw deny in on wan0
		ufw route allow in on lan0 out on wan0
		ufw reload
		ufw status`)
	contains(t, out, "Firewall is active", "7000/tcp", "Firewall reloaded", "Status: active", "10.0.0.0/24")
	connectTo(t, lan, "10.0.0.1:7000").seenAs()
	reaches := func(what string, err error, want bool) {
		t.Helper()
		if (err == nil) != want {
			t.Errorf("%s: %v", what, err)
		}
	}
	reaches("a port without a rule", dials(lan, "10.0.0.1", 7001), false)
	reaches("a ping to the host", lan.Ping("10.0.0.1", netns.Brief), true)
	reaches("a routed ping", lan.Ping("203.0.113.2", netns.Brief), true)
	out = d.inPlaceOfIptables(fmt.Sprintf("mount --bind %s /etc/ufw\nufw disable\niptables -S INPUT", etc))
	contains(t, out, "Firewall stopped and disabled", "-P INPUT ACCEPT")
	reaches("a port after ufw is disabled", dials(lan, "10.0.0.1", 7001), true)
}

// TestFail2banRunsOnTheCube: a host that fails to log in is banned, and released.
func TestFail2banRunsOnTheCube(t *testing.T) {
	t.Parallel()
	needs(t, "fail2ban-server")
	d := start(t)
	lan, _ := d.betweenNetworks()
	d.lab.AnswerLines("10.0.0.1:7000", sender)
	dir := filepath.Join(d.dir, "fail2ban")
	d.inPlaceOfIptables(fmt.Sprintf(`
		mkdir -p %[1]s/run && cp -a /etc/fail2ban %[1]s/etc && rm -f %[1]s/etc/jail.d/*
		printf '[DEFAULT]\nbackend = polling\nbanaction = iptables-multiport\nusedns = no\n[probe]\nenabled = true\nfilter = probe\nlogpath = %[1]s/log\nmaxretry = 2\nport = 7000,22\n' > %[1]s/etc/jail.local
		printf '[Definition]\nfailregex = bad login from <HOST>\n' > %[1]s/etc/filter.d/probe.conf
		sed -i 's|^logtarget.*|logtarget = %[1]s/own.log|; s|^dbfile.*|dbfile = %[1]s/db|' %[1]s/etc/fail2ban.conf
		pcn-iptables-init
		connect() { timeout 2 nsenter --net=/run/netns/host1 bash -c ': < /dev/tcp/10.0.0.1/7000'; }
		client() { fail2ban-client -c %[1]s/etc -s %[1]s/run/socket -p %[1]s/run/pid "$@"; }
		connect
		for i in 1 2 3; do echo "$(date '+%%Y-%%m-%%d %%H:%%M:%%S') bad login from 10.0.0.2" >> %[1]s/log; done
		client start
		trap 'client stop' EXIT
		until iptables -S f2b-probe 2>/dev/null | grep -q 'A f2b-probe -s 10.0.0.2/32 -j REJECT'; do
			[ $SECONDS -lt 60 ]
			client status probe
			read -t 0.2 < /dev/zero || true
		done
		! connect
		client set probe unbanip 10.0.0.2
		connect
		client stop
		trap - EXIT
		! iptables -S | grep -q f2b-probe`, dir), lan)
}

// TestFirewalldRunsOnTheCube: with the iptables backend and without the check of reverse paths, which is a rule of the table
// raw. It makes chains in all tables. What it does not clean up when it ends filters.
func TestFirewalldRunsOnTheCube(t *testing.T) {
	t.Parallel()
	needs(t, "firewalld")
	needs(t, "dbus-daemon")
	d := start(t)
	lan, wan := d.betweenNetworks()
	wan.AnswerLines("203.0.113.2:7000", sender)
	d.lab.AnswerLines("10.0.0.1:7000", sender)
	d.lab.AnswerLines("10.0.0.1:7001", sender)
	out := d.inPlaceOfIptables(fmt.Sprintf(`
		conf=%[1]s/firewalld run=%[1]s/run
		cp -a /etc/firewalld $conf && mount --bind $conf /etc/firewalld
		sed -i 's/^FirewallBackend=.*/FirewallBackend=iptables/; s/^IPv6_rpfilter=.*/IPv6_rpfilter=no/; s/^CleanupOnExit=.*/CleanupOnExit=no/' $conf/firewalld.conf
		pcn-iptables-init
		# Its children have no environment: the daemon's socket is where it is by default.
		mkdir -p %[1]s/own && mount --bind $run %[1]s/own
		mount -t tmpfs run /run && mkdir -p /run/dbus /run/firewalld /run/polycube && mount --bind %[1]s/own /run/polycube
		bus=$(dbus-daemon --system --fork --print-pid)
		trap 'kill $bus' EXIT
		firewalld --nofork --nopid --log-target file --log-file %[1]s/firewalld.log &
		until firewall-cmd --state > /dev/null 2>&1; do
			kill -0 $!
			read -t 0.2 < /dev/zero || true
		done
		firewall-cmd --add-port=7000/tcp
		firewall-cmd --list-ports
		firewall-cmd --add-forward-port=port=7002:proto=tcp:toport=7000:toaddr=203.0.113.2
		kill $! && wait $! || true
		iptables-save
		cat %[1]s/firewalld.log`, d.dir))
	contains(t, out, "success", "7000/tcp", "-A IN_public_allow -p tcp -m tcp --dport 7000", "*mangle")
	if strings.Contains(out, "ERROR") {
		t.Errorf("firewalld says\n%s", out)
	}
	if err := dials(lan, "10.0.0.1", 7000); err != nil {
		t.Errorf("a port that is open: %v", err)
	}
	if err := dials(lan, "10.0.0.1", 7002); err != nil {
		t.Errorf("a port that is forwarded to another host: %v", err)
	}
	if dials(lan, "203.0.113.2", 7000) == nil {
		t.Error("the other host can be reached without that, too")
	}
	if dials(lan, "10.0.0.1", 7001) == nil {
		t.Error("another port is open, too")
	}
}
