// SPDX-License-Identifier: Apache-2.0

package elements

import (
	"testing"
	"time"

	"github.com/polycube/polycube/ipset"
)

// TestAKeyIsItsElement: what a program has found or added is shown as ipset shows it.
func TestAKeyIsItsElement(t *testing.T) {
	seen := map[Key]string{}
	for _, c := range []struct {
		header ipset.Header
		text   string
		length uint8
		word   int
		bit    uint64
	}{
		{ipset.Header{Type: "hash:ip", Family: 4}, "192.0.2.1", 128, 0, 1},
		{ipset.Header{Type: "hash:ip", Family: 6}, "::ffff:192.0.2.2", 128, 0, 1},
		{ipset.Header{Type: "hash:net", Family: 4}, "192.0.0.0/9", 105, 0, 1 << 23},
		{ipset.Header{Type: "hash:net", Family: 4}, "128.0.0.0/1", 97, 0, 1 << 31},
		{ipset.Header{Type: "hash:net", Family: 6}, "2001:db8::/65", 65, 0, 1 << 63},
		{ipset.Header{Type: "hash:net", Family: 6}, "2001:db8::/64", 64, 1, 1},
		{ipset.Header{Type: "hash:net", Family: 6}, "8000::/1", 1, 1, 1 << 63},
		{ipset.Header{Type: "hash:ip,port", Family: 4}, "192.0.2.1,tcp:80", 128, 0, 1},
		{ipset.Header{Type: "hash:ip,port", Family: 4}, "192.0.2.1,udp:80", 128, 0, 1},
		{ipset.Header{Type: "hash:ip,port", Family: 4}, "192.0.2.1,icmp:echo-request", 128, 0, 1},
		{ipset.Header{Type: "hash:net,port", Family: 6}, "2001:db8::/32,sctp:5", 32, 1, 1 << 32},
		{ipset.Header{Type: "hash:ip,port,ip", Family: 4}, "192.0.2.1,tcp:80,192.0.2.9", 128, 0, 1},
		{ipset.Header{Type: "hash:ip,port,ip", Family: 6}, "2001:db8::1,tcp:80,2001:db8::9", 128, 0, 1},
		{ipset.Header{Type: "hash:mac"}, "02:00:00:00:0A:0F", 0, 1, 0},
		{ipset.Header{Type: "bitmap:port", First: 5, Last: 9}, "7", 0, 1, 0},
	} {
		e, err := c.header.Single(c.text)
		if err != nil {
			t.Fatal(err)
		}
		k := KeyOf(e)
		if is := k.Element(c.header); is != e || c.header.Text(is) != c.text {
			t.Errorf("%s of %s: the key %+v is the element %+v, want %+v", c.text, c.header.Type, k, is, e)
		}
		if word, bit := k.Bit(); k.Length != c.length || word != c.word || bit != c.bit {
			t.Errorf("%s: length %d, bit %#x of word %d, want %d, %#x of %d", c.text, k.Length, bit, word, c.length, c.bit, c.word)
		}
		if other := seen[k]; other != "" {
			t.Errorf("%s and %s have one key", c.text, other)
		}
		seen[k] = c.text
	}
}

func TestTheTimeThatIsLeftIsRoundedUp(t *testing.T) {
	const now = uint64(1000 * time.Second)
	for _, c := range []struct {
		expires uint64
		left    uint32
		over    bool
	}{
		{0, 0, false}, {now - 1, 0, true}, {now, 0, true}, {now + 1, 1, false},
		{now + uint64(time.Second), 1, false}, {now + uint64(time.Second) + 1, 2, false},
	} {
		v := Value{Expires: c.expires}
		if left, over := v.Left(now), v.Over(now); left != c.left || over != c.over {
			t.Errorf("%d at %d: %d s left, over: %v; want %d, %v", c.expires, now, left, over, c.left, c.over)
		}
	}
}
