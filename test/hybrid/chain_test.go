// SPDX-License-Identifier: Apache-2.0

package hybrid

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pace"
)

// base is BASE; the ports from there on are the combinations of fast and slow path.
const (
	base         = 7000
	combinations = 8
)

// rules are the slow path of the second function, which is the stack: it writes `y` behind the letter of the first.
const rules = `table ip hybrid {
	chain forward {
		type filter hook forward priority filter;
		udp dport 7000-7007 counter @th,64,8 set 2 @th,80,8 set 0x79
	}
}`

// chain is a lab with three functions between two hosts. The middle one is on both netdevs, behind the other.
func chain(t *testing.T, typ cube.Type) *bpftest.Lab {
	t.Helper()
	o := bpftest.Options{Type: typ, Hosts: 2, Follow: true, Services: []cube.Service{stage}}
	if typ != cube.TypeTC {
		o.Host = []netns.Option{netns.WithoutTxChecksum(), netns.WithGRO()}
	}
	l := bpftest.New(t, o)
	l.Forward()
	l.Lab.Run("nft", rules)
	for i, h := range l.Hosts {
		h.Run("ip", "addr", "add", fmt.Sprintf("10.0.%d.1/24", i+1), "dev", netns.Inner)
		h.Run("ip", "route", "add", "default", "via", fmt.Sprintf("10.0.%d.254", i+1))
	}
	add := func(name, letter string, number int, body string) string {
		return fmt.Sprintf(`{"name":"%s","service-name":"stage","type":"%s","number":%d,"letter":"%s",%s}`, name, typ, number, letter, body)
	}
	const user = `"incoming":"ASKS_USER","outgoing":"ASKS_USER"`
	stack := func(output string) string {
		return `"incoming":"ASKS_STACK","outputs":[{"number":0,"to":"` + output + `"}]`
	}
	l.CreateAll("[" + strings.Join([]string{
		add("x", "X", 0, user), add("y1", "Y", 1, stack("veth2")), add("y2", "Y", 1, stack("veth1")), add("z", "Z", 2, user),
	}, ",") + "]")
	for _, a := range [][2]string{{"x", "veth1"}, {"y1", "veth1"}, {"z", "veth2"}, {"y2", "veth2"}} {
		l.Attach(a[0], a[1])
	}
	l.Hosts[0].Reaches(t, bpftest.Patience, "10.0.2.1")
	return l
}

// expected are the letters of a packet to a port, if no entry says the opposite.
func expected(order string, port uint16) string {
	out := []byte(order)
	for i, letter := range out {
		if port>>strings.IndexByte("XYZ", letter)&1 == 0 {
			out[i] |= 0x20
		}
	}
	return string(out)
}

// way is a direction: packets that one host sends to the other.
type way struct {
	order string
	from  *net.UDPConn
	list  [combinations]*net.UDPConn // by port
}

// open opens the sockets of a direction. Packets have no checksum, as functions change what it is about.
func open(l *bpftest.Lab, order string, from, to int) (w way, err error) {
	w.order = order
	own, err := socket(l.Hosts[from], fmt.Sprintf("10.0.%d.1:6000", from+1))
	if err != nil {
		return w, err
	}
	w.from = own
	for i := range w.list {
		if w.list[i], err = socket(l.Hosts[to], fmt.Sprintf("10.0.%d.1:%d", to+1, base+i)); err != nil {
			return w, err
		}
	}
	return w, nil
}

func socket(n *netns.Node, address string) (c *net.UDPConn, err error) {
	err = n.Do(func() error {
		a, err := net.ResolveUDPAddr("udp4", address)
		if err == nil {
			c, err = net.ListenUDP("udp4", a)
		}
		if err != nil {
			return err
		}
		raw, err := c.SyscallConn()
		if err != nil {
			return err
		}
		return errors.Join(raw.Control(func(fd uintptr) {
			err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_NO_CHECK, 1)
		}), err)
	})
	return c, err
}

func (w *way) close() {
	_ = w.from.Close()
	for _, c := range w.list {
		_ = c.Close()
	}
}

