// SPDX-License-Identifier: Apache-2.0

package kernels

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/test/kernels/guest"
)

// silence is how long a machine may be silent before it counts as hung: it sends a frame every few seconds, but loading
// a large program on a busy host may delay that.
const silence = 4 * time.Minute

// machine is the parameters of one emulator.
type machine struct {
	arch   string
	kernel kernelFiles
	// root, tree and modules are disks. The machine's writes to them are discarded.
	root, tree string
	// init is the program that becomes the first process.
	init string
	// dir is for the machine's sockets and logs.
	dir string
	// within is when the machine is stopped, whatever it does.
	within time.Duration
	cables []cable
	// ownClock has the time of the machine be that of the instructions it has executed.
	ownClock bool
	// used is the time of a processor that the machine took.
	used time.Duration
}

// emulators are how a machine of an architecture is made.
var emulators = map[string][]string{
	// With cx16, or with a thread for each processor, Linux 6.12 panics while it boots: the emulation of the 128-bit
	// compare and swap is at fault.
	"amd64": {"qemu-system-x86_64", "-accel", "tcg,thread=single", "-cpu", "Nehalem,-cx16"},
	"arm64": {"qemu-system-aarch64", "-accel", "tcg,thread=single", "-machine", "virt", "-cpu", "cortex-a72"},
}

// emulator is the begin of an emulator's command line: without processors, memory and devices.
func emulator(arch string, k kernelFiles, initrd string) []string {
	args := append([]string{}, emulators[arch]...)
	return append(args, "-display", "none", "-nodefaults", "-no-reboot", "-kernel", k.image, "-initrd", initrd)
}

// consoles are the names of the first serial port.
var consoles = map[string]string{"amd64": "ttyS0", "arm64": "ttyAMA0"}

// args is the emulator's command line.
func (m *machine) args() []string {
	args := append(emulator(m.arch, m.kernel, m.path("initrd")), "-smp", "2", "-m", "6000")
	for _, disk := range []string{m.root, m.kernel.modules, m.tree} { // in the order of guest.RootDisk and the others
		args = append(args, "-drive", "format=raw,if=virtio,snapshot=on,file="+disk)
	}
	if m.ownClock {
		args = append(args, "-icount", "shift=3,sleep=off") // 8 ns each; where all processors wait, the time of the next event comes at once
	}
	for n, c := range m.cables {
		args = append(args, c.args(n)...)
	}
	return append(args, "-serial", "file:"+m.path("console"),
		"-device", "virtio-serial-pci", "-chardev", "socket,id=frames,path="+m.path("frames"),
		"-device", "virtserialport,chardev=frames,name="+guest.Port,
		"-append", commandLine(m.arch))
}

// commandLine is the kernel's. Warnings are shown at level five: complaints of the kernel are found in the console's
// text. On a busy host, the emulated timer may be too late for the kernel's check of it, which ends in a panic.
func commandLine(arch string) string {
	return "no_timer_check console=" + consoles[arch] + " loglevel=5 panic=-1 random.trust_cpu=on net.ifnames=0"
}

func (m *machine) path(name string) string { return filepath.Join(m.dir, name) }

// run boots the machine, passes its frames to take, and returns when it is off. The error says why a machine did not
// finish its plan, or what its kernel complained about.
func (m *machine) run(ctx context.Context, take func(guest.Frame)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, m.within, fmt.Errorf("stopped after %v", m.within))
	defer cancel()
	disk, err := initrd(m.init, m.kernel.early)
	if err != nil {
		return err
	}
	if err := os.WriteFile(m.path("initrd"), disk, 0o644); err != nil {
		return err
	}
	frames, err := net.Listen("unix", m.path("frames"))
	if err != nil {
		return err
	}
	defer frames.Close()
	ended := make(chan error, 1)
	go func() {
		var err error
		m.used, err = emulate(ctx, m.dir, m.args())
		ended <- err
	}()
	done, readErr := m.read(ctx, cancel, frames, ended, take)
	return m.verdict(ctx, done, readErr)
}

// emulate runs an emulator until it ends or ctx does, and returns the CPU time that it took. It dies with the thread
// that started it, so that nothing is left if this process is killed. Temporary files are in dir.
func emulate(ctx context.Context, dir string, args []string) (used time.Duration, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env = append(os.Environ(), "TMPDIR="+dir) // writes to the disks
	cmd.SysProcAttr = &unix.SysProcAttr{Pdeathsig: unix.SIGKILL}
	_, err = output(cmd)
	if cmd.ProcessState != nil {
		used = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	}
	return used, err
}

var errSilent = fmt.Errorf("hung: it said nothing for %v", silence)

// read reads frames until the machine is off. It reports whether the plan finished.
func (m *machine) read(ctx context.Context, cancel context.CancelFunc, frames net.Listener, ended <-chan error, take func(guest.Frame)) (done bool, err error) {
	lines := make(chan guest.Frame)
	go func() {
		defer close(lines)
		conn, err := frames.Accept()
		if err != nil {
			return // the emulator did not start; its error says why
		}
		defer conn.Close()
		decode(conn, lines)
	}()
	quiet := time.NewTimer(silence)
	defer quiet.Stop()
	for {
		select {
		case f, more := <-lines:
			if !more {
				return done, errors.Join(err, <-ended)
			}
			quiet.Reset(silence)
			done = done || f.Kind == guest.Done
			take(f)
		case <-quiet.C:
			err = errSilent
			cancel()
			quiet.Reset(silence)
		case e := <-ended:
			frames.Close()
			for f := range lines {
				done = done || f.Kind == guest.Done
				take(f)
			}
			return done, errors.Join(err, e)
		}
	}
}

// decode reads frames until the connection ends.
func decode(conn net.Conn, to chan<- guest.Frame) {
	in := json.NewDecoder(bufio.NewReader(conn))
	for {
		var f guest.Frame
		if err := in.Decode(&f); err != nil {
			return
		}
		to <- f
	}
}

// complaints are lines of a kernel with an internal error.
var complaints = regexp.MustCompile(`Kernel panic|Oops|Out of memory|\bBUG:|general protection fault|unable to handle|WARNING: CPU|INFO: task .* blocked|refcount_t:|rcu_.* stall|guest: `)

// verdict returns the error of a machine that is off: nil if there is none.
func (m *machine) verdict(ctx context.Context, done bool, err error) error {
	console, readErr := os.ReadFile(m.path("console"))
	if readErr != nil {
		console = []byte(readErr.Error())
	}
	text := strings.ReplaceAll(string(console), "\r", "")
	switch found := complaints.FindStringIndex(text); {
	case found != nil:
		from := strings.LastIndex(text[:found[0]], "\n") + 1
		return fmt.Errorf("its kernel complains:\n%s", firstLines(text[from:], 30))
	case errors.Is(err, errSilent):
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case err == nil && done:
		return nil
	case err == nil:
		err = errors.New("it went off before its plan had ended")
	}
	return fmt.Errorf("%w; the end of its console:\n%s", err, lastLines(text, 30))
}

func firstLines(text string, n int) string {
	lines := strings.SplitN(text, "\n", n+1)
	return strings.Join(lines[:min(n, len(lines))], "\n")
}
