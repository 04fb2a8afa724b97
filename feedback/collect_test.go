// SPDX-License-Identifier: Apache-2.0

package feedback

// What agents of HAProxy and of HTTP may answer, and when agents are asked.

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/polycube/polycube/test/netns"
)

func TestMain(m *testing.M) { os.Exit(netns.CheckLeaks(m)) }

func TestLinesOfAgents(t *testing.T) {
	for line, want := range map[string]string{
		"75%":                    "{75   }",
		" UP\t100% , maxconn:30": "{100  up }",
		"ready":                  "{-1 ready  }",
		"drain,50%":              "{50 drain  }",
		"fail#disk\x1b[2J full":  "{-1  failed disk?[2J full}",
		"stopped":                "{-1  stopped }",
		"maint down # update":    "{-1 maint down update}",
		"0%":                     "{0   }",
		"":                       "the agent's line has no word",
		"# only":                 "the agent's line has no word",
		"%":                      `the agent's line has the weight "%": want 0% to 10000%`,
		"-5%":                    `the agent's line has the weight "-5%": want 0% to 10000%`,
		"1e9%":                   `the agent's line has the weight "1e9%": want 0% to 10000%`,
		"10001%":                 `the agent's line has the weight "10001%": want 0% to 10000%`,
		"maxconn:many":           `the agent's line has "maxconn:many": want maxconn:NUMBER`,
		"HTTP/1.1 400 Bad\x00":   `the agent's line has the unknown word "http/1.1"`,
		"up\x07":                 `the agent's line has the unknown word "up?"`,
		strings.Repeat("x", 300): `the agent's line has the unknown word "` + strings.Repeat("x", 80) + `"`,
		"up " + "\u00e9":         `the agent's line has the unknown word "?"`,
	} {
		says, err := ParseAgent(line)
		is := fmt.Sprint(err)
		if err == nil {
			is = fmt.Sprint(*says)
		}
		if is != want {
			t.Errorf("%q: %s, want %s", line, is, want)
		}
	}
}

func TestBodiesOfAnswers(t *testing.T) {
	const neither = `the answer is neither a number, nor a percentage, nor JSON with a number "load"`
	const noJSON = `the answer is no JSON with a number "load"`
	const outside = `the load is not between 0 and 10: a percentage needs its sign`
	for body, want := range map[string]string{
		`{"load": 0.4}`: "0.40", `{"host":"a","load":1}`: "1.00", "0.25\n": "0.25", " 40 % ": "0.40", "100%": "1.00", "0": "0.00",
		"": neither, "<html>": neither, "secret": neither, "0.4 0.5": neither, `{"load": "0.4"}`: noJSON, `{}`: noJSON, `{"load":null}`: noJSON,
		`{"load":0.4}{"load":1}`: noJSON, "NaN": outside, "Inf": outside, "-0.1": outside, "40": outside, `{"load":1e300}`: outside, "1e999": neither,
	} {
		load, err := ParseLoad([]byte(body))
		is := fmt.Sprintf("%.2f", load)
		if err != nil {
			is = err.Error()
		}
		if is != want {
			t.Errorf("%q: %s, want %s", body, is, want)
		}
	}
}

