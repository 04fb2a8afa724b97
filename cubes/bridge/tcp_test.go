// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pace"
)

// inner opens a socket in a host's namespace.
func inner[S any](h *netns.Node, open func() (S, error)) (s S, err error) {
	err = h.Do(func() (err error) { s, err = open(); return err })
	return s, err
}

// upload sends bytes from one host to another by TCP, which must arrive as they were.
func upload(from, to *netns.Node, bytes int64) error {
	address := net.JoinHostPort(to.Addr.Addr().String(), "5001")
	listener, err := inner(to, func() (net.Listener, error) { return net.Listen("tcp", address) })
	if err != nil {
		return err
	}
	defer listener.Close()
	type result struct {
		sum []byte
		err error
	}
	got := make(chan result, 1)
	deadline := time.Now().Add(pace.Stretch(60 * time.Second))
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			got <- result{nil, err}
			return
		}
		defer conn.Close()
		hash := sha256.New()
		err = conn.SetDeadline(deadline)
		if err == nil {
			_, err = io.Copy(hash, conn)
		}
		got <- result{hash.Sum(nil), err}
	}()
	conn, err := inner(from, func() (net.Conn, error) { return net.DialTimeout("tcp", address, pace.Stretch(20*time.Second)) })
	if err != nil {
		return err
	}
	defer conn.Close()
	hash := sha256.New()
	err = conn.SetDeadline(deadline)
	block := make([]byte, 1<<16)
	for sent := int64(0); sent < bytes && err == nil; sent += int64(len(block)) {
		block[sent>>16%(1<<16)]++
		hash.Write(block)
		_, err = conn.Write(block)
	}
	if err := errors.Join(err, conn.Close()); err != nil {
		return fmt.Errorf("sending: %w", err)
	}
	r := <-got
	if r.err != nil {
		return fmt.Errorf("receiving: %w", r.err)
	}
	if string(r.sum) != string(hash.Sum(nil)) {
		return errors.New("what arrived is not what was sent")
	}
	return nil
}

// Two bridges connected by a wire, with hosts that send whole TCP superframes, to which tags are added and removed.
// IPv4 and IPv6, in two VLANs with the same addresses.
func TestTCPThroughATrunk(t *testing.T) {
	for _, typ := range []cube.Type{cube.TypeTC, cube.TypeXDPDRV} {
		t.Run(strings.ToLower(string(typ)), func(t *testing.T) {
			t.Parallel()
			l := bpftest.New(t, bpftest.Options{Type: typ, Hosts: 1})
			var opts []netns.Option
			if typ != cube.TypeTC {
				opts = append(opts, netns.WithoutTxChecksum()) // XDP sees frames before their checksums are computed
			}
			l.Lab.Run("ip", "link", "add", "trunk1", "type", "veth", "peer", "name", "trunk2")
			hosts := map[string]*netns.Node{}
			for i, name := range []string{"br", "far"} {
				l.Lab.Run("ip", "link", "set", fmt.Sprint("trunk", i+1), "up")
				ports := []string{fmt.Sprintf(`{"name":"up","peer":"trunk%d","mode":"trunk","trunk":{"allowed":[{"vlanid":10},{"vlanid":20}]}}`, i+1)}
				for vlan, address := range map[int]string{10: "10.0.0.%d/24", 20: "10.0.0.%d/24", 30: "fd00::%d/64"} {
					dev := fmt.Sprintf("%s%d", name, vlan)
					hosts[dev] = l.Host(dev, fmt.Sprintf(address, i+1), opts...)
					ports = append(ports, fmt.Sprintf(`{"name":%q,"peer":%q,"access":{"vlanid":%d}}`, dev, dev, max(1, vlan%30)))
				}
				l.Create("bridge", name, `{"ports":[`+strings.Join(ports, ",")+`]}`)
			}
			for _, vlan := range []string{"10", "20", "30"} {
				if err := upload(hosts["br"+vlan], hosts["far"+vlan], 16<<20); err != nil {
					t.Errorf("VLAN %s: %v", vlan, err)
				}
			}
			for _, name := range []string{"br", "far"} {
				for fate, n := range l.Fates(name) {
					if fate != "flood" {
						t.Errorf("%s: %d frames ended as %s", name, n, fate)
					}
				}
			}
		})
	}
}

// Connections continue while the daemon is away.
func TestTCPOverARestart(t *testing.T) {
	t.Parallel()
	l := bpftest.New(t, bpftest.Options{Hosts: 1})
	a, b := l.Host("a", "10.0.0.1/24"), l.Host("b", "10.0.0.2/24")
	l.Create("bridge", "br", `{"ports":[{"name":"a","peer":"a","access":{"vlanid":10}},{"name":"b","peer":"b","access":{"vlanid":10}},{"name":"c","access":{"vlanid":11}}]}`)
	done := make(chan error, 1)
	go func() { done <- upload(a, b, 256<<20) }()
	l.Restart(nil)
	l.Set("PATCH", "br fdb aging-time", "100")
	l.Set("POST", "br ports d", `{"mode":"trunk"}`)
	if err := <-done; err != nil {
		t.Error(err)
	}
}
