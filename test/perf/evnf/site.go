// SPDX-License-Identifier: Apache-2.0

package evnf

// The network of a web service: a client, servers with nginx, and machines for a firewall and a load balancer, around a
// bridge of the kernel.

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/netdev"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/perf/contest"
	"github.com/polycube/polycube/test/perf/lab"
)

// Addresses of the site. With one machine, the client is in the network of the servers.
const (
	balancerHost = "10.3.0.1"
	firewallHost = "10.3.0.254"
	nearClient   = "10.3.0.100"
	farClient    = "10.1.0.1"
	farGateway   = "10.1.0.254"
	clientDev    = "client" // netdev of the firewall's machine
)

var webServers = []string{"10.3.0.11", "10.3.0.12"}

const (
	webPort    = 80
	serverPort = 8080
)

// site is such a network with what runs in it.
type site struct {
	rig  *lab.Rig
	b    *Bench
	hook cube.Hook

	bridge   *netns.Lab
	nodes    []*netns.Node // all hosts and machines
	client   *netns.Node
	firewall *netns.Node // the machine of the balancer, if it has both
	balancer *netns.Node
	dir      string
	config   string // of HAProxy

	to      netip.AddrPort // of requests
	servers []int          // processes of nginx
	haproxy int            // process, 0: none
	fast    *fastPaths     // nil: none
}

// newSite connects client and servers, with a number of machines between them.
func newSite(rig *lab.Rig, b *Bench, hook cube.Hook, machines int) (*site, error) {
	s := &site{rig: rig, b: b, hook: hook, bridge: netns.NewLab(rig), dir: rig.TempDir(), to: netip.MustParseAddrPort(balancerHost + ":80")}
	var opts []netns.Option
	if hook == cube.XDP { // frames as on a cable
		opts = []netns.Option{netns.WithGRO(), netns.WithoutTxChecksum()}
	}
	s.bridge.Run("ip", "link", "add", "br0", "type", "bridge")
	s.bridge.Run("ip", "link", "set", "br0", "up")
	host := func(name, address string, more ...netns.Option) *netns.Node {
		h := s.bridge.Host(name, address+"/24", append(more, opts...)...)
		s.bridge.Run("ip", "link", "set", name, "master", "br0")
		s.nodes = append(s.nodes, h)
		return h
	}
	if machines == 1 {
		s.client = host("client", nearClient)
		s.balancer = host("balancer", balancerHost)
		s.firewall = s.balancer
	} else {
		s.firewall = host("firewall", firewallHost)
		s.balancer = host("balancer", balancerHost, netns.WithGateway(firewallHost))
		s.firewall.Must(func() error {
			s.client = netns.Host(rig, clientDev, farClient+"/24", append(opts, netns.WithGateway(farGateway))...)
			s.nodes = append(s.nodes, s.client)
			return nil
		})
		s.firewall.Run("ip", "addr", "add", farGateway+"/24", "dev", clientDev)
		s.firewall.Run("sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv4.conf.all.rp_filter=0", "net.ipv4.conf.client.rp_filter=0",
			"net.ipv4.conf.eth0.rp_filter=0")
	}
	for i, address := range webServers {
		h := host(fmt.Sprintf("server%d", i+1), address)
		if err := s.nginx(h); err != nil {
			return nil, err
		}
	}
	return s, s.cables()
}

// cables makes all netdevs take frames that XDP sends or redirects, and send none that are larger than a frame on a cable.
func (s *site) cables() error {
	if s.hook != cube.XDP {
		return nil
	}
	plain := func() error {
		all, err := netlink.LinkList()
		if err != nil {
			return err
		}
		for _, l := range all {
			if l.Type() != "veth" {
				continue
			}
			ready, err := netdev.EnsureCanReceiveRedirects(l.Attrs().Name)
			if err == nil && !ready.OK {
				err = errors.New(ready.Reason)
			}
			if err := errors.Join(err, netlink.LinkSetGSOMaxSegs(l, 1)); err != nil {
				return fmt.Errorf("netdev %s: %w", l.Attrs().Name, err)
			}
		}
		return nil
	}
	errs := []error{s.bridge.Do(plain)}
	for _, n := range s.nodes {
		errs = append(errs, n.Do(plain))
	}
	return errors.Join(errs...)
}

// background starts a program in a namespace, and ends it with the site.
func (s *site) background(n *netns.Node, name string, args ...string) (pid int, err error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return 0, fmt.Errorf("%w: apt-get install %s", err, name)
	}
	cmd := n.Command(path, args...)
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	s.rig.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
	})
	return cmd.Process.Pid, nil
}

