// SPDX-License-Identifier: Apache-2.0

package confine

// How a service starts, is bounded and ends: nothing of it is left, whichever way it went.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/output"
)

func TestLimitsHold(t *testing.T) {
	t.Parallel()
	_, executable := place(t)
	for _, tt := range []struct {
		words  string
		limits Limits
		says   string
	}{
		{"forks", Limits{Processes: 40}, `refused:.*(resource temporarily unavailable)`},
		{"memory", Limits{Memory: 256 << 20}, `out of memory|cannot allocate memory|ended by signal 9|SIGSEGV: segmentation violation[\s\S]*runtime\.`},
		{"files", Limits{Files: 64}, `files: 5\d"[\s\S]*too many open files`},
		{"large", Limits{}, `refused:.*(file too large|no space left)`},
	} {
		t.Run(tt.words, func(t *testing.T) {
			t.Parallel()
			p := start(t, Config{Path: executable, Limits: tt.limits}, tt.words)
			said := p.ends(t) + fmt.Sprint(p.Err())
			if !regexp.MustCompile(tt.says).MatchString(said) {
				t.Errorf("got %.2000s, want %s", said, tt.says)
			}
		})
	}
}

func TestTheEndIsToldWithItsReason(t *testing.T) {
	t.Parallel()
	_, executable := place(t)
	for _, tt := range []struct{ words, says string }{
		{"print one", "exited with status 0: done"},
		{"read /nothing", "exited with status 2: refused: open /nothing: no such file or directory"},
		{"nonsense", "exited with status 3: no such deed"},
		{"crash", "exited with status 2: panic: runtime error: invalid memory address"},
	} {
		t.Run(tt.words, func(t *testing.T) {
			t.Parallel()
			p := start(t, Config{Path: executable}, strings.Fields(tt.words)...)
			p.ends(t)
			if got := fmt.Sprint(p.Err()); !strings.HasPrefix(got, tt.says) {
				t.Errorf("got %q, want %q", got, tt.says)
			}
		})
	}
}

// TestServicesStandBehindTheDaemon, also behind one that stands back itself.
func TestServicesStandBehindTheDaemon(t *testing.T) {
	netns.NeedRoot(t)
	for ours, want := range map[int]int{0: niceness, niceness + 5: niceness + 5} {
		t.Run(fmt.Sprint(ours), func(t *testing.T) {
			runtime.LockOSThread() // and never unlocked: the thread, whose niceness it is, ends with the test
			if err := unix.Setpriority(unix.PRIO_PROCESS, 0, ours); err != nil {
				t.Fatal(err)
			}
			if err := lowerPriority(); err != nil {
				t.Fatal(err)
			}
			if now, err := unix.Getpriority(unix.PRIO_PROCESS, 0); err != nil || 20-now != want {
				t.Errorf("the niceness is %d (%v), want %d", 20-now, err, want)
			}
		})
	}
}

func TestStopEndsAServiceAndAllThatItStarted(t *testing.T) {
	t.Parallel()
	_, executable := place(t)
	for _, words := range []string{"hang", "deaf", "flood", "listen", "orphan"} {
		t.Run(words, func(t *testing.T) {
			t.Parallel()
			p := start(t, Config{Path: executable}, words)
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			if err := p.Stop(ctx); err != nil {
				t.Errorf("stopping: %v", err)
			}
			select {
			case <-p.Done():
			default:
				t.Error("Stop returned before the end")
			}
		})
	}
}

func TestAFloodOfLinesIsCutAndCounted(t *testing.T) {
	t.Parallel()
	_, executable := place(t)
	p := start(t, Config{Path: executable}, "flood")
	netns.Eventually(t, patience, func() error {
		if !strings.Contains(p.out.String(), "wrote too many lines") {
			return errors.New("nothing is said of lost lines")
		}
		return nil
	})
	if n := strings.Count(p.out.String(), "\n"); n > 10*lineRate {
		t.Errorf("%d lines were logged", n)
	}
}

