// SPDX-License-Identifier: Apache-2.0

// Completion as a person meets it: a real, interactive shell on a terminal, keys
// typed one after the other, and in the end the request that the line became.

package cli

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/test/pace"
)

// terminal is a shell on a pseudo terminal.
type terminal struct {
	t      *testing.T
	master *os.File
	mu     sync.Mutex
	shown  bytes.Buffer
	came   chan struct{}
}

const prompt = "READY> "

var shellPatience = pace.Stretch(20 * time.Second)

// openTerminal makes a pseudo terminal of 200 columns.
func openTerminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no pseudo terminals here: %v", err)
	}
	t.Cleanup(func() { master.Close() })
	fd := int(master.Fd())
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 200})
	}
	if err != nil {
		t.Skipf("no pseudo terminals here: %v", err)
	}
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no pseudo terminals here: %v", err)
	}
	t.Cleanup(func() { slave.Close() })
	return master, slave
}

// startShell runs an interactive shell that has the completion script.
func startShell(t *testing.T, d *daemon, shell string, args ...string) *terminal {
	t.Helper()
	path, err := exec.LookPath(shell)
	if err != nil {
		t.Skipf("%s is not installed", shell)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	// The test binary stands in for the program: see TestMain.
	if err := os.Symlink(self, filepath.Join(bin, "polycubectl")); err != nil {
		t.Fatal(err)
	}
	master, slave := openTerminal(t)
	cmd := exec.Command(path, args...)
	cmd.Dir = t.TempDir()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	cmd.Env = []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "TERM=dumb", "PS1=" + prompt, actAsProgram + "=1", noSleepAtExit,
		"GOCOVERDIR=" + t.TempDir(), "LC_ALL=C.UTF-8"}
	for k, v := range d.env {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	term := &terminal{t: t, master: master, came: make(chan struct{}, 1)}
	go term.read()
	t.Cleanup(func() {
		// Its group, so that nothing it started stays.
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
	})
	return term
}

func (p *terminal) read() {
	buf := make([]byte, 4096)
	for {
		n, err := p.master.Read(buf)
		p.mu.Lock()
		p.shown.Write(buf[:n])
		p.mu.Unlock()
		select {
		case p.came <- struct{}{}:
		default:
		}
		if err != nil {
			return
		}
	}
}

func (p *terminal) keys(keys string) {
	p.t.Helper()
	if _, err := p.master.WriteString(keys); err != nil {
		p.t.Fatal(err)
	}
}

// await waits until the terminal shows a text, and forgets what came up to there.
func (p *terminal) await(text string) {
	p.t.Helper()
	p.until(func(shown string) bool {
		at := strings.Index(shown, text)
		if at < 0 {
			return false
		}
		p.shown.Next(at + len(text))
		return true
	}, text)
}

// until waits until done; what the terminal shows is passed to it.
func (p *terminal) until(done func(shown string) bool, what string) {
	p.t.Helper()
	deadline := time.After(shellPatience)
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		p.mu.Lock()
		shown := p.shown.String()
		ok := done(shown)
		p.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-p.came:
		case <-again.C:
		case <-deadline:
			p.t.Fatalf("the terminal shows %q, and not %q", shown, what)
		}
	}
}

// completed types lines, in which a tab completes, and compares what they became.
func (p *terminal) completed(d *daemon, tests []promptTest) {
	p.t.Helper()
	for _, tt := range tests {
		before := len(commandsOf(d))
		p.keys(tt.keys + "\n")
		var all []exchange
		p.until(func(string) bool {
			all = commandsOf(d)
			return len(all) > before
		}, "a command of "+tt.keys)
		if got := all[len(all)-1].String(); got != tt.want {
			p.t.Errorf("%s: %q became %q, want %q", tt.name, tt.keys, got, tt.want)
		}
	}
}

// commandsOf are the requests that are not completion's.
func commandsOf(d *daemon) []exchange {
	return slices.DeleteFunc(d.requests(), func(e exchange) bool { return e.method == "OPTIONS" })
}

type promptTest struct{ name, keys, want string }

