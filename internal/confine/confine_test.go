// SPDX-License-Identifier: Apache-2.0

package confine

// Services that mean harm, each for real: the test binary is started as a service and does what its first word says.
// A test runs as root and looks from both sides.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/test/executable"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/output"
	"github.com/polycube/polycube/test/pace"
)

var patience = pace.Stretch(20 * time.Second)

func TestMain(m *testing.M) {
	if os.Getenv(SocketEnv) != "" && len(os.Args) > 1 {
		act(os.Args[1:])
		return
	}
	if words := os.Getenv(daemonEnv); words != "" {
		bePlainDaemon(words)
		return
	}
	os.Exit(m.Run())
}

// act is what services do here: they print what they got to do.
func act(words []string) {
	deed, ok := deeds[words[0]]
	if !ok {
		fmt.Println("no such deed")
		os.Exit(3)
	}
	if err := deed(words[1:]); err != nil {
		fmt.Println("refused:", err)
		os.Exit(2)
	}
	fmt.Println("done")
}

// deeds are what a service tries. An error is that it could not.
var deeds = map[string]func([]string) error{
	"bpf": func([]string) error {
		_, _, errno := unix.Syscall(unix.SYS_BPF, 0, 0, 0)
		return asError(errno)
	},
	"ptrace":  func([]string) error { return unix.PtraceAttach(1) },
	"mount":   func([]string) error { return unix.Mount("tmpfs", "/tmp", "tmpfs", 0, "") },
	"unshare": func([]string) error { return unix.Unshare(unix.CLONE_NEWUSER) },
	"newuser": func([]string) error {
		return (&exec.Cmd{Path: "/bin/true", SysProcAttr: &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER}}).Run()
	},
	"module": func([]string) error { return unix.FinitModule(0, "", 0) },
	"keys": func([]string) error {
		_, err := unix.KeyctlGetKeyringID(unix.KEY_SPEC_SESSION_KEYRING, true)
		return err
	},
	"packet":  func([]string) error { _, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW, 0); return err },
	"netlink": func([]string) error { _, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW, 0); return err },
	"setuid":  func([]string) error { return syscall.Setuid(0) },
	"memfd":   func([]string) error { _, err := unix.MemfdCreate("x", 0); return err },
	"read":    func(w []string) error { _, err := os.ReadFile(w[0]); return err },
	"write":   func(w []string) error { return os.WriteFile(w[0], []byte("x"), 0o666) },
	"list":    list,
	"connect": func(w []string) error { _, err := net.DialTimeout(w[0], w[1], time.Second); return err },
	"signal":  func(w []string) error { n, err := strconv.Atoi(w[0]); return errors.Join(err, unix.Kill(n, 0)) },
	"run": func(w []string) error {
		out, err := exec.Command(w[0], w[1:]...).CombinedOutput()
		fmt.Println(string(out))
		return err
	},
	"forks":  forks,
	"memory": eat,
	"files":  openMany,
	"large":  large,
	"print":  func(w []string) error { fmt.Println(strings.Join(w, " ")); return nil },
	"flood":  flood,
	"hang":   hang,
	"deaf":   func([]string) error { signal.Ignore(unix.SIGTERM); return hang(nil) },
	"listen": listen,
	"crash":  func([]string) error { var p *int; *p = 1; return nil },
	"orphan": orphan,
	"take":   take,
	"link":   func(w []string) error { return errors.Join(os.Symlink(w[0], os.Getenv(SocketEnv)), hang(nil)) },
}

func asError(errno syscall.Errno) error {
	if errno == 0 {
		return nil
	}
	return errno
}

func list(w []string) error {
	names, err := os.ReadDir(w[0])
	for _, n := range names {
		fmt.Println(n.Name())
	}
	if err == nil && len(names) == 0 {
		return errors.New("empty")
	}
	return err
}

// forks starts processes until it cannot, and says how many ran at once.
func forks([]string) error {
	for n := 0; n < 5000; n++ {
		cmd := exec.Command("/bin/sleep", "1000")
		if err := cmd.Start(); err != nil {
			fmt.Println("processes:", n)
			return err
		}
	}
	return nil
}

