// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pace"
)

// checkedServer is the state of a server with health checks.
type checkedServer struct {
	State  string
	Health struct {
		Since  string
		Checks int
	}
}

// checkedServer returns the state of server n.
func (d *daemon) checkedServer(n int) (is checkedServer, err error) {
	text := d.Must(200, "GET", fmt.Sprintf("/lbrp/lb/service/192.0.2.1/80/TCP/backend/10.0.%d.2/8080", n), "")
	return is, json.Unmarshal([]byte(text), &is)
}

// serverBecomes waits until server n has a state, and this daemon has checked it.
func (d *daemon) serverBecomes(t *testing.T, n int, state string) (is checkedServer) {
	t.Helper()
	netns.Eventually(t, patience, func() (err error) {
		if is, err = d.checkedServer(n); err == nil && (is.State != state || is.Health.Checks == 0) {
			err = fmt.Errorf("server %d is %+v, want %s", n, is, state)
		}
		return err
	})
	return is
}

// TestHealthOfServersOutlivesTheDaemon: servers behind a router are checked, and what is known of them survives a daemon that
// is killed, while clients get answers.
func TestHealthOfServersOutlivesTheDaemon(t *testing.T) {
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
			var servers [3]*netns.Node
			var ports, backends []string
			for n := 1; n < len(servers); n++ {
				servers[n] = m.lab.Host(fmt.Sprintf("veth%d", n), fmt.Sprintf("10.0.%d.2/24", n), opts...)
				servers[n].Run("ip", "route", "add", "default", "via", fmt.Sprintf("10.0.%d.1", n))
				servers[n].AnswerLines(":8080", func(_ net.Addr, line string) string { return fmt.Sprintf("%d %s", n, line) })
				ports = append(ports, fmt.Sprintf(`{"name":"p%d","ip":"10.0.%[1]d.1/24","peer":"veth%[1]d"}`, n))
				backends = append(backends, fmt.Sprintf(`{"ip":"10.0.%d.2","port":8080}`, n))
			}
			ask := func(when string) {
				t.Helper()
				netns.Eventually(t, patience, func() error {
					return client.Do(func() error {
						c, err := net.DialTimeout("tcp", "192.0.2.1:80", pace.Stretch(10*time.Second))
						if err != nil {
							return err
						}
						defer c.Close()
						answer := make([]byte, 4)
						if _, err := io.WriteString(c, "hi\n"); err != nil {
							return err
						}
						if _, err := io.ReadFull(c, answer); err != nil || string(answer) != "1 hi" {
							return fmt.Errorf("%s: the answer is %q, %w", when, answer, err)
						}
						return nil
					})
				})
			}
			d := m.Start()
			d.Must(201, "POST", "/cubes", fmt.Sprintf(`[{"service-name":"router","name":"r","type":%q,"ports":[{"name":"up","ip":"10.0.0.1/24","peer":"lb:b"},%s]},
				{"service-name":"lbrp","name":"lb","type":%[1]q,"ports":[{"name":"f","type":"FRONTEND","peer":"veth0"},{"name":"b","type":"BACKEND","peer":"r:up"}],
				 "check-source":{"ip":"10.0.0.250/24","gateway":"10.0.0.1"},"service":[{"vip":"192.0.2.1","vport":80,"proto":"TCP","select":"ROUND_ROBIN",
				 "health-check":{"type":"TCP","interval":650,"timeout":300,"fall":2,"rise":2},"backend":[%[3]s]}]}]`, kind, strings.Join(ports, ","), strings.Join(backends, ",")))
			up := d.serverBecomes(t, 1, "UP")
			d.serverBecomes(t, 2, "UP")
			servers[2].Run("ip", "link", "set", netns.Inner, "down")
			down := d.serverBecomes(t, 2, "DOWN")
			ask("while a server is down")
			d.Kill9()
			ask("while the daemon is killed")
			d = m.Start()
			if is, err := d.checkedServer(2); err != nil || is.State != "DOWN" || is.Health.Since != down.Health.Since {
				t.Errorf("after the daemon was killed the server is %+v, %v, before %+v", is, err, down)
			}
			if is := d.serverBecomes(t, 1, "UP"); is.Health.Since != up.Health.Since {
				t.Errorf("after the daemon was killed the server is %+v, before %+v", is, up)
			}
			ask("after the daemon was started again")
			servers[2].Run("ip", "link", "set", netns.Inner, "up")
			servers[2].Run("ip", "route", "replace", "default", "via", "10.0.2.1")
			d.serverBecomes(t, 2, "UP")
			d.Alive()
		})
	}
}
