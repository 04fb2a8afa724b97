// SPDX-License-Identifier: Apache-2.0

package confine

// Tools: programs that read files, write one and end, such as a compiler whose input is not trusted.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// ToolDir is the directory of a tool's files as the tool sees it.
const ToolDir = viewDir

// Tool says what a program reads and writes.
type Tool struct {
	// Files are put into ToolDir before the program starts, by their path there.
	Files map[string][]byte
	// Result is the name of the file that it writes there, and MaxResult its maximum size.
	Result    string
	MaxResult int64
	// MaxOutput is how many bytes of its output are kept.
	MaxOutput int
}

// Outcome is what a tool has done.
type Outcome struct {
	// Failed says how it ended, if not with status 0.
	Failed error
	// Output is what it printed, on both outputs.
	Output string
	// Result is the content of the file that it wrote; nil if it wrote none, or failed.
	Result []byte
}

// Run runs a program to its end, confined as a service is, and kills it when the context ends. The error is one of the
// confinement or of the context.
func Run(ctx context.Context, c Config, tool Tool) (Outcome, error) {
	out := &capture{max: tool.MaxOutput}
	e, err := Open(c.Path)
	if err != nil {
		return Outcome{}, err
	}
	defer func() { _ = e.Close() }() // it was only read
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	c.Limits = c.Limits.withDefaults()
	var did Outcome
	var failed error
	p := &Process{group: &group{}, output: out, read: make(chan struct{}), done: make(chan struct{})}
	p.ended = func(exit error) {
		if state := p.cmd.ProcessState; state == nil || !state.Success() {
			did.Failed = exit
			return
		}
		did.Result, failed = readResult(p.dir, tool)
	}
	if err := errors.Join(p.prepare(c), p.putFiles(tool)); err != nil {
		return Outcome{}, errors.Join(fmt.Errorf("tool %s: %w", c.Name, err), p.cleanUp())
	}
	ready := make(chan error, 1)
	go p.supervise(c, e, ready)
	if err := <-ready; err != nil {
		<-p.done
		return Outcome{}, fmt.Errorf("tool %s: start %s: %w", c.Name, e.Path, err)
	}
	select {
	case <-p.done:
	case <-ctx.Done():
		p.kill()
		<-p.done
		return Outcome{}, errors.Join(fmt.Errorf("tool %s: %w", c.Name, ctx.Err()), p.left)
	}
	did.Output = out.text()
	return did, errors.Join(failed, p.left)
}

// putFiles writes the files of a tool into its directory.
func (p *Process) putFiles(tool Tool) error {
	if p.dir == "" {
		return nil
	}
	root, err := os.OpenRoot(p.dir)
	if err != nil {
		return fmt.Errorf("open its directory: %w", err)
	}
	defer func() { _ = root.Close() }()
	for path, content := range tool.Files {
		for i, c := range path {
			if c != '/' {
				continue
			}
			if err := root.Mkdir(path[:i], 0o755); err != nil && !errors.Is(err, os.ErrExist) {
				return fmt.Errorf("create its file %s: %w", path, err)
			}
		}
		f, err := root.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if err != nil {
			return fmt.Errorf("create its file %s: %w", path, err)
		}
		_, err = f.Write(content)
		if err = errors.Join(err, f.Close()); err != nil {
			return fmt.Errorf("write its file %s: %w", path, err)
		}
	}
	return nil
}

// readResult reads the file that a tool wrote. The tool chose what is there: anything but a file of its own is refused.
func readResult(dir string, tool Tool) ([]byte, error) {
	fd, err := unix.Open(filepath.Join(dir, tool.Result), unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil, nil
	}
	if errors.Is(err, unix.ELOOP) {
		return nil, fmt.Errorf("its result is a symbolic link: %w", ErrUnsafe)
	}
	if err != nil {
		return nil, fmt.Errorf("open its result: %w", err)
	}
	f := os.NewFile(uintptr(fd), tool.Result)
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, fmt.Errorf("read its result: %w", err)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("its result is no regular file: %w", ErrUnsafe)
	case info.Size() > tool.MaxResult:
		return nil, fmt.Errorf("its result has %d bytes, the limit is %d: %w", info.Size(), tool.MaxResult, ErrUnsafe)
	}
	raw, err := io.ReadAll(io.LimitReader(f, tool.MaxResult))
	if err != nil {
		return nil, fmt.Errorf("read its result: %w", err)
	}
	return raw, nil
}

// capture keeps the beginning of a program's output. It reads all of it, so that the program does not block.
type capture struct {
	max int

	mu   sync.Mutex
	kept strings.Builder
	lost bool
}

func (c *capture) read(r io.Reader) {
	buf := make([]byte, 4096)
	for {
		n, err := r.Read(buf)
		c.mu.Lock()
		keep := min(n, c.max-c.kept.Len())
		c.kept.Write(buf[:keep])
		c.lost = c.lost || keep < n
		c.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// lastLine is for the reason of an end, where the output is not shown elsewhere.
func (c *capture) lastLine() string { return "" }

func (c *capture) text() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	text := strings.ToValidUTF8(c.kept.String(), "?")
	if c.lost {
		text += "\n... (more output was left out)\n"
	}
	return text
}
