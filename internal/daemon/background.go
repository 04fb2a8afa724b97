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

// Option --daemon: a Go process cannot fork, so the program starts itself again in a new session. The first process
// waits until the second is ready, prints its output until then, and exits with 0, or with the second one's status: a
// script knows by the exit status whether a daemon is running.

const (
	// readyVar names the descriptor on which the background process reports that it is ready.
	readyVar = "POLYCUBED_READY_FD"
	// readyFd is the first of exec.Cmd's extra files.
	readyFd = 3
)

// detach starts the daemon in the background with the same command line and waits for it.
func detach(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	status, err := startBackground(ctx, args, stdout, stderr)
	if err != nil {
		fmt.Fprintf(stderr, "polycubed: starting in the background: %v\n", err)
		return exitFailed
	}
	return status
}

func startBackground(ctx context.Context, args []string, stdout, stderr io.Writer) (int, error) {
	ready, tell, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer ready.Close()
	// A file, not a pipe: with a pipe, the daemon's last output would kill it once this process is gone.
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
	// If the wait is interrupted, the daemon is stopped too.
	stopWaiting := context.AfterFunc(ctx, func() { _ = cmd.Process.Signal(unix.SIGTERM) })
	defer stopWaiting()
	word, _ := bufio.NewReader(ready).ReadString('\n') // the other end always closes it
	if word != "ready\n" {
		_ = cmd.Wait() // the exit status tells
		_, err := io.Copy(stderr, io.NewSectionReader(said, 0, 1<<20))
		return endedWith(cmd.ProcessState), err
	}
	_, err = fmt.Fprintf(stdout, "polycubed ready (pid %d)\n", cmd.Process.Pid)
	return exitOK, errors.Join(err, cmd.Process.Release())
}

// endedWith is the exit status to pass on: a killed process has none.
func endedWith(state *os.ProcessState) int {
	if status := state.ExitCode(); status > 0 {
		return status
	}
	return exitFailed
}

// inBackground reports whether this process is the one in the background.
func inBackground() bool { return os.Getenv(readyVar) != "" }

// enterBackground is the first thing that the background process does: programs that it starts must not keep the
// foreground process waiting.
func enterBackground() error {
	fd, err := strconv.Atoi(os.Getenv(readyVar))
	if err != nil || fd < readyFd {
		return fmt.Errorf("%s is %q, not a file descriptor", readyVar, os.Getenv(readyVar))
	}
	unix.CloseOnExec(fd)
	return os.Chdir("/") // so that the directory it was started in can be removed
}

// releaseParent ends the wait of the foreground process. Standard error is closed, because nobody reads it from here
// on.
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