// FuzzAnswers: whatever an agent sends, a load is within its limits, and what is shown of it can be printed.
func FuzzAnswers(f *testing.F) {
	for _, seed := range []string{"75%", "up 10% maxconn:3 # x", `{"load":0.5}`, "40%", "drain", "1e5", "\x00", "NaN%", `{"load":-0}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if load, err := ParseLoad(data); err == nil && !(load >= 0 && load <= mostLoad) {
			t.Errorf("load %v", load)
		}
		says, err := ParseAgent(string(data))
		var shown string
		if err != nil {
			shown = err.Error()
		} else {
			shown = says.Reason
			var d demands
			d.add(says)
			if share := d.share(); !(share >= 0 && share <= 100) {
				t.Errorf("share %v", share)
			}
		}
		if strings.ContainsFunc(shown, func(r rune) bool { return r < ' ' || r > '~' }) || len(shown) > 200 {
			t.Errorf("%q is shown", shown)
		}
	})
}

// serve listens on loopback and gives each connection to a function.
func serve(t *testing.T, each func(net.Conn)) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				each(c)
			}()
		}
	}()
	return l.Addr().(*net.TCPAddr).AddrPort()
}

func TestAgentsAreBounded(t *testing.T) {
	silent := func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }
	endless := func(c net.Conn) {
		for {
			if _, err := c.Write([]byte(strings.Repeat("9", 1000))); err != nil {
				return
			}
		}
	}
	closed := serve(t, silent)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	refuses := l.Addr().(*net.TCPAddr).AddrPort()
	l.Close()
	for name, tt := range map[string]struct {
		ask  collector
		want string
	}{
		"silent agent":   {&agent{at: closed}, "no answer in time"},
		"silent web":     {&web{at: closed, conf: HTTPConfig{Path: "/"}}, "no answer in time"},
		"refused agent":  {&agent{at: refuses}, "connection refused"},
		"refused web":    {&web{at: refuses, conf: HTTPConfig{Path: "/"}}, "connection refused"},
		"endless line":   {&agent{at: serve(t, endless)}, "longer than 512 bytes"},
		"endless header": {&web{at: serve(t, endless), conf: HTTPConfig{Path: "/"}}, ""},
		"endless body": {&web{at: serve(t, func(c net.Conn) {
			_, _ = c.Write([]byte("HTTP/1.1 200 OK\r\n\r\n"))
			endless(c)
		}), conf: HTTPConfig{Path: "/"}}, "longer than 4096 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := pollSafely(context.Background(), &polled[int]{ask: tt.ask, target: Endpoint{conf: Config{Timeout: 1000}}})
			if err == nil || !strings.Contains(err.Error(), tt.want) || len(err.Error()) > 300 {
				t.Errorf("%+v, %v, want %q", r, err, tt.want)
			}
		})
	}
	at := serve(t, func(c net.Conn) {
		_, _ = c.Write([]byte("up "))
		_, _ = c.Write([]byte("30%")) // and no end of line
	})
	if r, err := pollSafely(context.Background(), &polled[int]{ask: &agent{at: at}, target: Endpoint{conf: Config{Timeout: 5000}}}); err != nil || r.Says.Percent != 30 {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestLoadsByHTTP(t *testing.T) {
	var status atomic.Int32
	var asked atomic.Value
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Store(r.Method + " " + r.Host + r.URL.String())
		if status.Load() == 302 {
			http.Redirect(w, r, "/elsewhere", http.StatusFound)
			return
		}
		w.WriteHeader(int(status.Load()))
		_, _ = w.Write([]byte(`{"load":0.7}`))
	}))
	defer s.Close()
	at := s.Listener.Addr().(*net.TCPAddr).AddrPort()
	w := &web{at: at, conf: HTTPConfig{Path: "/load?short", Host: "shop.example"}}
	for code, want := range map[int32]string{200: "{0.7 false <nil>}", 503: "the agent answers with status 503, want 200", 302: "the agent answers with status 302, want 200"} {
		status.Store(code)
		r, err := w.poll(context.Background())
		is := fmt.Sprint(r)
		if err != nil {
			is = err.Error()
		}
		if is != want || asked.Load() != "GET shop.example/load?short" {
			t.Errorf("%d: %s after %v, want %s", code, is, asked.Load(), want)
		}
	}
}

func TestAPollerAsksEachAgentInItsTime(t *testing.T) {
	at := serve(t, func(c net.Conn) { _, _ = c.Write([]byte("80%\n")) })
	dead := netip.MustParseAddrPort("127.0.0.1:1")
	conf := defaults()
	conf.Method, conf.Interval, conf.Timeout = Agent, 200, 5000
	p := NewPoller[int]()
	defer p.Close()
	const agents = 300
	for n := range agents {
		to := at
		if n%3 == 0 {
			to = dead
		}
		c := *conf
		c.Port = to.Port()
		p.Set(n, c.Agent(netip.AddrPortFrom(to.Addr(), 99), netip.Addr{}))
	}
	seen, failed := map[int]int{}, map[int]int{}
	netns.Eventually(t, patience, func() error {
		for _, a := range p.Take() {
			if seen[a.Key]++; a.Err != nil {
				failed[a.Key]++
			} else if a.Reading.Says.Percent != 80 {
				return fmt.Errorf("%+v", a)
			}
		}
		for n := range agents {
			if seen[n] < 3 || (failed[n] > 0) != (n%3 == 0) || n%3 == 0 && failed[n] != seen[n] {
				return fmt.Errorf("agent %d: %d answers, %d failed", n, seen[n], failed[n])
			}
		}
		return nil
	})
	if s := p.Stats(); s.Polls < 3*agents || s.Failed == 0 || s.Failed > s.Polls/2 {
		t.Errorf("%+v", s)
	}
	for n := range agents - 1 {
		p.Remove(n)
	}
	p.Take()
	netns.Eventually(t, patience, func() error {
		all := p.Take()
		for _, a := range all {
			if a.Key != agents-1 {
				t.Fatalf("a removed agent answers: %+v", a)
			}
		}
		if len(all) == 0 {
			return fmt.Errorf("the last agent does not answer")
		}
		return nil
	})
}

// TestClosingDoesNotWaitForSilentAgents, as it would hold up the daemon.
func TestClosingDoesNotWaitForSilentAgents(t *testing.T) {
	asked := make(chan bool, 10)
	at := serve(t, func(c net.Conn) { asked <- true; _, _ = io.Copy(io.Discard, c) })
	udp := hostile(t, func([]byte) []byte { asked <- true; return nil })
	p := NewPoller[string]()
	conf := defaults()
	conf.Timeout, conf.Interval = 3600000, 3600000
	for method, to := range map[Method]netip.AddrPort{Agent: at, HTTP: at, SNMP: udp} {
		c := *conf
		c.Method, c.Port = method, to.Port()
		e := c.Agent(to, netip.Addr{})
		e.conf.Interval = 200 // for the first poll
		p.Set(fmt.Sprint(method), e)
	}
	for range 3 {
		<-asked
	}
	start := time.Now()
	if p.Close(); time.Since(start) > patience {
		t.Errorf("it took %v", time.Since(start))
	}
}

func TestConfigurationsThatContradictThemselves(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"":                        func(*Config) {},
		"timeout is more than":    func(c *Config) { c.Timeout = 1001 },
		"method AGENT needs port": func(c *Config) { c.Method = Agent },
		"all ratios are 0":        func(c *Config) { c.Method, c.Ratios = SNMP, Ratios{} },
		"version V3 needs user":   func(c *Config) { c.Method, c.SNMP.Version = SNMP, V3 },
		"priv needs auth":         func(c *Config) { c.Method, c.SNMP = SNMP, SNMPConfig{Version: V3, User: "u", Priv: AES} },
		"auth needs credentials":  func(c *Config) { c.Method, c.SNMP = SNMP, SNMPConfig{Version: V3, User: "u", Auth: SHA} },
	} {
		c := defaults()
		change(c)
		if err := c.Validate(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	var none *Config
	if err := none.Validate(); err != nil || none.Enabled() {
		t.Error("no configuration is one")
	}
}

func TestFilesOfSecrets(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"good": "community secret words\n\n# auth of V3\nauth 12345678\npriv abcdefgh\n", "unknown": "password hunter22\n", "empty": "auth \n",
		"long": strings.Repeat("#\n", 3000), "open": "auth 12345678\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(dir, "open"), 0o640); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("good", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "dir"), 0o700); err != nil {
		t.Fatal(err)
	}
	if c, err := readCredentials(dir, "good"); err != nil || c != (credentials{"secret words", "12345678", "abcdefgh"}) {
		t.Errorf("%v", err)
	}
	if c, err := readCredentials(dir, ""); err != nil || c != (credentials{}) {
		t.Errorf("%v", err)
	}
	for name, want := range map[string]string{
		"unknown": "line 1: want", "empty": "line 1: want", "long": "longer than 4096 bytes", "open": "others can read it", "link": "too many levels",
		"dir": "not a file", "..": "not the name", "a/b": "not the name", ".hidden": "not the name", "absent": "no such file",
	} {
		if _, err := readCredentials(dir, name); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter22") {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}