// promptTests are what all shells can.
var promptTests = []promptTest{
	{"a word, then a value after =", "polycubectl r1 set lo\td\t", `PATCH /polycube/v1/r1/loglevel/ "debug"`},
	{"a word with a colon", "polycubectl connect r1:p1 r1:\t", `POST /polycube/v1/connect/ {"peer1":"r1:p1","peer2":"r1:p2"}`},
	{"a key with a slash", "polycubectl r1 route del 1\t", `DELETE /polycube/v1/r1/route/10.0.0.0%2F8/ `},
	{"a key with a blank", "polycubectl r1 route del a\t", `DELETE /polycube/v1/r1/route/a%20b/ `},
	{"a flag", "polycubectl r1 route del --\t", `DELETE /polycube/v1/r1/route/?all `},
	{"a key=value, then the next", "polycubectl r1 ports add p1 p\tveth1 i\t10.0.0.1/24", `POST /polycube/v1/r1/ports/p1/ {"peer":"veth1","ip":"10.0.0.1/24"}`},
	{"a member of a container, and its second value", "polycubectl r1 ports add p2 trunk.a\t10,2\t", `POST /polycube/v1/r1/ports/p2/ {"trunk":{"allowed":"10,20"}}`},
	{"an option of a command", "polycubectl attach n1 r1:p1 pos\tf\t", `POST /polycube/v1/attach/ {"cube":"n1","port":"r1:p1","position":"first"}`},
}

func TestAtAPromptOfBashTabCompletes(t *testing.T) {
	d := completing(t)
	rc := filepath.Join(t.TempDir(), "rc")
	setUp := "PS1='" + prompt + "'\nbind 'set bell-style none'\nbind 'set enable-bracketed-paste off'\nunset HISTFILE\nsource <(polycubectl completion bash)\n"
	if err := os.WriteFile(rc, []byte(setUp), 0o600); err != nil {
		t.Fatal(err)
	}
	shell := startShell(t, d, "bash", "--noprofile", "--rcfile", rc, "-i")
	shell.await(prompt)
	shell.completed(d, append([]promptTest{
		{"a key that a shell would run", "polycubectl r1 route del \\$\t", `DELETE /polycube/v1/r1/route/$%28reboot%29/ `},
		{"words from the first on", "polycubectl rou\tad\tr2", `POST /polycube/v1/router/r2/ {}`},
		{"a placeholder stays out", "polycubectl r1 ports add \tp9", `POST /polycube/v1/r1/ports/p9/ {}`},
	}, promptTests...))
}

func TestAtAPromptOfZshTabCompletes(t *testing.T) {
	d := completing(t)
	shell := startShell(t, d, "zsh", "-f", "-i")
	shell.keys("unsetopt zle_bracketed_paste prompt_sp; unset zle_bracketed_paste; PS1='READY''> '; autoload -Uz compinit; compinit -u -D; " +
		"source <(polycubectl completion zsh)\n")
	shell.await("\n")
	shell.await(prompt)
	shell.completed(d, promptTests)
}

func TestFishIsOfferedTheSame(t *testing.T) {
	fish, err := exec.LookPath("fish")
	if err != nil {
		t.Skip("fish is not installed")
	}
	d := completing(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	if err := os.Symlink(self, filepath.Join(bin, "polycubectl")); err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{
		"polycubectl r1 set lo":                          "loglevel=\n",
		"polycubectl r1 set loglevel=d":                  "loglevel=debug\n",
		"polycubectl connect r1:p1 r1:":                  "r1:p2\n",
		"polycubectl r1 route del a":                     "a b\n",
		"polycubectl r1 route del --":                    "--all\n",
		"polycubectl r1 ports add p2 trunk.allowed=10,2": "trunk.allowed=10,20\n",
		"polycubectl r1 ports add ":                      "",
		"polycubectl attach n1 r1:p1 pos":                "position=\n",
	} {
		cmd := exec.Command(fish, "--no-config", "-c", "polycubectl completion fish | source; complete -C "+"'"+line+"'")
		cmd.Env = []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "HOME=" + t.TempDir(), actAsProgram + "=1", noSleepAtExit, "GOCOVERDIR=" + t.TempDir(), "LC_ALL=C.UTF-8"}
		for k, v := range d.env {
			cmd.Env = append(cmd.Env, k+"="+v)
		}
		out, err := cmd.CombinedOutput()
		if err != nil || string(out) != want {
			t.Errorf("%q: %v, offers %q, want %q", line, err, out, want)
		}
	}
}