func TestTheDaemonConnectsToTheServiceAndNobodyElse(t *testing.T) {
	t.Parallel()
	dir, executable := place(t)
	other, err := net.Listen("unix", filepath.Join(dir, "other"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = other.Close() })
	for _, tt := range []struct{ words, says string }{
		{"listen", "hello"},
		{"link " + filepath.Join(dir, "other"), "the listener on its socket is user 0, not the service"},
		{"hang", "no such file or directory"},
	} {
		t.Run(tt.words, func(t *testing.T) {
			t.Parallel()
			p := start(t, Config{Path: executable}, strings.Fields(tt.words)...)
			netns.Eventually(t, patience, func() error {
				said := ""
				conn, err := p.Dial(t.Context())
				if err == nil {
					text, readErr := io.ReadAll(conn)
					said, err = string(text), errors.Join(readErr, conn.Close())
				}
				if !strings.Contains(said+fmt.Sprint(err), tt.says) {
					return fmt.Errorf("got %q, %w, want %q", said, err, tt.says)
				}
				return nil
			})
		})
	}
}

func TestAServiceMapsWhatItIsPassed(t *testing.T) {
	t.Parallel()
	_, executable := place(t)
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1, Flags: unix.BPF_F_MMAPABLE})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if err := m.Put(uint32(0), []byte("content ")); err != nil {
		t.Fatal(err)
	}
	p := start(t, Config{Path: executable}, "take")
	if err := p.Pass([]byte("number 7"), m.FD()); err != nil {
		t.Fatal(err)
	}
	if out := p.ends(t); !strings.Contains(out, `msg="number 7: conte"`) || !strings.Contains(out, "msg=done") || strings.Count(out, "\n") != 2 {
		t.Errorf("got %s", out)
	}
	if err := p.Pass([]byte("x"), m.FD()); err == nil {
		t.Error("a descriptor was passed to a process that ended")
	}
}

func TestAServiceThatTakesNothingDoesNotBlockTheDaemon(t *testing.T) {
	t.Parallel()
	_, executable := place(t)
	p := start(t, Config{Path: executable}, "hang")
	null, err := os.Open("/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	for range 1 << 20 {
		if err = p.Pass([]byte("12345678"), int(null.Fd())); err != nil {
			break
		}
	}
	if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.ETOOMANYREFS) {
		t.Errorf("got %v, want EAGAIN", err)
	}
}

// TestScriptsRun: the kernel starts the interpreter, which has to open the script by its descriptor.
func TestScriptsRun(t *testing.T) {
	t.Parallel()
	dir, _ := place(t)
	for name, text := range map[string]string{
		"python": "#!/usr/bin/python3\nimport os, sys\nprint('hello', os.path.basename(sys.executable), os.environ['POLYCUBE_SERVICE'])\n",
		"shell":  "#!/bin/sh -eu\necho hello python3 $POLYCUBE_SERVICE\n",
		"env":    "#!/usr/bin/env python3\nprint('hello python3 env')\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(dir, name)
			if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
				t.Fatal(err)
			}
			if out := start(t, Config{Path: path, Name: name}, "x").ends(t); !strings.Contains(out, `msg="hello python3 `+name) {
				t.Errorf("got %s", out)
			}
		})
	}
}

