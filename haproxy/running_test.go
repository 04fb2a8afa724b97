// SPDX-License-Identifier: Apache-2.0

package haproxy

import (
	"context"
	"io"
	"net"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

const someRunning = `1
# be_id be_name srv_id srv_name srv_addr srv_op_state srv_admin_state srv_uweight srv_iweight
3 app 1 s1 10.0.0.11 2 0 1 1
3 app 2 s2 10.0.0.12 0 1 10 1
3 app 3 s3 - 0 4 256 1
3 app 4 s4 10.0.0.13 2 8 0 1
4 api 1 s1 10.0.0.14 0 34 7 7
4 api 2 s2 10.0.0.15 2 80 7 7

`

func TestServersAreUsedAsTheRunningHAProxySays(t *testing.T) {
	got, err := parseRunning([]byte(someRunning))
	want := map[ServerName]Running{
		{"app", "s1"}: {Weight: 1},
		{"app", "s2"}: {Maintenance: true, Weight: 10},
		{"app", "s3"}: {Weight: 256}, // `disabled` in the configuration, and made ready since
		{"app", "s4"}: {Draining: true},
		{"api", "s1"}: {Maintenance: true, Weight: 7},
		{"api", "s2"}: {Draining: true, Weight: 7},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
	for _, text := range []string{
		"", "1", "root:x:0:0\n", "1\nroot:x:0:0\n", "2" + someRunning[1:], strings.Replace(someRunning, "srv_uweight", "x", 1),
		strings.Replace(someRunning, "2 0 1 1", "2 0 257 1", 1), strings.Replace(someRunning, "2 0 1 1", "2 -1 1 1", 1), strings.Replace(someRunning, "2 0 1 1", "2 0", 1),
		someRunning + strings.Repeat("x", 1<<17),
	} {
		if got, err := parseRunning([]byte(text)); err == nil || strings.Contains(err.Error(), "root") {
			t.Errorf("%.80q: %v, %v, want an error that does not quote it", text, got, err)
		}
	}
}

func FuzzRunning(f *testing.F) {
	f.Add([]byte(someRunning))
	f.Add([]byte("1\n# srv_uweight srv_admin_state srv_name be_name\n0 0\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		all, err := parseRunning(text)
		if (all == nil) == (err == nil) {
			t.Errorf("%v, %v: want one of them", all, err)
		}
		for name, is := range all {
			if is.Weight < 0 || is.Weight > maxWeight {
				t.Errorf("%v: %+v", name, is)
			}
		}
	})
}

func TestServersAreAskedForAtASocket(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	asked := make(chan string, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		buf := make([]byte, 64)
		n, _ := c.Read(buf)
		asked <- string(buf[:n])
		_, _ = io.WriteString(c, someRunning)
		c.Close()
	}()
	if all, err := ReadRunning(context.Background(), socket); err != nil || len(all) != 6 {
		t.Errorf("%v, %v", all, err)
	}
	if got := <-asked; got != "show servers state\n" {
		t.Errorf("asked %q", got)
	}
}
