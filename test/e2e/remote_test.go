// SPDX-License-Identifier: Apache-2.0

// The services of the examples on their own, as on another machine: they listen, and both sides show certificates.

package e2e

import (
	"crypto/tls"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pki"
)

func TestRemoteServicesAndDaemonsKnowEachOther(t *testing.T) {
	t.Parallel()
	netns.NeedRoot(t)
	for _, tt := range []struct{ name, path, set, show, want string }{
		{"ratelimit", goService(t, "../../examples/services/ratelimit"), "c1 set rate=7", "c1 show rate", "7"},
		{"portknock", pythonService(t, "polycube-portknock"), "c1 set port=2222", "c1 show port", "2222"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t)
			ours, theirs := pki.Authority(t, "ours"), pki.Authority(t, "theirs")
			dir := t.TempDir()
			ca := pki.Place(t, dir+"/ca.pem", ours.PEM())
			cert, key := ours.Client(t, "polycubed").Write(t, dir, "daemon")
			m.serve(t, tt.path, "127.0.0.1:7000", ours.Server(t), ca)
			m.serve(t, tt.path, "127.0.0.1:7001", theirs.Server(t), ca)
			d := m.Start("--services-cacert", ca, "--services-cert", cert, "--services-key", key)
			d.Do("services add type=grpc uri=127.0.0.1:7000 name=" + tt.name)
			d.Do(tt.name + " add c1")
			d.Do(tt.set)
			if got := strings.TrimSpace(d.Do(tt.show)); got != tt.want {
				t.Errorf("%s: %s", tt.show, got)
			}
			d.Do("del c1")
			d.Do("services del " + tt.name)
			r := d.CLI("services", "add", "type=grpc", "uri=127.0.0.1:7001", "name="+tt.name)
			if r.code == 0 || !strings.Contains(r.stderr, "certificate") {
				t.Errorf("a service with a certificate of somebody else: %s", r)
			}
			right := &tls.Config{RootCAs: ours.Pool(), MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{ours.Client(t, "x").TLS()}}
			if err := m.greet(right); err != nil {
				t.Errorf("a daemon with a certificate is not served: %v", err)
			}
			for who, config := range map[string]*tls.Config{
				"without a certificate":     {RootCAs: ours.Pool(), MinVersion: tls.VersionTLS13},
				"with one of somebody else": {RootCAs: ours.Pool(), MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{theirs.Client(t, "x").TLS()}},
				"that does not speak TLS":   nil,
			} {
				if err := m.greet(config); err == nil {
					t.Errorf("a daemon %s is served", who)
				}
			}
		})
	}
}

// serve runs a service with a certificate until the end of the test, and waits until it listens.
func (m *machine) serve(t *testing.T, path, address string, pair pki.Pair, ca string) {
	t.Helper()
	cert, key := pair.Write(t, t.TempDir(), "service")
	cmd := m.lab.Command(path, "--listen", address, "--cert", cert, "--key", key, "--ca", ca)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = cmd.Process.Kill(), cmd.Wait() })
	netns.Eventually(t, patience, func() error {
		return m.lab.Do(func() error {
			conn, err := net.DialTimeout("tcp", address, time.Second)
			if err != nil {
				return err
			}
			return conn.Close()
		})
	})
}

// greet starts HTTP/2 as gRPC does and waits for the service's answer; without TLS if there is no configuration.
func (m *machine) greet(config *tls.Config) error {
	return m.lab.Do(func() error {
		raw, err := net.DialTimeout("tcp", "127.0.0.1:7000", patience)
		if err != nil {
			return nil // it must be there: its absence is no refusal
		}
		defer raw.Close()
		conn := raw
		if config != nil {
			config = config.Clone()
			config.ServerName, config.NextProtos = "localhost", []string{"h2"}
			conn = tls.Client(raw, config)
		}
		if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
			return err
		}
		if _, err := conn.Write([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")); err != nil {
			return err
		}
		answer := make([]byte, 9)
		if _, err := conn.Read(answer); err != nil {
			return err
		}
		if config == nil && answer[0] == 21 {
			return fmt.Errorf("a TLS alert: %x", answer) // not a frame of HTTP/2
		}
		return nil
	})
}