// send sends packets to one port and returns their letters, in the order of arrival: each arrives once.
func (w *way) send(port uint16, first, count uint32) (letters []string, err error) {
	to := w.list[port-base]
	address := to.LocalAddr().(*net.UDPAddr)
	for n := range count {
		payload := binary.BigEndian.AppendUint32(make([]byte, 8), first+n)
		if _, err := w.from.WriteToUDP(payload, address); err != nil && !errors.Is(err, syscall.ENOBUFS) {
			return nil, fmt.Errorf("send: %w", err)
		}
	}
	seen := map[uint32]bool{}
	got := make([]byte, 64)
	if err := to.SetReadDeadline(time.Now().Add(pace.Stretch(20 * time.Second))); err != nil {
		return nil, err
	}
	for range count {
		n, err := to.Read(got)
		if err != nil {
			return letters, fmt.Errorf("port %d: %d of %d packets have arrived: %w", port, len(letters), count, err)
		}
		number := binary.BigEndian.Uint32(got[8:n])
		if seen[number] || number-first >= count {
			return letters, fmt.Errorf("port %d: packet %d has arrived twice", port, number)
		}
		seen[number] = true
		is, err := signed(got[:n])
		if err != nil {
			return letters, err
		}
		letters = append(letters, is)
	}
	return letters, nil
}

func eachType(t *testing.T, test func(t *testing.T, l *bpftest.Lab, ways []way)) {
	for _, typ := range []cube.Type{cube.TypeTC, cube.TypeXDPSKB, cube.TypeXDPDRV} {
		t.Run(strings.ToLower(string(typ)), func(t *testing.T) {
			t.Parallel()
			l := chain(t, typ)
			there, err := open(l, "XYZ", 0, 1)
			if err != nil {
				t.Fatal(err)
			}
			defer there.close()
			back, err := open(l, "ZYX", 1, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer back.close()
			test(t, l, []way{there, back})
		})
	}
}

func TestEachFunctionIsPassedOnceAndInOrder(t *testing.T) {
	eachType(t, func(t *testing.T, l *bpftest.Lab, ways []way) {
		const each = 30
		for _, w := range ways {
			for port := uint16(base); port < base+combinations; port++ {
				letters, err := w.send(port, 0, each)
				if err != nil {
					t.Error(err)
				}
				for _, is := range letters {
					if want := expected(w.order, port); is != want {
						t.Errorf("port %d: a packet has passed %q, want %q", port, is, want)
						break
					}
				}
			}
		}
		// Two combinations of three leave half of the packets to the stack.
		if got, want := counted(t, l), 2*each*combinations/2; got != want {
			t.Errorf("the stack has judged %d packets, want %d", got, want)
		}
		for _, name := range []string{"y1", "y2"} {
			if n := l.Fates(name)["redirected"]; n != each*combinations/2 {
				t.Errorf("%s has sent %d packets past the stack, want %d", name, n, each*combinations/2)
			}
		}
	})
}

// counted is what the rule of the stack has counted.
func counted(t *testing.T, l *bpftest.Lab) (packets int) {
	t.Helper()
	out, err := l.Lab.Command("nft", "list", "chain", "ip", "hybrid", "forward").Output()
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(out), "counter packets ")
	if _, err := fmt.Sscan(rest, &packets); err != nil {
		t.Fatalf("%s: %v", out, err)
	}
	return packets
}

// TestRulesMayComeAndGo: entries change the path of packets that are on their way.
func TestRulesMayComeAndGo(t *testing.T) {
	eachType(t, func(t *testing.T, l *bpftest.Lab, ways []way) {
		stop := change(t, l)
		defer stop()
		var all sync.WaitGroup
		for _, w := range ways {
			all.Go(func() {
				number := uint32(0)
				for range 60 {
					for port := uint16(base); port < base+combinations; port++ {
						letters, err := w.send(port, number, 8)
						if err != nil {
							t.Error(err)
							return
						}
						number += 8
						for _, is := range letters {
							if strings.ToUpper(is) != w.order {
								t.Errorf("port %d: a packet has passed %q, want %q", port, is, w.order)
								return
							}
						}
					}
				}
			})
		}
		all.Wait()
	})
}

// change adds and removes entries, until stop.
func change(t *testing.T, l *bpftest.Lab) (stop func()) {
	t.Helper()
	var maps []*ebpf.Map
	for _, name := range []string{"x", "y1", "y2", "z"} {
		maps = append(maps, l.Map(name, "other"))
	}
	done := make(chan struct{})
	var busy sync.WaitGroup
	busy.Go(func() {
		for i := uint64(0); ; i++ {
			select {
			case <-done:
				return
			default:
			}
			r := rand.New(rand.NewPCG(i, 1))
			m, port := maps[r.IntN(len(maps))], binary.BigEndian.AppendUint16(nil, uint16(base+r.IntN(combinations)))
			err := m.Update(port, uint32(1), ebpf.UpdateNoExist)
			if errors.Is(err, ebpf.ErrKeyExist) {
				err = m.Delete(port)
			}
			if err != nil {
				t.Error(err)
				return
			}
		}
	})
	return func() { close(done); busy.Wait() }
}