// eat touches memory until there is none. The end is a signal, or the run time's.
func eat([]string) error {
	var all [][]byte
	for range 400 {
		all = append(all, bytes.Repeat([]byte{1}, 10<<20))
	}
	fmt.Println(len(all))
	return nil
}

func openMany([]string) error {
	for n := 0; n < 100_000; n++ {
		if _, err := unix.Open("/dev/null", unix.O_RDONLY, 0); err != nil {
			fmt.Println("files:", n)
			return err
		}
	}
	return nil
}

func large([]string) error {
	signal.Ignore(unix.SIGXFSZ)
	f, err := os.Create("/tmp/large")
	if err == nil {
		_, err = io.CopyN(f, zeroes{}, 64<<20)
	}
	return err
}

type zeroes struct{}

func (zeroes) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func flood([]string) error {
	for n := 0; ; n++ {
		if _, err := fmt.Println("line", n, strings.Repeat("x", 5000)); err != nil {
			return err
		}
	}
}

func hang([]string) error {
	fmt.Println("hangs")
	select {}
}

func listen([]string) error {
	l, err := net.Listen("unix", os.Getenv(SocketEnv))
	if err != nil {
		return err
	}
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		fmt.Fprint(c, "hello")
		c.Close()
	}
}

// take receives a descriptor of a map, maps it into memory and prints what is there. It cannot use the map otherwise.
func take([]string) error {
	socket, err := strconv.Atoi(os.Getenv(DescriptorsEnv))
	if err != nil {
		return err
	}
	message, oob := make([]byte, 16), make([]byte, unix.CmsgSpace(4))
	n, oobn, _, _, err := unix.Recvmsg(socket, message, oob, unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		return fmt.Errorf("receive: %w", err)
	}
	rights, err := unix.ParseSocketControlMessage(oob[:oobn])
	if err != nil || len(rights) != 1 {
		return fmt.Errorf("%d control messages: %w", len(rights), err)
	}
	fds, err := unix.ParseUnixRights(&rights[0])
	if err != nil {
		return fmt.Errorf("rights: %w", err)
	}
	mem, err := unix.Mmap(fds[0], 0, 4096, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("map: %w", err)
	}
	if _, _, errno := unix.Syscall(unix.SYS_BPF, unix.BPF_MAP_FREEZE, uintptr(unsafe.Pointer(&fds[0])), 4); errno != unix.EPERM {
		fmt.Println("bpf:", errno)
	}
	fmt.Printf("%s: %s\n", message[:n], mem[:5])
	return nil
}

// orphan leaves a process behind in a session of its own, and ends.
func orphan([]string) error {
	cmd := exec.Command("/bin/sleep", "1000")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd.Start()
}

// place is where only root writes, with the test binary as an executable.
func place(t *testing.T) (dir, path string) {
	t.Helper()
	netns.NeedRoot(t)
	dir, err := os.MkdirTemp("/var/lib", "polycube-confine-*")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(dir, "service")
	if err := executable.CopySelf(path); err != nil {
		t.Fatal(err)
	}
	return dir, path
}

// play is a service that was started and what it wrote.
type play struct {
	*Process
	out *output.Buffer
}

func start(t *testing.T, c Config, words ...string) play {
	t.Helper()
	out := &output.Buffer{}
	c.Args, c.Log, c.RunDir = words, slog.New(slog.NewTextHandler(out, nil)), t.TempDir()
	if c.Name == "" {
		c.Name = words[0]
	}
	p, err := Start(t.Context(), c)
	if err != nil {
		t.Fatalf("%v: %s", words, err)
	}
	t.Cleanup(func() {
		gone, cancel := context.WithCancel(context.Background())
		cancel()
		_ = p.Stop(gone)
		if left, err := os.ReadDir(c.RunDir); err != nil || len(left) > 0 {
			t.Errorf("%v left %v, %v", words, left, err)
		}
		if err := leftBehind(p.UID()); err != nil {
			t.Errorf("%v left something: %v", words, err)
		}
	})
	return play{p, out}
}