// TestTheFileThatWasFoundIsTheOneThatRuns: who exchanges it changes nothing for a service that holds it.
func TestTheFileThatWasFoundIsTheOneThatRuns(t *testing.T) {
	t.Parallel()
	dir, _ := place(t)
	path := filepath.Join(dir, "script")
	for _, text := range []string{"first", "second"} {
		fresh := path + ".new"
		if err := os.WriteFile(fresh, []byte("#!/bin/sh\necho the "+text+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(fresh, path); err != nil {
			t.Fatal(err)
		}
		if text == "second" {
			break
		}
		e, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if out := start(t, Config{Executable: e}, "x").ends(t); !strings.Contains(out, "the first") {
				t.Errorf("got %s", out)
			}
			_ = e.Close()
		}()
	}
	if out := start(t, Config{Path: path}, "x").ends(t); !strings.Contains(out, "the second") {
		t.Errorf("got %s", out)
	}
}

func TestAStartThatFailsLeavesNothing(t *testing.T) {
	t.Parallel()
	dir, _ := place(t)
	path := filepath.Join(dir, "broken")
	if err := os.WriteFile(path, []byte("\x7fELF and nothing else"), 0o755); err != nil {
		t.Fatal(err)
	}
	run := t.TempDir()
	_, err := Start(t.Context(), Config{Name: "broken", Path: path, RunDir: run})
	if err == nil || !strings.Contains(err.Error(), "service broken: start "+path+": execute: exec format error") {
		t.Errorf("got %v", err)
	}
	if left, err := os.ReadDir(run); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Start(gone, Config{Name: "late", Path: path, RunDir: run}); err == nil {
		t.Error("started after its time")
	}
}

// TestServicesEndWithTheDaemon: a daemon that is killed cannot stop them.
func TestServicesEndWithTheDaemon(t *testing.T) {
	t.Parallel()
	_, executable := place(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	out := &output.Buffer{}
	daemon := exec.Command(self)
	daemon.Env = append(os.Environ(), daemonEnv+"="+executable+" "+t.TempDir())
	daemon.Stdout, daemon.Stderr = out, out
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = daemon.Process.Kill(), daemon.Wait() })
	var uid int
	netns.Eventually(t, patience, func() error {
		if _, err := fmt.Sscanf(out.String(), "user %d\n", &uid); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
	if free, err := unused(uid); err != nil || free {
		t.Fatalf("user %d runs nothing, %v", uid, err)
	}
	if err := daemon.Process.Signal(unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	netns.Eventually(t, patience, func() error {
		return leftBehind(uid)
	})
}

// TestTheRightsOfTheUnitAreEnough: the daemon is root without most of what root may.
func TestTheRightsOfTheUnitAreEnough(t *testing.T) {
	t.Parallel()
	_, executable := place(t)
	unit, err := os.ReadFile("../../deploy/polycubed.service")
	if err != nil {
		t.Fatal(err)
	}
	bounding := "-all"
	for _, line := range regexp.MustCompile(`(?m)^CapabilityBoundingSet=(.*)$`).FindAllStringSubmatch(string(unit), -1) {
		for name := range strings.FieldsSeq(line[1]) {
			bounding += ",+" + strings.ToLower(strings.TrimPrefix(name, "CAP_"))
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "setpriv", "--bounding-set="+bounding, "--inh-caps=-all", "--no-new-privs", self)
	run := t.TempDir()
	cmd.Env = append(os.Environ(), daemonEnv+"="+executable+" "+run+" dial")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "heard hello") {
		t.Errorf("with %s: %v: %s", bounding, err, out)
	}
	if left, err := os.ReadDir(run); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

const daemonEnv = "POLYCUBE_TEST_DAEMON"

// bePlainDaemon starts a service and waits to be killed, or connects to it and stops it.
func bePlainDaemon(words string) {
	w := strings.Fields(words)
	c := Config{Name: "child", Path: w[0], RunDir: w[1], Args: []string{"run", "/bin/sleep", "1000"}}
	if len(w) > 2 {
		c.Args = []string{"listen"}
	}
	p, err := Start(context.Background(), c)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("user", p.UID())
	if len(w) == 2 {
		select {}
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for ctx.Err() == nil {
		conn, err := p.Dial(ctx)
		if err != nil {
			continue // it does not listen yet
		}
		text, err := io.ReadAll(conn)
		fmt.Println("heard", string(text), errors.Join(err, conn.Close()))
		break
	}
	gone, stop := context.WithCancel(ctx)
	stop()
	if err := p.Stop(gone); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}
