// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"

	"golang.org/x/sys/unix"
)

// Option --daemon: a Go process cannot fork, so the program starts itself again in a session of its own. The first process
// waits until the second serves, hands on what that says until then, and ends with 0, or with the second one's status:
// a script knows by the exit status whether there is a daemon.

const (
	// readyVar names the descriptor on which the process in the background says that it is ready.
	readyVar = "POLYCUBED_READY_FD"
	// readyFd is the first of exec.Cmd's extra files.
	readyFd = 3
)

// detach starts the daemon in the background with the same command line and waits for it.
func detach(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	status, err := startBehind(ctx, args, stdout, stderr)
	if err != nil {
		fmt.Fprintf(stderr, "polycubed: starting in the background: %v\n", err)
		return exitFailed
	}
	return status
}

func startBehind(ctx context.Context, args []string, stdout, stderr io.Writer) (int, error) {
	ready, tell, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer ready.Close()
	// A file, not a pipe: a pipe would kill the daemon's last words when this process is gone.
	said, err := os.CreateTemp("", "polycubed-start-*")
	if err != nil {
		return 0, errors.Join(err, tell.Close())
	}
	defer said.Close()
	if err := os.Remove(said.Name()); err != nil {
		return 0, errors.Join(err, tell.Close())
	}
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(os.Environ(), readyVar+"="+strconv.Itoa(readyFd))
	cmd.Stderr, cmd.ExtraFiles = said, []*os.File{tell}
	cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true}
	err = cmd.Start()
	if err = errors.Join(err, tell.Close()); err != nil {
		return 0, err
	}
	// Who gives up waiting has no daemon.
	stopWaiting := context.AfterFunc(ctx, func() { _ = cmd.Process.Signal(unix.SIGTERM) })
	defer stopWaiting()
	word, _ := bufio.NewReader(ready).ReadString('\n') // the other end closes it, whatever happens
	if word != "ready\n" {
		_ = cmd.Wait() // its status says it
		_, err := io.Copy(stderr, io.NewSectionReader(said, 0, 1<<20))
		return endedWith(cmd.ProcessState), err
	}
	_, err = fmt.Fprintf(stdout, "polycubed ready (pid %d)\n", cmd.Process.Pid)
	return exitOK, errors.Join(err, cmd.Process.Release())
}

// endedWith is the exit status to pass on: a process that was killed has none of its own.
func endedWith(state *os.ProcessState) int {
	if status := state.ExitCode(); status > 0 {
		return status
	}
	return exitFailed
}

// behind tells whether this process is the one in the background.
func behind() bool { return os.Getenv(readyVar) != "" }

// goBehind is the first thing that the process in the background does: programs that it starts must not keep the process in
// the foreground waiting.
func goBehind() error {
	fd, err := strconv.Atoi(os.Getenv(readyVar))
	if err != nil || fd < readyFd {
		return fmt.Errorf("%s is %q, not a file descriptor", readyVar, os.Getenv(readyVar))
	}
	unix.CloseOnExec(fd)
	return os.Chdir("/") // so that the directory it was started in can be removed
}

// releaseParent ends the wait of the process in the foreground. Standard error is let go of: nobody reads it from here on.
func releaseParent() error {
	fd, err := strconv.Atoi(os.Getenv(readyVar))
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), "ready")
	if err := os.Unsetenv(readyVar); err != nil {
		return err
	}
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return errors.Join(err, f.Close())
	}
	err = unix.Dup3(int(null.Fd()), int(os.Stderr.Fd()), 0)
	_, writeErr := f.WriteString("ready\n")
	return errors.Join(err, writeErr, null.Close(), f.Close())
}