// leftBehind finds processes of a user that nobody has any more. Who has it by now, another test perhaps, has found it
// unused.
func leftBehind(id int) error {
	lock, err := lockUser(filepath.Join(usersDir, strconv.Itoa(id)))
	if err != nil || lock == nil {
		return err
	}
	claimed := &reservedUser{id: id, lock: lock}
	defer claimed.release()
	free, err := unused(id)
	if err == nil && !free {
		err = fmt.Errorf("processes of user %d run", id)
	}
	return err
}

// ends waits for the end.
func (p play) ends(t *testing.T) string {
	t.Helper()
	select {
	case <-p.Done():
		return p.out.String()
	case <-time.After(patience):
		t.Fatalf("did not end: %s", p.out)
		return ""
	}
}

func TestServicesAreRefusedWhatTheyHaveNoBusinessWith(t *testing.T) {
	t.Parallel()
	dir, executable := place(t)
	secret := filepath.Join(dir, "secret")
	for path, mode := range map[string]os.FileMode{secret: 0o600, filepath.Join(dir, "state"): 0o700 | os.ModeDir} {
		if mode.IsDir() {
			if err := errors.Join(os.Mkdir(path, 0o755), os.WriteFile(path+"/journal", nil, 0o644)); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err := os.WriteFile(path, []byte("token"), mode); err != nil {
			t.Fatal(err)
		}
	}
	daemon := fmt.Sprint(os.Getpid())
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tcp.Close() })
	for _, tt := range []struct{ words, says string }{
		{"bpf", "operation not permitted"},
		{"ptrace", "operation not permitted"},
		{"mount", "operation not permitted"},
		{"unshare", "operation not permitted"},
		{"newuser", "operation not permitted"},
		{"module", "operation not permitted"},
		{"keys", "operation not permitted"},
		{"packet", "operation not permitted"},
		{"netlink", "operation not permitted"},
		{"setuid", "operation not permitted"},
		{"memfd", "operation not permitted"},
		{"read " + secret, "permission denied"},
		{"read " + filepath.Join(dir, "state", "journal"), "no such file"}, // hidden
		{"read /etc/shadow", "permission denied"},
		{"list /root", "empty"},
		{"list /home", "empty"},
		{"list /run/netns", "no such file"},
		{"list /sys/fs", "empty"},
		{"list /proc/" + daemon, "no such file"},
		{"signal " + daemon, "no such process"},
		{"write /etc/passwd", "read-only file system"},
		{"write /usr/x", "read-only file system"},
		{"write /dev/sda", "read-only file system"},
		{"connect tcp " + tcp.Addr().String(), "unreachable"},
		{"connect unix /run/polycube/polycubed.sock", "no such file"},
		{"run /bin/umount /tmp", "must be superuser"},
	} {
		t.Run(tt.words, func(t *testing.T) {
			t.Parallel()
			out := start(t, Config{Path: executable, Hidden: []string{filepath.Join(dir, "state")}}, strings.Fields(tt.words)...).ends(t)
			if !strings.Contains(out, "refused:") || !strings.Contains(out, tt.says) {
				t.Errorf("got %s, want a refusal with %q", out, tt.says)
			}
		})
	}
}

func TestAServiceSeesItsOwnThings(t *testing.T) {
	t.Parallel()
	_, executable := place(t)
	for _, tt := range []struct{ words, says string }{
		{"print ready", "msg=ready"},
		{"write /tmp/x", "msg=done"},
		{"write /run/polycube-service/x", "msg=done"},
		{"read /usr/bin/env", "msg=done"},
		{"run /usr/bin/python3 -c print(1+1)", "msg=2"},
		{"run /bin/sh -c id -u >/dev/null; echo $$", "msg=done"},
		{"list /proc/self/fd", "msg=done"},
		{"read /dev/urandom0", "no such file"},
	} {
		t.Run(tt.words, func(t *testing.T) {
			t.Parallel()
			if out := start(t, Config{Path: executable}, strings.Fields(tt.words)...).ends(t); !strings.Contains(out, tt.says) {
				t.Errorf("got %s, want %q", out, tt.says)
			}
		})
	}
}