// nginx starts a server that answers without content.
func (s *site) nginx(n *netns.Node) error {
	dir := filepath.Join(s.dir, n.Outer)
	var temporary strings.Builder
	for _, what := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		fmt.Fprintf(&temporary, "  %s_temp_path %s/%s;\n", what, dir, what)
	}
	text := fmt.Sprintf("daemon off;\nmaster_process off;\npid %s/pid;\nerror_log %[1]s/log;\nevents { worker_connections 4096; }\nhttp {\n  access_log off;\n%s"+
		"  keepalive_requests 1000000000;\n  server {\n    listen %d backlog=4096;\n    location / { return 204; }\n  }\n}\n", dir, temporary.String(), serverPort)
	conf := filepath.Join(dir, "nginx.conf")
	if err := errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(conf, []byte(text), 0o600)); err != nil {
		return fmt.Errorf("nginx: %w", err)
	}
	pid, err := s.background(n, "nginx", "-p", dir, "-e", dir+"/log", "-c", conf)
	s.servers = append(s.servers, pid)
	return err
}

// proxy starts HAProxy.
func (s *site) proxy() (err error) {
	var b strings.Builder
	b.WriteString("global\n  nbthread 1\n  maxconn 8192\ndefaults\n  mode tcp\n  timeout connect 5s\n  timeout client 1m\n  timeout server 1m\n")
	fmt.Fprintf(&b, "frontend web\n  bind %s:%d\n  default_backend servers\nbackend servers\n  balance roundrobin\n", balancerHost, webPort)
	for i, address := range webServers {
		fmt.Fprintf(&b, "  server s%d %s:%d check\n", i+1, address, serverPort)
	}
	s.config = filepath.Join(s.dir, "haproxy.cfg")
	if err := os.WriteFile(s.config, []byte(b.String()), 0o600); err != nil {
		return fmt.Errorf("HAProxy: %w", err)
	}
	s.haproxy, err = s.background(s.balancer, "haproxy", "-db", "-f", s.config)
	return err
}

// direct lets the client send requests to a server.
func (s *site) direct() { s.to = netip.AddrPortFrom(netip.MustParseAddr(webServers[0]), serverPort) }

// blocked is how many networks the firewall blocks before it accepts what is for the service.
const blocked = 100

// rules loads those of the firewall.
func (s *site) rules() error {
	var b strings.Builder
	chain := "FORWARD"
	policies := map[string]string{"INPUT": "ACCEPT", "FORWARD": "ACCEPT"}
	if s.firewall == s.balancer {
		chain = "INPUT"
	}
	policies[chain] = "DROP"
	fmt.Fprintf(&b, "*filter\n:INPUT %s\n:FORWARD %s\n:OUTPUT ACCEPT\n", policies["INPUT"], policies["FORWARD"])
	for i := range blocked {
		fmt.Fprintf(&b, "-A %s -s 198.18.%d.0/24 -j DROP\n", chain, i)
	}
	fmt.Fprintf(&b, "-A %s -d %s -p tcp --dport %d -j ACCEPT\n", chain, balancerHost, webPort)
	if chain == "INPUT" {
		fmt.Fprintf(&b, "-A INPUT -s 10.3.0.0/24 -p tcp --sport %d -j ACCEPT\n", serverPort)
	} else {
		fmt.Fprintf(&b, "-A FORWARD -s %s -p tcp --sport %d -j ACCEPT\n", balancerHost, webPort)
	}
	b.WriteString("COMMIT\n")
	return contest.Fed(s.firewall.Command("iptables-legacy-restore"), b.String())
}

// answers waits until the service answers its client.
func (s *site) answers(ctx context.Context) error {
	return eventually(ctx, func() error {
		out, err := s.client.Command("curl", "-sS", "-m", "2", "-o", "/dev/null", "-w", "%{http_code}", "http://"+s.to.String()+"/").CombinedOutput()
		if err == nil && string(out) != fmt.Sprint(http.StatusNoContent) {
			err = contest.ErrLost
		}
		if err != nil {
			return fmt.Errorf("the service does not answer: %w: %.200s", err, out)
		}
		return nil
	})
}

// eventually repeats what fails for some seconds.
func eventually(ctx context.Context, fn func() error) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	for {
		err := fn()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(20 * time.Millisecond):
		}
	}
}
