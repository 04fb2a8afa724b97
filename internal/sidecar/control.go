// SPDX-License-Identifier: Apache-2.0

package sidecar

// The socket of a program, at which it shows its status.

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// listen listens on the socket of the program; one of a process that has ended is replaced.
func listen(path string) (net.Listener, error) {
	if c, err := net.Dial("unix", path); err == nil {
		_ = c.Close()
		return nil, fmt.Errorf("--control %s: another process listens there", path)
	}
	if info, err := os.Lstat(path); err == nil && info.Mode()&os.ModeSocket != 0 {
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("--control: %w", err)
		}
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("--control: %w", err)
	}
	was := unix.Umask(0o077)
	defer unix.Umask(was)
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("--control: %w", err)
	}
	return l, nil
}

// serve serves HTTP until the server is closed.
func serve(l net.Listener, h http.Handler) *http.Server {
	s := &http.Server{Handler: h, ReadHeaderTimeout: Patience}
	go func() { _ = s.Serve(l) }() // until it is closed
	return s
}

// ask returns what a program answers at its socket.
func ask(ctx context.Context, program, socket, method, name string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, method, "http://localhost/"+name, nil)
	if err != nil {
		return nil, err
	}
	answer, err := client(socket).Do(r)
	if err != nil {
		return nil, fmt.Errorf("no %s answers at %s: %w", program, socket, err)
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 16<<20))
	switch {
	case err != nil:
		return nil, err
	case answer.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("%s", bytes.TrimSpace(text))
	}
	return text, nil
}
