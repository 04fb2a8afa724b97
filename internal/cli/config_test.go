// SPDX-License-Identifier: Apache-2.0

// Settings from file, environment and command line, and where they lead.

package cli

import (
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// withHome is an environment whose home holds a configuration file.
func withHome(t *testing.T, content string, env map[string]string) func(string) string {
	t.Helper()
	all := map[string]string{"HOME": t.TempDir()}
	for k, v := range env {
		all[k] = v
	}
	getenv := func(k string) string { return all[k] }
	path := configPath(getenv)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return getenv
}

func TestSettingsLeadToAPlace(t *testing.T) {
	const standard = "socket /run/polycube/polycubed.sock"
	tests := []struct {
		name, file string
		env        map[string]string
		instance   string
		want       string
	}{
		{"nothing set", "", nil, "", standard},
		{"comments only", configTemplate, nil, "", standard},
		{"an instance in the file", "instance: a", nil, "", "socket /run/polycube/a/polycubed.sock"},
		{"a socket in the file", "socket: /s.sock\ninstance: a", nil, "", "socket /s.sock"},
		{"a URL in the file", "url: http://localhost:9000/polycube/v1/", nil, "", "http://localhost:9000/polycube/v1/"},
		{"an empty URL in the file", "url:\n", nil, "", standard},
		{"a URL wins over an instance beside it", "url: http://a:1/x\ninstance: b", nil, "", "http://a:1/x/"},
		{"an instance in the environment wins over a URL in the file", "url: http://a:1/", map[string]string{"POLYCUBECTL_INSTANCE": "b"}, "", "socket /run/polycube/b/polycubed.sock"},
		{"a socket in the environment wins over an instance there", "", map[string]string{"POLYCUBECTL_INSTANCE": "b", "POLYCUBECTL_SOCKET": "/x.sock"}, "", "socket /x.sock"},
		{"a URL in the environment", "instance: a", map[string]string{"POLYCUBECTL_URL": "http://[::1]:9000"}, "", "http://[::1]:9000/polycube/v1/"},
		{"the command line wins over all", "url: http://a:1/", map[string]string{"POLYCUBECTL_URL": "http://b:1", "POLYCUBECTL_SOCKET": "/x.sock"}, "c", "socket /run/polycube/c/polycubed.sock"},
		{"a socket as URL", "", map[string]string{"POLYCUBECTL_URL": "unix:///tmp/a b.sock"}, "", "socket /tmp/a b.sock"},
		{"a URL without a path", "url: http://h", nil, "", "http://h/polycube/v1/"},
		{"a URL without the last slash", "url: http://h/p", nil, "", "http://h/p/"},
		{"keys in any case", "URL: http://h/p", nil, "", "http://h/p/"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, err := loadConfig(withHome(t, tt.file, tt.env), tt.instance)
			if err != nil {
				t.Fatal(err)
			}
			e, err := c.endpoint()
			if err != nil || e.String() != tt.want {
				t.Errorf("%s, %v; want %s", e, err, tt.want)
			}
		})
	}
}

func TestEverySettingHasAnEffect(t *testing.T) {
	c, err := loadConfig(withHome(t, "debug: true\nexpert: false\nsingleparameterworkaround: false\ntimeout: 5s\nlogfile: /l\ntokenfile: /t\ncacert: /a\ncert: /c\nkey: /k\n",
		map[string]string{"POLYCUBECTL_EXPERT": "true", "POLYCUBECTL_CERT": "/c2"}), "")
	if err != nil {
		t.Fatal(err)
	}
	if !c.debug || !c.expert || c.singleParam || c.timeout.Seconds() != 5 || c.logFile != "/l" || c.tokenFile != "/t" ||
		c.cacert != "/a" || c.cert != "/c2" || c.key != "/k" || len(c.warnings) != 0 {
		t.Errorf("%+v", c)
	}
}

