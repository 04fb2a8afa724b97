// SPDX-License-Identifier: Apache-2.0

// Package confine runs the executable of a service so that nothing it does can harm the machine, the daemon or another
// service: as a separate user, without capabilities, in separate namespaces, with a system call filter and limits. It
// runs a single process; the caller decides about restarts.
package confine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// SocketEnv is the environment variable that tells a service where to listen.
const SocketEnv = "POLYCUBE_SERVICE_SOCKET"

// DescriptorsEnv is the environment variable with the descriptor of the socket over which a service gets descriptors.
const DescriptorsEnv = "POLYCUBE_SERVICE_DESCRIPTORS"

const socketName = "service.sock"

// startTime is the time limit from the start to the first instruction of the service.
const startTime = 10 * time.Second

// Config says what to run, and how.
type Config struct {
	// Name is the service's, for logs and for names in the system.
	Name string
	// Path is an executable that passes Check. Executable is an open one; Path is then not used.
	Path       string
	Executable *Executable
	// Args are its arguments, without its name.
	Args []string
	// RunDir is a directory of the daemon that only root can enter. A directory for the service is created in it.
	RunDir string
	// Hidden are directories that the service must not see, in addition to those hidden from all.
	Hidden []string
	// Network leaves the service in the machine's network namespace; otherwise it has none.
	Network bool
	Limits  Limits
	// Log receives the output lines of the service.
	Log *slog.Logger
}

// Process is a running service.
type Process struct {
	cmd    *exec.Cmd
	dir    string
	user   *reservedUser
	group  *group
	output sink
	// ended is called before its directory is removed, if it is set, with the reason of its end.
	ended func(exit error)
	// descriptors is our end of the socket for descriptors.
	descriptors *os.File
	read        chan struct{} // closed when all output was read
	done        chan struct{}
	err         error
	left        error // what could not be cleaned up, part of err
	stop        atomic.Bool
}

// sink is where its output goes.
type sink interface {
	// read reads until all writers are closed; lastLine is then a line that explains the end, or empty.
	read(r io.Reader)
	lastLine() string
}

// started counts processes, for names.
var started atomic.Uint64

// Start starts a service and returns when its program runs, or why it does not. The context limits only the start.
func Start(ctx context.Context, c Config) (*Process, error) {
	e := c.Executable
	if e == nil {
		var err error
		if e, err = Open(c.Path); err != nil {
			return nil, err
		}
		defer func() { _ = e.Close() }() // it was only read
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	c.Limits = c.Limits.withDefaults()
	p := &Process{group: &group{}, output: newLineLog(c.Log), read: make(chan struct{}), done: make(chan struct{})}
	if err := p.prepare(c); err != nil {
		return nil, errors.Join(fmt.Errorf("service %s: %w", c.Name, err), p.cleanUp())
	}
	ready := make(chan error, 1)
	go p.supervise(c, e, ready)
	select {
	case err := <-ready:
		if err != nil {
			<-p.done
			return nil, fmt.Errorf("service %s: start %s: %w", c.Name, e.Path, err)
		}
		return p, nil
	case <-ctx.Done():
		go func() {
			if <-ready == nil {
				p.kill()
			}
		}()
		return nil, fmt.Errorf("service %s: start %s: %w", c.Name, e.Path, ctx.Err())
	}
}

// prepare creates what the process needs from outside.
func (p *Process) prepare(c Config) (err error) {
	if p.user, err = reserveUser(); err != nil {
		return err
	}
	if p.dir, err = os.MkdirTemp(c.RunDir, "service-*"); err != nil {
		return fmt.Errorf("create its directory: %w", err)
	}
	// The daemon stays the owner: it may be root without the right to enter directories of others.
	if err := errors.Join(os.Chown(p.dir, -1, p.user.id), os.Chmod(p.dir, 0o770)); err != nil { //nolint:gosec // the group is the service's alone
		return fmt.Errorf("set the owner of its directory: %w", err)
	}
	tree, err := hostGroups()
	if err == nil {
		p.group, err = tree.newGroup(fmt.Sprintf("%d-%d-%s", os.Getpid(), started.Add(1), c.Name), c.Limits)
	}
	if err != nil {
		c.Log.Warn("the service is limited only per process", "reason", err)
	}
	return nil
}

// supervise is the process from start to end. The kernel sends the parent death signal when the thread ends that
// started the child, so this goroutine keeps its thread.
func (p *Process) supervise(c Config, e *Executable, ready chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.start(c, e)
	if err == nil {
		ready <- nil
		err = p.wait()
	} else {
		ready <- err
	}
	if p.ended != nil {
		p.ended(err)
	}
	p.left = p.cleanUp()
	p.err = errors.Join(err, p.left)
	close(p.done)
}

// socketPair creates two connected sockets of a kind.
func socketPair(kind int) (ours, theirs *os.File, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, kind|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("create a socket pair: %w", err)
	}
	return os.NewFile(uintptr(pair[0]), "ours"), os.NewFile(uintptr(pair[1]), "theirs"), nil
}

