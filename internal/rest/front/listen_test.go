// SPDX-License-Identifier: Apache-2.0

package front

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/polycube/polycube/internal/access"
	"github.com/polycube/polycube/internal/rest/message"
)

// TestAllowed: which peers of the Unix socket may pass.
func TestAllowed(t *testing.T) {
	other := uint32(os.Geteuid()) + 1000
	tests := []struct {
		name            string
		peer            credentials
		admins, readers int
		want            access.Role
	}{
		{"root", credentials{UID: 0}, -1, -1, access.Admin},
		{"the daemon's own user", credentials{UID: uint32(os.Geteuid()), GID: 5}, -1, -1, access.Admin},
		{"another user without a group", credentials{UID: other, GID: 50}, -1, -1, access.None},
		{"another user outside the groups", credentials{UID: other, GID: 50, Groups: []uint32{51, 52}}, 60, 61, access.None},
		{"primary group", credentials{UID: other, GID: 60}, 60, 61, access.Admin},
		{"supplementary group", credentials{UID: other, GID: 50, Groups: []uint32{51, 60}}, 60, 61, access.Admin},
		{"primary group of readers", credentials{UID: other, GID: 61}, 60, 61, access.Reader},
		{"supplementary group of readers", credentials{UID: other, GID: 50, Groups: []uint32{61}}, 60, 61, access.Reader},
		{"both groups", credentials{UID: other, GID: 61, Groups: []uint32{60}}, 60, 61, access.Admin},
		{"readers without a group of admins", credentials{UID: other, GID: 61}, -1, 61, access.Reader},
		{"group 4294967295 is not \"no group\"", credentials{UID: other, GID: 1<<32 - 1}, -1, -1, access.None},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.peer.allowed(tt.admins, tt.readers); got != tt.want {
				t.Errorf("allowed = %v, want %v", got, tt.want)
			}
		})
	}
}

// TestUserName: a number gets its name from the file alone, and whatever is in that.
func TestUserName(t *testing.T) {
	file := t.TempDir() + "/passwd"
	if err := os.WriteFile(file, []byte("root:x:0:0::/root:/bin/sh\n\n1000\n:x:1002::::\n# 1001:x:1:\nalice:x:1000:1000::/:/bin/sh\nbob:x:10000:1:::\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for uid, want := range map[uint32]string{1000: "alice (uid 1000)", 10000: "bob (uid 10000)", 100: "uid 100", 1001: "uid 1001", 1002: "uid 1002", 1<<32 - 1: "uid 4294967295"} {
		if got := userName(file, uid); got != want {
			t.Errorf("user %d is %q, want %q", uid, got, want)
		}
	}
	if got := userName(file+"x", 1000); got != "uid 1000" {
		t.Errorf("without the file, user 1000 is %q", got)
	}
}

// TestNeighbourhood: what one client has addresses in.
func TestNeighbourhood(t *testing.T) {
	for addr, want := range map[string]string{
		"127.0.0.1": "loopback", "127.9.9.9": "loopback", "::1": "loopback", "192.0.2.7": "192.0.2.7",
		"2001:db8:1:2:3::4": "2001:db8:1:2::/64", "fe80::1%eth0": "fe80::/64",
	} {
		if got := clientNetwork(netip.MustParseAddr(addr)); got != want {
			t.Errorf("%s is counted as %q, want %q", addr, got, want)
		}
	}
}

// TestListenAddress: TCP is served on loopback only, and the refusal says why.
func TestListenAddress(t *testing.T) {
	for addr, want := range map[string]string{
		"localhost": "", "127.0.0.1": "", "::1": "", "127.1.2.3": "", "::ffff:127.0.0.1": "",
		"0.0.0.0": "not loopback", "::": "not loopback", "192.0.2.1": "not loopback", "8.8.8.8": "not loopback",
		"example.org": "neither localhost nor an IP address", "": "neither localhost nor an IP address",
	} {
		_, err := loopback(addr)
		if (want == "") != (err == nil) || (err != nil && !strings.Contains(err.Error(), want)) {
			t.Errorf("loopback(%q): error %v, want %q", addr, err, want)
		}
	}
}

// TestListenUnix: the socket is private, replaces a dead one, and nothing else.
func TestListenUnix(t *testing.T) {
	dir := t.TempDir()
	path := dir + "/s"
	first, err := ListenUnix(path)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	if mode := info.Mode(); mode&os.ModeSocket == 0 || mode.Perm()&0o007 != 0 {
		t.Errorf("the socket has mode %v, others must have no right", mode)
	}
	second, err := ListenUnix(path)
	if err != nil {
		t.Fatalf("replacing a dead socket: %v", err)
	}
	if err := second.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(path); err == nil {
		t.Error("Close leaves the socket file behind")
	}
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ListenUnix(path); err == nil {
		t.Error("a regular file was replaced")
	}
	for _, target := range []string{path, dir + "/none", "/dev/null"} {
		link := dir + "/link"
		if err := os.Symlink(target, link); err != nil {
			t.Fatal(err)
		}
		if _, err := ListenUnix(link); err == nil || !strings.Contains(err.Error(), "not a socket") {
			t.Errorf("a link to %s in place of the socket: %v", target, err)
		}
		if err := os.Remove(link); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := ListenUnix(dir + "/" + strings.Repeat("x", 200)); err == nil || !strings.Contains(err.Error(), "too long") {
		t.Errorf("a path that is too long: error %v", err)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("left behind: %v", entries)
	}
}

// TestConnectionLimit: one listener keeps at most maxConns connections, and the others
// still serve.
func TestConnectionLimit(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := limit(inner, "")
	l.slots = make(chan struct{}, 2)
	accepted := make(chan net.Conn)
	var done sync.WaitGroup
	done.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			accepted <- c
		}
	})
	for range 3 {
		c, err := net.Dial("tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	first, second := <-accepted, <-accepted
	select {
	case <-accepted:
		t.Fatal("a third connection was accepted")
	default:
	}
	for range 2 {
		// Closing twice gives one slot back, not two.
		_ = first.Close()
	}
	third := <-accepted
	if n := len(l.slots); n != 2 {
		t.Errorf("%d slots are taken, want 2", n)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	done.Wait()
	_, _ = second.Close(), third.Close()
}

// TestDenialReason: the label of a refusal follows from its status.
func TestDenialReason(t *testing.T) {
	for status, want := range map[int]string{401: "no-credentials", 403: "forbidden", 429: "rate", 415: "body", 400: "other"} {
		if got := denialReason(&message.Error{Status: status}); got != want {
			t.Errorf("%d: %s, want %s", status, got, want)
		}
	}
	if got := denialReason(errors.New("x")); got != "other" {
		t.Errorf("an error: %s", got)
	}
}
