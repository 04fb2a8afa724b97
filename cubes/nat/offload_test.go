// SPDX-License-Identifier: Apache-2.0

package nat

// Offloads must be preserved: superframes are translated whole, a checksum that is not computed yet stays so, and one
// computed by a device stays correct.

import (
	"bytes"
	"crypto/sha256"
	_ "embed" // for the program that adds up packets
	"io"
	"net"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pace"
)

// upload sends bytes from inside and returns as whom the other side saw the sender.
func (e *edge) upload(network, address string, size int) net.Addr {
	e.t.Helper()
	var listener net.Listener
	e.outside.Must(func() (err error) { listener, err = net.Listen(network, address); return err })
	defer listener.Close()
	type end struct {
		from net.Addr
		sum  [sha256.Size]byte
		err  error
	}
	done := make(chan end, 1)
	go func() {
		c, err := listener.Accept()
		if err != nil {
			done <- end{err: err}
			return
		}
		defer c.Close()
		h := sha256.New()
		_, err = io.Copy(h, c)
		done <- end{c.RemoteAddr(), [sha256.Size]byte(h.Sum(nil)), err}
	}()
	data := bytesOf(size)
	c := e.dial(e.inside.Namespace, network, address)
	if err := c.SetDeadline(time.Now().Add(pace.Stretch(30 * time.Second))); err != nil {
		e.t.Fatal(err)
	}
	if _, err := c.Write(data); err != nil {
		e.t.Fatalf("upload to %s: %v", address, err)
	}
	_ = c.Close()
	select {
	case got := <-done:
		if got.err != nil || got.sum != sha256.Sum256(data) {
			e.t.Fatalf("upload to %s: %d bytes came otherwise than they were sent: %v", address, size, got.err)
		}
		return got.from
	case <-time.After(pace.Stretch(30 * time.Second)):
		e.t.Fatalf("upload to %s: nothing came within 30 s", address)
	}
	return nil
}

// onEachKernel runs a test with the features of this kernel, and with none of those that can be done without.
func onEachKernel(t *testing.T, test func(t *testing.T, old bool)) {
	t.Parallel()
	for name, old := range map[string]bool{"this": false, "old": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, old)
		})
	}
}

func TestSuperframesAreTranslatedWhole(t *testing.T) { onEachKernel(t, superframesAreTranslatedWhole) }

func superframesAreTranslatedWhole(t *testing.T, old bool) {
	const upload = 8 << 20
	e := newEdgeOn(t, old, cube.TypeTC, `{"rule":{"masquerade":{"enabled":true}}}`)
	for _, tt := range []struct{ address, as string }{{net.JoinHostPort(outsideIP, "7001"), edgeIP}, {net.JoinHostPort(outsideIP6, "7001"), edgeIP6}} {
		from := e.upload("tcp", tt.address, upload)
		if host, _, _ := net.SplitHostPort(from.String()); host != tt.as {
			t.Errorf("%s saw %s, want %s", tt.address, from, tt.as)
		}
	}
	// A frame of one segment has at most 1,514 bytes; those that were counted are much larger.
	packets, size := e.outward()
	if packets == 0 || size < 2*upload || size/packets < 4*1514 {
		t.Errorf("%d bytes went out in %d packets: they were cut on their way", size, packets)
	}
}

// outward returns the sum of the sessions' outgoing counts.
func (e *edge) outward() (packets, size uint64) {
	for _, s := range tablesOf(e.t, e.Lab).all(0) {
		packets, size = packets+s.Packets, size+s.Bytes
	}
	return packets, size
}

// A tunnel device knows the sum of a packet that it decapsulates from a packet with a checksum (CHECKSUM_COMPLETE): the
// kernel reports on its console if a program made that wrong.
func TestSumsOfADeviceStayRight(t *testing.T) { onEachKernel(t, sumsOfADeviceStayRight) }

func sumsOfADeviceStayRight(t *testing.T, old bool) {
	e := newEdgeOn(t, old, cube.TypeTC, "")
	tunnel := func(n *netns.Namespace, dev, local, remote string, addresses ...string) {
		n.Run("ip", "link", "add", "vx", "type", "vxlan", "id", "7", "dstport", "4789", "local", local, "remote", remote, "dev", dev, "udpcsum")
		n.Run("ip", "link", "set", "vx", "up")
		for _, a := range addresses {
			n.Run("ip", "addr", "add", a, "dev", "vx", "nodad")
		}
	}
	e.outside.Run("ethtool", "-K", netns.Inner, "tx", "off")
	tunnel(e.Lab.Lab.Namespace, "veth2", edgeIP, outsideIP, "192.0.2.1/24", "2001:db8:99::1/64")
	tunnel(e.outside.Namespace, netns.Inner, outsideIP, edgeIP, "192.0.2.2/24", "2001:db8:99::2/64")
	e.Lab.Lab.Run("sysctl", "-qw", "net.ipv6.conf.vx.disable_ipv6=0")
	e.Create("nat", "m", `{"rule":{"masquerade":{"enabled":true}}}`)
	e.Attach("m", "vx")
	sums := e.watchSums("vx")
	for i, address := range []string{"192.0.2.2:7002", "[2001:db8:99::2]:7002"} {
		e.serve(e.outside, address)
		for _, network := range []string{"tcp", "udp"} {
			e.wantSeenAs(e.dial(e.inside.Namespace, network, address), []string{"192.0.2.1", "2001:db8:99::1"}[i])
		}
	}
	if known, wrong := sums(); known == 0 || wrong != 0 {
		t.Errorf("of %d packets of which the device knew the sum, %d had another", known, wrong)
	}
}

//go:embed testdata/complete.tc.o
var complete []byte

// watchSums is placed after the NAT on a netdev, and returns the counts of packets whose sum the device knows, and of
// those with a different one.
func (e *edge) watchSums(dev string) func() (known, wrong uint64) {
	e.t.Helper()
	spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(complete))
	if err != nil {
		e.t.Fatal(err)
	}
	c, err := ebpf.NewCollection(spec)
	if err != nil {
		e.t.Fatal(err)
	}
	e.t.Cleanup(c.Close)
	e.Lab.Lab.Must(func() error {
		n, err := net.InterfaceByName(dev)
		if err != nil {
			return err
		}
		return netns.AttachTC(e.t, n.Index, c.Programs["complete"], ebpf.AttachTCXIngress)
	})
	return func() (known, wrong uint64) {
		for i, n := range []*uint64{&known, &wrong} {
			if err := c.Maps["sums"].Lookup(uint32(i), n); err != nil {
				e.t.Error(err)
			}
		}
		return known, wrong
	}
}