// start runs the stage and sends it its configuration.
func (p *Process) start(c Config, e *Executable) error {
	ours, theirs, err := socketPair(unix.SOCK_STREAM)
	if err != nil {
		return err
	}
	defer ours.Close()
	defer theirs.Close()
	descriptors, inherited, err := socketPair(unix.SOCK_SEQPACKET)
	if err != nil {
		return err
	}
	p.descriptors = descriptors
	defer inherited.Close()
	lines, out, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("create a pipe for its output: %w", err)
	}
	defer out.Close()
	p.cmd = stageCommand(c, out, e.file, theirs, inherited)
	if err := p.cmd.Start(); err != nil {
		close(p.read)
		return errors.Join(err, lines.Close())
	}
	go func() {
		p.output.read(lines)
		_ = lines.Close()
		close(p.read)
	}()
	_ = theirs.Close()
	_ = inherited.Close()
	_ = out.Close()
	if err := p.sendConfig(c, e, ours); err != nil {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait() // it was killed
		<-p.read
		return err
	}
	return nil
}

// stageCommand is the command of the stage, which inherits files from fdExecutable on.
func stageCommand(c Config, out *os.File, files ...*os.File) *exec.Cmd {
	spaces := unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS
	if !c.Network {
		spaces |= unix.CLONE_NEWNET
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Args, cmd.Env, cmd.Dir = []string{stageName}, []string{}, "/"
	cmd.Stdout, cmd.Stderr = out, out
	cmd.ExtraFiles = files
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: uintptr(spaces), Setsid: true, Pdeathsig: unix.SIGKILL}
	return cmd
}

// sendConfig sends the stage its configuration and waits until it is applied.
func (p *Process) sendConfig(c Config, e *Executable, control *os.File) error {
	if err := p.group.add(p.cmd.Process.Pid); err != nil {
		c.Log.Warn("the service is limited only per process", "reason", err)
	}
	o := stageConfig{
		User: p.user.id, Dir: p.dir, Script: e.script, Hidden: c.Hidden, Limits: c.Limits,
		Argv: append([]string{e.Path}, c.Args...),
		Env: []string{"PATH=/usr/bin:/bin", "LANG=C.UTF-8", "HOME=/tmp", "TMPDIR=/tmp", "PYTHONDONTWRITEBYTECODE=1",
			"POLYCUBE_SERVICE=" + c.Name, SocketEnv + "=" + filepath.Join(viewDir, socketName),
			DescriptorsEnv + "=" + strconv.Itoa(fdDescriptors)},
	}
	if err := unix.SetsockoptTimeval(int(control.Fd()), unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: int64(startTime / time.Second)}); err != nil {
		return fmt.Errorf("set the time limit of its start: %w", err)
	}
	// Exactly the reply is read: closing a socket with unread data is an error here.
	text, err := json.Marshal(o)
	if err == nil {
		_, err = control.Write(text)
	}
	if err != nil {
		return fmt.Errorf("send its configuration: %w", err)
	}
	said, err := io.ReadAll(io.LimitReader(control, 4096))
	switch {
	case err != nil:
		return fmt.Errorf("wait for it: %w", err)
	case len(said) > 0:
		return errors.New(string(said))
	}
	return nil
}