func TestEveryKeyOfTheFileCanComeFromTheEnvironment(t *testing.T) {
	env := map[string]string{
		"POLYCUBECTL_TOKENFILE": "/t", "POLYCUBECTL_LOGFILE": "/l", "POLYCUBECTL_SINGLEPARAMETERWORKAROUND": "false",
	}
	c := defaultConfig()
	if err := c.applyEnv(func(name string) string { return env[name] }); err != nil {
		t.Fatal(err)
	}
	if c.tokenFile != "/t" || c.logFile != "/l" || c.singleParam {
		t.Errorf("the environment gave %+v", c)
	}
}

func TestAWrongSettingIsNamed(t *testing.T) {
	dir := t.TempDir()
	blank := filepath.Join(dir, "blank")
	if err := os.WriteFile(blank, []byte(" \n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, file string
		env        map[string]string
		want       string
	}{
		{"not YAML", "a: [", nil, "polycubectl_config.yaml"},
		{"a list", "url: [a]", nil, "expected one value"},
		{"not a boolean", "debug: maybe", nil, `debug: "maybe" is not valid`},
		{"not a boolean in the environment", "", map[string]string{"POLYCUBECTL_EXPERT": "x"}, "POLYCUBECTL_EXPERT"},
		{"not a time", "timeout: soon", nil, "timeout"},
		{"no time", "timeout: 0s", nil, "positive"},
		{"an instance that is a path", "instance: ../a", nil, "not the name of an instance"},
		{"an instance that is a path, in the environment", "", map[string]string{"POLYCUBECTL_INSTANCE": "a/b"}, "not the name of an instance"},
		{"another scheme", "url: ftp://h", nil, "http, https or unix"},
		{"no host", "url: http:///p", nil, "host is missing"},
		{"not a URL", "url: 'http://['", nil, "url"},
		{"a user in the URL", "url: http://u:p@h", nil, "user, query and fragment"},
		{"a query in the URL", "url: http://h/?a", nil, "user, query and fragment are not accepted"},
		{"a relative socket", "url: unix:x.sock", nil, "unix:///path"},
		{"https without an authority", "url: https://h", nil, "https requires cacert"},
		{"cert without key", "url: https://h\ncacert: /a\ncert: /c", nil, "set together"},
		{"key without cert", "url: https://h\ncacert: /a\nkey: /c", nil, "set together"},
		{"no such authority", "url: https://h\ncacert: " + dir + "/none", nil, "cacert"},
		{"an authority that is none", "url: https://h\ncacert: " + blank, nil, "no PEM certificate"},
		{"no such token", "url: http://localhost\ntokenfile: " + dir + "/none", nil, "tokenfile"},
		{"a token in the file", "token: abc", nil, "tokenfile"},
		{"an empty token", "url: http://localhost\ntokenfile: " + blank, nil, "is empty"},
		{"a token of two lines", "url: http://localhost", map[string]string{"POLYCUBECTL_TOKEN": "a\r\nX: y"}, "does not contain a token"},
		{"a token in clear text to elsewhere", "url: http://192.0.2.1", map[string]string{"POLYCUBECTL_TOKEN": "a"}, "clear text"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := runWith(withHome(t, tt.file, tt.env), nil, "show", "r1")
			if r.code != ExitContact || r.out != "" || !strings.Contains(r.err, tt.want) {
				t.Errorf("exit %d, stdout %q, stderr %q", r.code, r.out, r.err)
			}
		})
	}
}

func TestAnUnknownSettingIsAWarning(t *testing.T) {
	d := newDaemon(t, "unix", reply(200, "1"))
	getenv := withHome(t, "colour: red", d.envWithoutHome())
	if r := runWith(getenv, nil, "show", "r1"); r.code != ExitOK || r.out != "1\n" || !strings.Contains(r.err, `unknown key "colour"`) {
		t.Errorf("exit %d, stdout %q, stderr %q", r.code, r.out, r.err)
	}
}

func (d *daemon) envWithoutHome() map[string]string {
	env := map[string]string{}
	for k, v := range d.env {
		if k != "HOME" {
			env[k] = v
		}
	}
	return env
}

