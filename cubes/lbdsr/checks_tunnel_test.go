// SPDX-License-Identifier: Apache-2.0

package lbdsr

// Health checks through tunnels. The kernel of the tests may have no tunnel devices, so packets for the real server are taken
// out of their tunnel by the test, and given to the server's stack by a TUN device.

import (
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
)

// endTunnels takes packets out of IPIP and GUE at a host, until the test ends or calls stop.
func endTunnels(t *testing.T, host *netns.Node) (stop func()) {
	t.Helper()
	var tun *os.File
	host.Must(func() error {
		fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		ifr, err := unix.NewIfreq("ends")
		if err == nil {
			ifr.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
			err = unix.IoctlIfreq(fd, unix.TUNSETIFF, ifr)
		}
		tun = os.NewFile(uintptr(fd), "tun")
		return err
	})
	host.Run("ip", "link", "set", "ends", "up")
	host.Run("sh", "-c", "echo 0 | tee /proc/sys/net/ipv4/conf/*/rp_filter")
	w := netns.OpenRaw(t, host, netns.Inner)
	stopped, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stopped:
				return
			default:
			}
			frame, err := w.Recv(func(f []byte) bool { return inner(f) != nil }, 50*time.Millisecond)
			if err == nil {
				_, _ = tun.Write(inner(frame)) // a packet that does not arrive is a failed check
			}
		}
	}()
	ended := false
	stop = func() {
		if !ended {
			ended = true
			close(stopped)
			<-done
			_ = tun.Close()
		}
	}
	t.Cleanup(stop)
	return stop
}

// inner is the packet in a tunnel; nil if the frame has none.
func inner(f []byte) []byte {
	at, next := 34, byte(0)
	switch {
	case len(f) < 14+20+20+8:
		return nil
	case f[12] == 8 && f[13] == 0:
		next = f[23]
	case f[12] == 0x86 && f[13] == 0xdd && len(f) > 14+40+20+8:
		at, next = 54, f[20]
	}
	switch {
	case next == 4 || next == 41:
		return f[at:]
	case next == unix.IPPROTO_UDP && f[at+2] == 6080>>8 && f[at+3] == 6080&255:
		return f[at+8:]
	}
	return nil
}

func TestServersBehindTunnelsAreChecked(t *testing.T) {
	for _, typ := range []cube.Type{cube.TypeTC, cube.TypeXDPDRV} {
		t.Run(string(typ), func(t *testing.T) {
			t.Parallel()
			o := live
			o.Type = typ
			l := bpftest.New(t, o)
			w := newWeb(t, l, 2)
			stop := endTunnels(t, w.host)
			const check = `"health-check":{` + quick + `"type":"HTTP"}`
			const icmp = `"health-check":{` + quick + `"type":"ICMP"}`
			l.Create("lbdsr", "lb", `{`+sides+`,"service":[
 {"vip":"`+webVIP+`","vport":80,"proto":"TCP",`+check+`,"server":[
  {"address":"10.0.2.11","forward":"IPIP"},{"address":"2001:db8:2::11","forward":"GUE"},{"address":"10.0.3.11","forward":"IPIP"}]},
 {"vip":"`+webVIP6+`","vport":80,"proto":"TCP",`+check+`,"server":[{"address":"10.0.2.11","forward":"GUE"},{"address":"2001:db8:2::11","forward":"IPIP"}]},
 {"vip":"`+webVIP6+`","vport":53,"proto":"UDP",`+icmp+`,"server":[{"address":"2001:db8:2::11","forward":"GUE"}]}]}`)
			const http, http6 = webVIP + " 80 TCP", webVIP6 + " 80 TCP"
			for _, server := range []struct{ service, address string }{
				{http, "10.0.2.11"}, {http, "2001:db8:2::11"}, {http6, "10.0.2.11"}, {http6, "2001:db8:2::11"}, {webVIP6 + " 53 UDP", "2001:db8:2::11"},
			} {
				is(t, l, server.service, server.address, "UP", "")
			}
			w.status.Store(500)
			is(t, l, http, "10.0.2.11", "DOWN", "500")
			w.status.Store(200)
			is(t, l, http, "10.0.2.11", "UP", "")
			stop() // the server works, but the tunnel to it does not
			is(t, l, http, "2001:db8:2::11", "DOWN", "no response")
			is(t, l, http6, "10.0.2.11", "DOWN", "no response")
			is(t, l, webVIP6+" 53 UDP", "2001:db8:2::11", "DOWN", "no response")
		})
	}
}
