// SPDX-License-Identifier: Apache-2.0

// Another machine opens as many connections as it can and sends nothing. Each client has its own share of a listener,
// so others are served, frames pass, and when the silent ones are closed nothing of them is left.

package e2e

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pki"
)

// perMachine is the number of connections of one client according to the guide to securing the daemon.
const perMachine = 256

func TestASilentMachineKeepsNobodyOut(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	root, dir := pki.Authority(t, "root"), t.TempDir()
	cert, key := root.Server(t).Write(t, dir, "server")
	d := m.Start("--addr", "0.0.0.0", "--port", "9443", "--cert", cert, "--key", key,
		"--cacert", pki.Place(t, filepath.Join(dir, "ca.pem"), root.PEM()), "--cert-admins", pki.Place(t, filepath.Join(dir, "admins"), []byte("CN:alice\n")))
	silent, other := d.lab.Host("far1", "10.1.0.1/24"), d.lab.Host("far2", "10.2.0.1/24")
	d.lab.Run("ip", "addr", "add", "10.1.0.254/24", "dev", "far1")
	d.lab.Run("ip", "addr", "add", "10.2.0.254/24", "dev", "far2")
	hosts := threeHosts(d.machine, v4)
	d.twoBridges("TC")
	alice := &tls.Config{RootCAs: root.Pool(), ServerName: "localhost", Certificates: []tls.Certificate{root.Client(t, "alice").TLS()}}
	asked := func() error {
		conn, err := dialFrom(other, "10.2.0.254:9443")
		if err != nil {
			return err
		}
		defer conn.Close()
		client := http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true,
			DialTLSContext: func(_ context.Context, _, _ string) (net.Conn, error) { return tls.Client(conn, alice), nil }}}
		resp, err := client.Post("https://10.2.0.254:9443"+base+"/simplebridge/br9/", "application/json", nil)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusCreated {
			text, _ := io.ReadAll(resp.Body)
			return fmt.Errorf("status %d: %s", resp.StatusCode, text)
		}
		return nil
	}
	s := startStream(t, hosts[0], hosts[2])
	files := d.files()

	const more = 40
	var conns []net.Conn
	for range perMachine + more {
		conn, err := dialFrom(silent, "10.1.0.254:9443")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		conns = append(conns, conn)
	}
	if err := asked(); err != nil {
		t.Errorf("another machine: %v", err)
	}
	d.Do("br9 del")
	for i, c := range conns {
		if err := c.SetReadDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("connection %d of %d is not dropped", i+1, len(conns))
		}
	}
	netns.Eventually(t, patience, func() error {
		figures := d.scrape()
		tooMany, silent := figures[`polycube_api_connections_dropped_total{reason="too-many"}`], figures[`polycube_api_connections_dropped_total{reason="silent"}`]
		if tooMany < 1 || silent < perMachine || tooMany+silent != float64(len(conns)) {
			return fmt.Errorf("%v connections are counted as too many and %v as silent, of %d", tooMany, silent, len(conns))
		}
		if now := d.files(); now > files+more { // the background inlining uses some
			return fmt.Errorf("%d descriptors are open, %d before", now, files)
		}
		return nil
	})
	s.Stop()
}

// dialFrom connects from a host.
func dialFrom(h *netns.Node, to string) (conn net.Conn, err error) {
	err = h.Do(func() error {
		conn, err = net.DialTimeout("tcp", to, patience)
		return err
	})
	return conn, err
}

// files counts the descriptors of the daemon, sockets too.
func (d *daemon) files() int {
	d.t.Helper()
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", d.Pid()))
	if err != nil {
		d.t.Fatal(err)
	}
	return len(entries)
}
