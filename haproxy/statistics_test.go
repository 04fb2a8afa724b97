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

const someStatistics = `# pxname,svname,qcur,qmax,scur,smax,slim,stot,bin,bout,dreq
app,s1,0,0,0,1,,3,100,200,
app,"s,2",0,0,0,1,,18446744073709551615,0,,
app,BACKEND,0,0,0,1,,4,100,200,
web,FRONTEND,,,0,1,,4,100,200,

`

func TestStatisticsAreThoseOfServers(t *testing.T) {
	got, err := parseStatistics([]byte(someStatistics))
	want := Statistics{
		{"app", "s1"}:  {Sessions: 3, Sent: 100, Received: 200},
		{"app", "s,2"}: {Sessions: 1<<64 - 1},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
	for _, text := range []string{"", "root:x:0:0\n", "# a,b\n", "# \"", strings.TrimPrefix(someStatistics, "# "), strings.Replace(someStatistics, "stot", "x", 1),
		strings.Replace(someStatistics, "app,s1", "app,\"s1", 1)} {
		if got, err := parseStatistics([]byte(text)); err == nil || strings.Contains(err.Error(), "root") {
			t.Errorf("%q: %v, %v, want an error that does not quote it", text, got, err)
		}
	}
}

func FuzzStatistics(f *testing.F) {
	f.Add([]byte(someStatistics))
	f.Add([]byte("# pxname,svname,stot,bin,bout\na"))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := parseStatistics(text)
		if (s == nil) == (err == nil) {
			t.Errorf("%v, %v: want one of them", s, err)
		}
	})
}

func TestStatisticsAreAskedForAtASocket(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	if _, err := ReadStatistics(context.Background(), socket); err == nil {
		t.Error("there is no socket, and no error")
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	asked := make(chan string, 2)
	go func() {
		for _, answer := range []string{someStatistics, ""} {
			c, err := l.Accept()
			if err != nil {
				return
			}
			buf := make([]byte, 64)
			n, _ := c.Read(buf)
			asked <- string(buf[:n])
			if answer == "" { // HAProxy hangs
				<-asked
			}
			_, _ = io.WriteString(c, answer)
			c.Close()
		}
	}()
	if s, err := ReadStatistics(context.Background(), socket); err != nil || len(s) != 2 {
		t.Errorf("%v, %v", s, err)
	}
	if got := <-asked; got != "show stat -1 4 -1\n" {
		t.Errorf("asked %q", got)
	}
	if _, err := ReadStatistics(context.Background(), socket); err == nil {
		t.Error("HAProxy does not answer, and there is no error")
	}
}

func TestOtherFilesAreNoConfigurations(t *testing.T) {
	for text, want := range map[string]bool{
		"": true, "\n# comment\nglobal\n": true, "  frontend a\n": true, "root:x:0:0\n": false, "bind :80\nfrontend a\n": false, "'": false, ".if 1\n": true,
	} {
		if got := IsConfig([]byte(text)); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}
