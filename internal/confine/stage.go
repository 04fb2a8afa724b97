// SPDX-License-Identifier: Apache-2.0

package confine

// The stage is the daemon's own program, started again in new namespaces: it drops everything that a service must not
// have, then executes the service. It is entered from init, before main of the program that contains this package, and
// only when started by Start.

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// stageName is the argv[0] of a stage.
const stageName = "polycube-service-stage"

// Descriptors of a stage. The service keeps that of the socket for descriptors, and that of the executable if it is a
// script.
const (
	fdExecutable  = 3
	fdControl     = 4
	fdDescriptors = 5
)

// stageConfig is the configuration that the daemon sends to the stage.
type stageConfig struct {
	User   int
	Dir    string
	Argv   []string
	Env    []string
	Script bool
	Hidden []string
	Limits Limits
}

func init() {
	if len(os.Args) != 1 || os.Args[0] != stageName {
		return
	}
	control := os.NewFile(fdControl, "control")
	fmt.Fprint(control, stage(control)) // returns only on an error
	os.Exit(1)
}

// stage applies the configuration and executes the service; it returns only on an error.
func stage(control *os.File) error {
	runtime.LockOSThread() // identity, filter and death signal belong to a thread: the one that executes
	var o stageConfig
	if err := json.NewDecoder(control).Decode(&o); err != nil {
		return fmt.Errorf("read the configuration: %w", err)
	}
	if err := os.WriteFile("/proc/self/oom_score_adj", []byte("500"), 0); err != nil {
		return fmt.Errorf("set oom_score_adj: %w", err)
	}
	if err := enterView(o.Dir, o.Hidden); err != nil {
		return err
	}
	// Its files are in a directory that no other user can enter; a daemon with restricted rights can then connect to
	// its socket.
	unix.Umask(0)
	if err := lowerPriority(); err != nil {
		return err
	}
	if err := o.Limits.setEarly(); err != nil {
		return err
	}
	if err := dropPrivileges(o.User); err != nil {
		return err
	}
	return execService(control, &o)
}

// dropPrivileges makes the thread an ordinary user that cannot regain any privilege.
func dropPrivileges(id int) error {
	for c := uintptr(0); c <= unix.CAP_LAST_CAP; c++ {
		// A daemon that may not do that has a bounded set itself; either way there is no way to get one.
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil && err != unix.EINVAL && err != unix.EPERM {
			return fmt.Errorf("drop capability %d: %w", c, err)
		}
	}
	for _, call := range []struct {
		nr      uintptr
		a, b, c uintptr
		was     string
	}{
		{unix.SYS_SETGROUPS, 0, 0, 0, "groups"},
		{unix.SYS_SETRESGID, uintptr(id), uintptr(id), uintptr(id), "group"},
		{unix.SYS_SETRESUID, uintptr(id), uintptr(id), uintptr(id), "user"},
	} {
		if _, _, errno := unix.RawSyscall(call.nr, call.a, call.b, call.c); errno != 0 {
			return fmt.Errorf("change %s: %w", call.was, errno)
		}
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capset(&header, &data[0]); err != nil {
		return fmt.Errorf("drop capabilities: %w", err)
	}
	return nil
}

// execService executes the service. Everything that a limit could prevent was done before.
func execService(control *os.File, o *stageConfig) error {
	// The daemon's death ends the service; if the daemon died before this line, the closed socket shows it.
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return fmt.Errorf("set the parent death signal: %w", err)
	}
	if hasEnded(int(control.Fd())) {
		return io.ErrUnexpectedEOF
	}
	first := uint(fdExecutable)
	if o.Script {
		first++
	}
	if err := unix.CloseRange(first, ^uint(0)>>32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fmt.Errorf("close file descriptors: %w", err)
	}
	keep := []int{fdDescriptors}
	if o.Script {
		keep = append(keep, fdExecutable)
	}
	for _, fd := range keep {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, 0); err != nil {
			return fmt.Errorf("keep descriptor %d open: %w", fd, err)
		}
	}
	argv, err := syscall.SlicePtrFromStrings(o.Argv)
	if err != nil {
		return fmt.Errorf("arguments: %w", err)
	}
	envp, err := syscall.SlicePtrFromStrings(o.Env)
	if err != nil {
		return fmt.Errorf("environment: %w", err)
	}
	var empty byte
	if err := o.Limits.setLate(); err != nil {
		return err
	}
	if err := installFilter(); err != nil {
		return err
	}
	_, _, errno := unix.RawSyscall6(unix.SYS_EXECVEAT, fdExecutable, uintptr(unsafe.Pointer(&empty)),
		uintptr(unsafe.Pointer(&argv[0])), uintptr(unsafe.Pointer(&envp[0])), unix.AT_EMPTY_PATH, 0)
	return fmt.Errorf("execute: %w", errno)
}

// hasEnded reports whether the other end of a socket is closed.
func hasEnded(fd int) bool {
	p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
	n, err := unix.Poll(p, 0)
	return err == nil && n > 0
}

// lowerPriority lowers the priority below that of the daemon. If the daemon itself has a lower priority, it is kept:
// without the right to raise it, that would fail, and with the right, it would be wrong.
func lowerPriority() error {
	now, err := unix.Getpriority(unix.PRIO_PROCESS, 0) // in the kernel's form: 20 minus the niceness
	if err == nil && 20-now < niceness {
		err = unix.Setpriority(unix.PRIO_PROCESS, 0, niceness)
	}
	if err != nil {
		return fmt.Errorf("lower the priority: %w", err)
	}
	return nil
}
