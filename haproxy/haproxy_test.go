// SPDX-License-Identifier: Apache-2.0

package haproxy

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/polycube/polycube/test/pace"
)

// valid fails unless HAProxy itself accepts a configuration.
func valid(t *testing.T, files ...string) {
	t.Helper()
	program, err := exec.LookPath("haproxy")
	if err != nil {
		t.Log("haproxy is not installed, so it does not say whether the configuration is valid: scripts/deps.sh bench")
		return
	}
	args := []string{"-c"}
	dir := t.TempDir()
	for n, text := range files {
		name := filepath.Join(dir, fmt.Sprintf("%d.cfg", n))
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, "-f", name)
	}
	if out, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput(); err != nil {
		t.Errorf("haproxy -c: %v\n%s", err, out)
	}
}

// analyse parses a configuration that HAProxy accepts.
func analyse(t *testing.T, files ...string) []*Frontend {
	t.Helper()
	valid(t, files...)
	var all []File
	for n, text := range files {
		all = append(all, File{fmt.Sprintf("%d.cfg", n), []byte(text)})
	}
	c, err := Parse(all...)
	if err != nil {
		t.Fatal(err)
	}
	return result(t, c)
}

// result analyses a configuration.
func result(t *testing.T, c *Config) []*Frontend {
	t.Helper()
	all, err := c.Analyse()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestAFrontendThatCanBeTakenOver(t *testing.T) {
	all := analyse(t, `# A comment
global
	maxconn 1000
	log 127.0.0.1 local0

defaults base
	mode http
	log global
	option httplog
	option forwardfor
	timeout connect 5s
	timeout client 1m
	timeout server 50000

defaults tcp from base
	mode tcp
	option tcplog
	option dontlognull
	retries 3
	default-server inter 3s rise 1 fall 2 weight 10 port 8080

frontend shop from tcp
	bind 192.0.2.10:80,192.0.2.11:81 name "a \"quoted\" name" # and a comment
	bind ipv4@192.0.2.10:8000-8003
	description 'the shop'' of #1'
	default_backend shops

backend shops from tcp
	balance leastconn
	option httpchk GET /health
	http-check expect status 200-299
	timeout check 700ms
	server one 10.0.0.1:+100 check weight 5
	server two 10.0.0.2:+100 check disabled
	server two-b 10.0.0.3:+100 weight 0 check

listen six from tcp
	bind [2001:db8::10]:443
	server a 2001:db8:1::1:8443
	server b [2001:db8:1::2]:8443 no-check agent-check agent-port 9707 agent-inter 2s no-agent-check
`)
	if len(all) != 2 || len(all[0].Reasons)+len(all[1].Reasons) != 0 {
		for _, f := range all {
			t.Error(f.Name, f.Reasons)
		}
		t.FailNow()
	}
	f := all[0]
	if f.Name != "shop" || f.Backend != "shops" || f.Balance != "LEAST_CONNECTIONS" || f.Idle != 50*time.Second {
		t.Errorf("%+v", f)
	}
	if want := (Check{Type: "HTTP", Interval: 3 * time.Second, Timeout: 700 * time.Millisecond, Rise: 1, Fall: 2, Port: 8080, Method: "GET", Path: "/health", Status: "200-299"}); f.Check != want {
		t.Errorf("checks are %+v, want %+v", f.Check, want)
	}
	if is, want := fmt.Sprint(f.Services), "[{192.0.2.10 {80 80} [{one 10.0.0.1 180 5 false invalid IP} {two 10.0.0.2 180 10 true invalid IP} {two-b 10.0.0.3 180 0 false invalid IP}]} "+
		"{192.0.2.11 {81 81} [{one 10.0.0.1 181 5 false invalid IP} {two 10.0.0.2 181 10 true invalid IP} {two-b 10.0.0.3 181 0 false invalid IP}]} "+
		"{192.0.2.10 {8000 8003} [{one 10.0.0.1 8100 5 false invalid IP} {two 10.0.0.2 8100 10 true invalid IP} {two-b 10.0.0.3 8100 0 false invalid IP}]}]"; is != want {
		t.Errorf("services are\n%s, want\n%s", is, want)
	}
	if is := fmt.Sprint(f.Notes); is != "[0.cfg:3: maxconn: connections of the fast path do not count for the limits of the process 0.cfg:8: log: connections are not logged 0.cfg:17: option tcplog: connections are not logged]" {
		t.Errorf("notes are %s", is)
	}
	if is := fmt.Sprintf("%v %s %s %v", all[1].Services, all[1].Check.Type, all[1].Balance, all[1].Agents); is !=
		"[{2001:db8::10 {443 443} [{a 2001:db8:1::1 8443 10 false invalid IP} {b 2001:db8:1::2 8443 10 false invalid IP}]}] NONE ROUND_ROBIN {0 0s}" {
		t.Errorf("the listen section is %s", is)
	}
}

// proxy is a configuration with a frontend and a backend, with some lines more.
func proxy(front, back string) string {
	return "defaults\n timeout connect 1s\n timeout client 1s\n timeout server 1s\nfrontend f\n bind 192.0.2.1:80\n default_backend b\n " +
		front + "\nbackend b\n server s 10.0.0.1:80\n " + back + "\n"
}

const inFront, inBack = 8, 11 // the lines that proxy adds

// TestEachReasonIsSaidWithItsLine: those of the list that every takeover has to respect, and many more.
func TestEachReasonIsSaidWithItsLine(t *testing.T) {
	for _, tt := range []struct {
		front, back string
		at          int
		want        string
	}{
		{"acl a src 10.0.0.1", "", inFront, "acl: conditions"},
		{"use_backend b if { src 10.0.0.1 }", "", inFront, "use_backend: "},
		{"tcp-request connection accept", "", inFront, "tcp-request: "},
		{"", "tcp-request content accept", inBack, "tcp-request: "},
		{"", "tcp-response content accept", inBack, "tcp-response: "},
		{"", "server p 10.0.0.2:80 send-proxy", inBack, "send-proxy: the server expects"},
		{"", "server p 10.0.0.2:80 send-proxy-v2", inBack, "send-proxy-v2: "},
		{"", "server p 10.0.0.2:80 ssl verify none", inBack, "ssl: HAProxy speaks TLS"},
		{"", "stick on src table b\n stick-table type ip size 10", inBack, "stick: "},
		{"stick-table type ip size 10", "", inFront, "stick-table: "},
		{"maxconn 10", "", inFront, "maxconn: "},
		{"", "server p 10.0.0.2:80 maxconn 5", inBack, "maxconn: "},
		{"", "source 10.0.0.9", inBack, "source: "},
		{"", "server p 10.0.0.2:80 source 10.0.0.9", inBack, "source: "},
		{"bind 192.0.2.1:81 accept-proxy", "", inFront, "bind: accept-proxy: "},
		{"bind 192.0.2.1:81 maxconn 3", "", inFront, "bind: maxconn: "},
		{"bind :81", "", inFront, `bind: ":81" is every address`},
		{"bind *:81", "", inFront, `bind: "*:81" is every address`},
		{"bind 0.0.0.0:81", "", inFront, "is every address"},
		{"bind /tmp/x.sock", "", inFront, "UNIX socket"},
		{"bind abns@x", "", inFront, `"abns@" is not a TCP address`},
		{"bind localhost:81", "", inFront, `"localhost" is not an IP address`},
		{"bind [2001:db8::1]:80", "", 10, "has the other IP version"},
		{"bind 192.0.2.1:81-83", "", 10, "all ports from 81 to 83 map to one port"},
		{`bind "192.0.2.1:$PORT"81`, "", inFront, "depends on an environment variable"},
		{"mode http", "mode http", inFront, "mode http: f needs mode tcp"},
		{"default_backend none", "", inFront, ""},
		{"compression algo gzip", "", inFront, "compression: "},
		{"", "compression algo gzip", inBack, "compression: "},
		{"", "http-check comment x", inBack, "http-check comment"},
		{"", "stick-table type ip size 10", inBack, "stick-table: "},
		{"", "use-server s if { src 10.0.0.1 }", inBack, "use-server: "},
		{"", "server p 10.0.0.2:80 check-ssl verify none", inBack, "check-ssl: "},
		{"", "server p 10.0.0.2:80 resolvers r init-addr none\nresolvers r", inBack, "resolvers: "},
		{"", "server p [2001:db8::2]:80", inBack, "has the other IP version"},
		{"filter trace", "", inFront, "filter: "},
		{"rate-limit sessions 5", "", inFront, "rate-limit: "},
		{"", "balance source", inBack, "balance source: "},
		{"", "balance hdr(host)", inBack, "balance hdr(host): "},
		{"", "dispatch 10.0.0.3:80", inBack, "dispatch: "},
		{"", "option mysql-check", inBack, "option mysql-check: checks of this type"},
		{"", "option httpchk PATCH /", inBack, "option httpchk: method PATCH"},
		{"", "option httpchk GET / HTTP/1.1\\r\\nHost:\\ a", inBack, "headers after the version"},
		{"", "option httpchk\n http-check expect string ok", inBack + 1, "http-check expect: only an expected status"},
		{"", "option httpchk\n http-check expect status 200\n http-check expect status 200", inBack + 2, "a second one"},
		{"", "option httpchk GET /\n http-check send meth GET uri /", inBack + 1, "a second one"},
		{"", "option tcp-check\n tcp-check connect", inBack + 1, "tcp-check: "},
		{"", "server p 10.0.0.2:80 backup", inBack, "backup: "},
		{"", "server p 10.0.0.2:80 check", inBack, "its health check differs from that of server s"},
		{"", "server p 10.0.0.2:80 agent-check agent-port 99", inBack, "its agent check differs"},
		{"", "server p localhost:80", inBack, `server p: "localhost" is not an IP address`},
		{"", "server p 127.0.0.1:80", inBack, "a loopback or multicast address"},
		{"", "server p 10.0.0.1:80", inBack, "the same address and port"},
		{"", "server p 192.0.2.1:80", inBack, "its address is that of the frontend"},
		{"", "server p 10.0.0.2:+65500", inBack, "is out of range"},
		{"", "server p 10.0.0.2:80 slowstart 5s", inBack, "slowstart: "},
		{"", "server q 10.0.0.3:80 check\n server p 10.0.0.2:80 track q", inBack + 1, "track: "},
		{"", "server-template t 3 localhost:80", inBack, "server-template: "},
		{"", "default-server send-proxy\n server p 10.0.0.2:80", inBack, "send-proxy: "},
		{"", "disabled", inBack, "disabled: b is not in use"},
	} {
		text := proxy(tt.front, tt.back)
		if tt.want != "" && !strings.Contains(tt.front+tt.back, "65500") && !strings.Contains(tt.front, "accept-proxy") {
			valid(t, text)
		}
		c, err := Parse(File{"x", []byte(text)})
		if err != nil {
			t.Errorf("%s%s: %v", tt.front, tt.back, err)
			continue
		}
		f := result(t, c)[0]
		found := false
		for _, r := range f.Reasons {
			found = found || r.Line == tt.at && r.File == "x" && strings.Contains(r.Text, tt.want)
		}
		if !found {
			t.Errorf("%s%s: reasons are %q, want one at line %d: %s", tt.front, tt.back, f.Reasons, tt.at, tt.want)
		}
	}
}

// TestHarmlessLines prevent nothing, and effects that are lost are notes.
func TestHarmlessLines(t *testing.T) {
	for _, tt := range []struct{ front, back, notes string }{
		{"", "", "[]"},
		{"option dontlognull\n option nolinger\n id 7\n backlog 100", "option redispatch\n retries 2\n hash-type consistent\n fullconn 100", "[]"},
		{"option clitcpka\n no option clitcpka", "", "[]"},
		{"option forwardfor\n http-request deny", "cookie x insert", "[]"},
		{"", "default-server send-proxy\n server p 10.0.0.2:80 no-send-proxy", "[]"},
		{"", "option mysql-check\n option tcp-check", "[]"},
		{"disabled\n enabled", "", "[]"},
		{"", "balance source\n balance static-rr", "[]"},
		{"", "server p 10.0.0.2:80 fastinter 1s tfo on-marked-down shutdown-sessions", "[x:11: fastinter: checks use a single interval]"},
		{"option clitcpka", "", "[x:8: option clitcpka: no keep-alive packets are sent]"},
	} {
		text := proxy(tt.front, tt.back)
		valid(t, text)
		c, err := Parse(File{"x", []byte(text)})
		if err != nil {
			t.Fatal(err)
		}
		f := result(t, c)[0]
		if is := fmt.Sprint(f.Notes); len(f.Reasons) > 0 || is != tt.notes {
			t.Errorf("%s | %s: %v, notes %s, want %s", tt.front, tt.back, f.Reasons, is, tt.notes)
		}
	}
}

func TestWhatServersAndAgentsAre(t *testing.T) {
	f := analyse(t, `defaults
	timeout connect 1s
	timeout client 4s
	timeout server 3s
	timeout tunnel 1h
frontend f
	bind 192.0.2.1:80
	default_backend b
backend b
	default-server check port 99 inter 1m agent-check agent-port 9707 agent-inter 10s
	option httpchk
	http-check send meth HEAD uri /x hdr Host shop.example
	server s 10.0.0.1
	server p 10.0.0.2 agent-addr 10.9.0.2
`)[0]
	if len(f.Reasons) > 0 {
		t.Fatal(f.Reasons)
	}
	if want := (Check{Type: "HTTP", Interval: time.Minute, Rise: 2, Fall: 3, Port: 99, Method: "HEAD", Path: "/x", Host: "shop.example", Status: "200-399"}); f.Check != want {
		t.Errorf("%+v", f.Check)
	}
	if f.Agents != (Agents{9707, 10 * time.Second}) || f.Idle != time.Hour || f.Services[0].Servers[0].Port != 80 || f.Services[0].Servers[1].Agent.String() != "10.9.0.2" {
		t.Errorf("%+v", f)
	}
}

func TestSeveralFilesAndInheritance(t *testing.T) {
	all := analyse(t, "defaults a\n timeout connect 1s\n timeout client 1s\n timeout server 1s\n maxconn 5\n",
		"frontend f\n bind 192.0.2.1:80\n default_backend b\nbackend b\n server s 10.0.0.1:80\nfrontend g\n bind 192.0.2.1:81\n default_backend l\nlisten l\n bind 192.0.2.2:80\n server s 10.0.0.1:80\n")
	for _, f := range all {
		if is := fmt.Sprint(f.Reasons); is != "[0.cfg:5: maxconn: the number of connections is limited]" {
			t.Errorf("%s: %s", f.Name, is)
		}
	}
	if len(all) != 3 || all[1].Backend != "l" {
		t.Errorf("%+v", all)
	}
}

func TestAddressesThatOverlap(t *testing.T) {
	c, err := Parse(File{"x", []byte("listen a\n bind 192.0.2.1:80-90\n server s 10.0.0.1\nlisten b\n bind 192.0.2.1:85\n server s 10.0.0.1\nlisten c\n bind 192.0.2.1:91\n server s 10.0.0.1\n")})
	if err != nil {
		t.Fatal(err)
	}
	all := result(t, c)
	if is := fmt.Sprint(all[0].Reasons, all[1].Reasons, all[2].Reasons); is != "[x:1: a binds port 85 of 192.0.2.1, and so does b] [x:4: b binds port 85 of 192.0.2.1, and so does a] []" {
		t.Error(is)
	}
}

func TestConditionsPreventEverything(t *testing.T) {
	f := analyse(t, ".if defined(X)\n.else\n.endif\n"+proxy("", ""))[0]
	if len(f.Reasons) != 3 || f.Reasons[0].Line != 1 || !strings.Contains(f.Reasons[0].Text, "conditional blocks") {
		t.Error(f.Reasons)
	}
}

func TestConfigurationsThatAreNone(t *testing.T) {
	for text, want := range map[string]string{
		"bind :80\n":               `x:1: "bind" is not in any section`,
		"frontend\n":               "x:1: frontend needs a name",
		"frontend a b\n":           "only `from` and the name",
		"frontend a from b\n":      `no defaults section "b" precedes`,
		"frontend a/b\n":           "only letters, digits",
		"frontend a\nlisten a\n":   `x:2: listen "a" has the name of another proxy`,
		"defaults a\ndefaults a\n": `x:2: defaults "a" is defined twice`,
		"defaults a\nfrontend f from a\nfrontend g\n":  "both by name and implicitly: HAProxy refuses",
		"defaults\n server s 10.0.0.1\n":               "server is not allowed in defaults",
		"global\n a 'b\n":                              "x:2: the quote ' is not closed",
		"global\n a \"b\n":                             `the quote " is not closed`,
		"global\n a b\\\n":                             "ends with a backslash",
		"global\n \\x4\n":                              "two hexadecimal digits",
		"global\n \\x00\n":                             "two hexadecimal digits",
		"global\n a\x00b\n":                            "NUL",
		"global\n " + strings.Repeat("a ", 65) + "\n":  "more than 64 words",
		"global\n " + strings.Repeat("a", 2100) + "\n": "longer than 2047 bytes",
		".unless x\n":                                  "unknown directive",
		".alert no\n":                                  "refuses this",
		"global\n no\n":                                "no needs a keyword",
		"frontend \"$X\"\n":                            "depends on an environment variable",
	} {
		if _, err := Parse(File{"x", []byte(text)}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	if _, err := Parse(File{"x", make([]byte, maxFile+1)}); err == nil {
		t.Error("a large file is read")
	}
}

// TestConfigurationsThatMultiply end soon, whatever they multiply.
func TestConfigurationsThatMultiply(t *testing.T) {
	listens := func(n int) string {
		var all strings.Builder
		for i := range n {
			fmt.Fprintf(&all, "listen l%d\n", i)
		}
		return all.String()
	}
	chain := "defaults d0\n"
	for i := range 20 {
		chain += fmt.Sprintf("defaults d%d from d%d\n", i+1, i)
	}
	for name, text := range map[string]string{
		"lines of defaults": "defaults\n" + strings.Repeat("x\n", 100000) + listens(10000),
		"conditions":        strings.Repeat(".if\n", 100000) + listens(10000),
		"chain":             chain,
		"servers": "listen l\n" + strings.Repeat(" bind 192.0.2.1:1"+strings.Repeat(",192.0.2.1:1", 150)+"\n", 1000) +
			strings.Repeat(" server s 10.0.0.1:1\n", 10000),
		"reasons of a backend": "backend b\n" + strings.Repeat(" x\n", 10000) + strings.ReplaceAll(listens(10000), "listen", "default_backend b\nfrontend"),
	} {
		start := time.Now()
		c, err := Parse(File{"x", []byte(text)})
		if err == nil {
			_, err = c.Analyse()
		}
		if err == nil || time.Since(start) > pace.Stretch(20*time.Second) {
			t.Errorf("%s: %v after %v", name, err, time.Since(start))
		}
	}
}

func TestWords(t *testing.T) {
	for line, want := range map[string]string{
		`a  b	c # d`:          `[{a false} {b false} {c false}]`,
		`a#b`:                 `[{a false}]`,
		`a\ b \# \x41 \\ \q`:  `[{a b false} {# false} {A false} {\ false} {\q false}]`,
		`'a "b $c \n'`:        `[{a "b $c \n false}]`,
		`"a 'b \" \\ \n" ''`:  `[{a 'b " \ \n false} { false}]`,
		`"a $b" "\$b" $b`:     `[{a $b true} {$b false} {$b false}]`,
		`a"b c"'d e'f`:        `[{ab cd ef false}]`,
		"a\r":                 `[{a false}]`,
		"   # only a comment": `[]`,
	} {
		words, err := split(line)
		if is := fmt.Sprint(words); err != nil || is != want {
			t.Errorf("%s: %s, %v, want %s", line, is, err, want)
		}
	}
}

// FuzzParse: whatever a file has, the analysis ends, says printable reasons with lines of the file, and never takes over a frontend
// without an address, a backend, and servers that have addresses of its family.
func FuzzParse(f *testing.F) {
	f.Add(proxy("option tcplog", "balance leastconn"))
	f.Add(proxy("bind 192.0.2.1:80-99,:1", "option httpchk GET /\n http-check expect status 200"))
	f.Add("defaults a\n mode tcp\ndefaults b from a\nlisten l from b\n bind [::1]:1\n server \"x y\" ::2:+4 no-check weight 3 # z\n.if x\n.endif\n")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := Parse(File{"x", []byte(text)})
		if err != nil {
			if strings.ContainsFunc(err.Error(), func(r rune) bool { return r < ' ' || r > '~' }) {
				t.Errorf("the error is %q", err)
			}
			return
		}
		lines := strings.Count(text, "\n") + 1
		for _, f := range result(t, c) {
			for _, r := range append(f.Reasons, f.Notes...) {
				if r.Line < 1 || r.Line > lines || strings.ContainsFunc(r.Text, func(r rune) bool { return r < ' ' || r > '~' }) {
					t.Errorf("the reason is %q", r)
				}
			}
			if len(f.Reasons) > 0 {
				continue
			}
			if f.Backend == "" || len(f.Services) == 0 || f.Balance == "" || f.Check.Type == "" {
				t.Errorf("%+v", f)
			}
			for _, s := range f.Services {
				if !s.VIP.IsValid() || s.VIP.IsUnspecified() || s.Ports.First == 0 || s.Ports.Last < s.Ports.First {
					t.Errorf("%+v", s)
				}
				for _, b := range s.Servers {
					if b.Addr.Is4() != s.VIP.Is4() || b.Port == 0 || b.Weight < 0 || b.Weight > 256 {
						t.Errorf("%+v", b)
					}
				}
			}
		}
	})
}
