// SPDX-License-Identifier: Apache-2.0

package netns

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/polycube/polycube/test/pace"
)

func TestWhichAnswersAreMissing(t *testing.T) {
	lines := func(seqs ...int) string {
		var b strings.Builder
		for _, seq := range seqs {
			fmt.Fprintf(&b, "64 bytes from 10.0.0.2: icmp_seq=%d ttl=64 time=0.05 ms\n", seq)
		}
		return b.String()
	}
	for _, tt := range []struct {
		name string
		out  string
		lost int
	}{
		{"none", lines(1, 2, 3), 0},
		{"none, and more were sent while the last was late", lines(1, 2, 3, 4), 0},
		{"none, one comes twice", lines(1, 2, 2, 3), 0},
		{"one, and more were sent instead", lines(1, 3, 4), 1},
		{"all", "From 10.0.0.1 icmp_seq=1 Destination Host Unreachable\n", 3},
	} {
		if got := (PingOptions{Count: 3}).lost(tt.out); got != tt.lost {
			t.Errorf("%s: %d are lost, want %d", tt.name, got, tt.lost)
		}
	}
}

// TestLateAnswersAreNotLost: the last of some take longer by far than the first.
func TestLateAnswersAreNotLost(t *testing.T) {
	t.Parallel()
	lab := NewLab(t)
	h1, h2 := lab.Host("h1", "10.0.0.1/24"), lab.Host("h2", "10.0.0.2/24")
	lab.Run("ip", "link", "add", "br0", "type", "bridge")
	for _, dev := range []string{"h1", "h2", "br0"} {
		if dev != "br0" {
			lab.Run("ip", "link", "set", dev, "master", "br0")
		}
		lab.Run("ip", "link", "set", dev, "up")
	}
	Eventually(t, pace.Stretch(15*time.Second), func() error { return h1.Ping("10.0.0.2", Brief) })
	h2.Run("sysctl", "-qw", "net.ipv4.icmp_echo_ignore_all=1")
	wire := OpenRaw(t, h2, Inner)
	wait, err := h1.StartPing("10.0.0.2", PingOptions{Count: 10})
	if err != nil {
		t.Fatal(err)
	}
	var late sync.WaitGroup
	for seq := 0; seq < 10; {
		request, err := wire.Recv(func(f []byte) bool { return len(f) >= 42 && f[12] == 8 && f[23] == 1 && f[34] == 8 }, pace.Stretch(15*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		reply, delay := answer(request), time.Duration(0)
		if seq = int(request[40])<<8 | int(request[41]); seq > 8 {
			delay = 300 * time.Millisecond
		}
		late.Add(1)
		time.AfterFunc(delay, func() {
			defer late.Done()
			if err := wire.Send(reply); err != nil {
				t.Error(err)
			}
		})
	}
	late.Wait()
	if err := wait(); err != nil {
		t.Error(err)
	}
}

// answer is the reply to an echo request.
func answer(f []byte) []byte {
	reply := append([]byte(nil), f...)
	copy(reply, f[6:12])
	copy(reply[6:], f[:6])
	copy(reply[26:], f[30:34])
	copy(reply[30:], f[26:30])
	reply[34] = 0
	sum := int(reply[36])<<8 | int(reply[37]) + 0x0800 // the type went from 8 to 0
	sum = sum&0xffff + sum>>16
	reply[36], reply[37] = byte(sum>>8), byte(sum)
	return reply
}