// wait waits for the end of the process, which is also the end of its children: it is the init process of its PID
// namespace.
func (p *Process) wait() error {
	_ = p.cmd.Wait() // its state says more
	<-p.read
	status := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	how := fmt.Sprintf("exited with status %d", status.ExitStatus())
	if status.Signaled() {
		how = fmt.Sprintf("killed by signal %d (%s)", status.Signal(), status.Signal())
	}
	if p.stop.Load() {
		return nil
	}
	return exitText(how, p.output.lastLine())
}

// cleanUp releases what prepare created.
func (p *Process) cleanUp() error {
	err := p.group.remove()
	if p.descriptors != nil {
		err = errors.Join(err, p.descriptors.Close())
	}
	if p.dir != "" {
		err = errors.Join(err, os.RemoveAll(p.dir))
	}
	if p.user != nil {
		p.user.release()
	}
	return err
}

// Socket is where the daemon connects to the service.
func (p *Process) Socket() string { return filepath.Join(p.dir, socketName) }

// UID is the user of the service, which no other process has.
func (p *Process) UID() int { return p.user.id }

// Pid is its process ID.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Dial connects to the service as soon as it listens, and verifies that it is the service: nothing is ever sent to
// another process.
func (p *Process) Dial(ctx context.Context) (net.Conn, error) {
	dir, err := os.Open(p.dir)
	if err != nil {
		return nil, fmt.Errorf("connecting: %w", err)
	}
	defer dir.Close()
	// The path through the descriptor is short enough for an address, wherever the directory is.
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", "/proc/self/fd/"+strconv.Itoa(int(dir.Fd()))+"/"+socketName)
	if err != nil {
		return nil, fmt.Errorf("connecting: %w", err)
	}
	if err := p.checkPeer(conn); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// Pass sends the process a message with a file descriptor. It does not wait: EAGAIN if the process does not read its
// messages.
func (p *Process) Pass(message []byte, fd int) error {
	raw, err := p.descriptors.SyscallConn()
	if err != nil {
		return fmt.Errorf("pass a descriptor: %w", err)
	}
	var sent error
	if err := raw.Control(func(to uintptr) {
		sent = unix.Sendmsg(int(to), message, unix.UnixRights(fd), nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
	}); err != nil {
		return fmt.Errorf("pass a descriptor: %w", err)
	}
	if sent != nil {
		return fmt.Errorf("pass a descriptor: %w", sent)
	}
	return nil
}

func (p *Process) checkPeer(conn net.Conn) error {
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return fmt.Errorf("identify the listener: %w", err)
	}
	var peer *unix.Ucred
	var peerErr error
	if err := raw.Control(func(fd uintptr) { peer, peerErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); err != nil {
		return fmt.Errorf("identify the listener: %w", err)
	}
	switch {
	case peerErr != nil:
		return fmt.Errorf("identify the listener: %w", peerErr)
	case int(peer.Uid) != p.user.id:
		return fmt.Errorf("the listener on its socket is user %d, not the service's user %d: %w", peer.Uid, p.user.id, ErrUnsafe)
	}
	return nil
}

// Done is closed when the process and its children have ended and everything is cleaned up.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err says why it ended, once Done is closed; nil if it was stopped.
func (p *Process) Err() error {
	select {
	case <-p.done:
		return p.err
	default:
		return nil
	}
}

// Stop terminates the process, and kills it and its children when the context ends. It returns when everything is
// cleaned up. It is not an error if the process had already ended.
func (p *Process) Stop(ctx context.Context) error {
	select {
	case <-p.done:
		return nil
	default:
	}
	p.stop.Store(true)
	_ = p.cmd.Process.Signal(unix.SIGTERM) // it may have ended
	select {
	case <-p.done:
	case <-ctx.Done():
		p.kill()
		<-p.done
	}
	return p.left
}

func (p *Process) kill() { _ = p.cmd.Process.Kill() } // it may have ended