func TestTheFileIsCreatedOnTheFirstRunAndNeverAnError(t *testing.T) {
	d := newDaemon(t, "unix", reply(200, "1"))
	if r := d.run("show", "r1"); r.code != ExitOK {
		t.Fatalf("exit %d, stderr %q", r.code, r.err)
	}
	path := configPath(d.getenv)
	content, err := os.ReadFile(path)
	if err != nil || string(content) != configTemplate {
		t.Errorf("%q, %v", content, err)
	}
	if err := os.WriteFile(path, []byte("expert: false\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	d.run("show", "r1")
	if content, _ := os.ReadFile(path); string(content) != "expert: false\n" {
		t.Error("the file of the user was overwritten")
	}
	for _, home := range []string{"", "relative", "/nonexistent", "/dev/null", "/proc/1"} {
		d.env["HOME"] = home
		if r := d.run("show", "r1"); r.code != ExitOK || r.err != "" {
			t.Errorf("HOME=%q: exit %d, stderr %q", home, r.code, r.err)
		}
	}
	if _, err := os.Stat("relative"); err == nil {
		t.Error("a relative HOME was created")
	}
}

func TestTheHomeOfAnotherUserIsLeftAlone(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to give a folder to another user")
	}
	d := newDaemon(t, "unix", reply(200, "1"))
	if err := os.Chown(d.env["HOME"], 65534, 65534); err != nil {
		t.Fatal(err)
	}
	if r := d.run("show", "r1"); r.code != ExitOK {
		t.Fatalf("exit %d, stderr %q", r.code, r.err)
	}
	if entries, _ := os.ReadDir(d.env["HOME"]); len(entries) != 0 {
		t.Errorf("created %v", entries)
	}
}

func TestALogIsWrittenOnlyWhereTheUserSaysSo(t *testing.T) {
	d := newDaemon(t, "unix", reply(404, "nothing there"))
	path := filepath.Join(t.TempDir(), "log")
	getenv := withHome(t, "logfile: "+path, d.envWithoutHome())
	if r := runWith(getenv, nil, "show", "r1"); r.code != ExitServer {
		t.Fatalf("exit %d, stderr %q", r.code, r.err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var entry struct {
		Args   []string
		Method string
		Target string
		Status int
		Exit   int
	}
	if err := json.Unmarshal(content, &entry); err != nil {
		t.Fatal(err)
	}
	if entry.Method != "GET" || entry.Target != "r1/" || entry.Status != 404 || entry.Exit != int(ExitServer) || len(entry.Args) != 2 {
		t.Errorf("%+v", entry)
	}
	getenv = withHome(t, "logfile: /nonexistent/log", d.envWithoutHome())
	if r := runWith(getenv, nil, "show", "r1"); r.code != ExitServer || !strings.Contains(r.err, "warning: logfile") {
		t.Errorf("exit %d, stderr %q", r.code, r.err)
	}
}

func TestTLSNeedsTheRightAuthority(t *testing.T) {
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte(`"` + r.Header.Get("Authorization") + `"`))
	}))
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.StartTLS()
	defer srv.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	block := &pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw}
	if err := os.WriteFile(ca, pem.EncodeToMemory(block), 0o600); err != nil {
		t.Fatal(err)
	}
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"POLYCUBECTL_URL": srv.URL}
	file := "cacert: " + ca + "\ntokenfile: " + token + "\n"
	if r := runWith(withHome(t, file, env), nil, "show", "r1"); r.code != ExitOK || r.out != "Bearer s3cret\n" {
		t.Errorf("exit %d, stdout %q, stderr %q", r.code, r.out, r.err)
	}
	env["POLYCUBECTL_URL"] = strings.Replace(srv.URL, "127.0.0.1", "localhost", 1)
	if r := runWith(withHome(t, file, env), nil, "show", "r1"); r.code != ExitContact || !strings.Contains(r.err, "certificate") {
		t.Errorf("for another name: exit %d, stdout %q, stderr %q", r.code, r.out, r.err)
	}
}
