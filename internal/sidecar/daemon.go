// SPDX-License-Identifier: Apache-2.0

// Package sidecar is what programs beside the daemon share: they ask polycubed for their cube, write its tables, and show what
// they do at a socket of their own.
package sidecar

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"
)

// Patience is how long an answer may take.
const Patience = 10 * time.Second

// ErrNoCube is a cube that does not exist.
var ErrNoCube = errors.New("there is no such cube")

// Daemon is a polycubed.
type Daemon struct{ http *http.Client }

// NewDaemon returns the daemon that listens on a Unix socket.
func NewDaemon(socket string) *Daemon { return &Daemon{client(socket)} }

// client speaks HTTP at a Unix socket.
func client(socket string) *http.Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", socket)
	}
	return &http.Client{Timeout: Patience, Transport: &http.Transport{DialContext: dial}}
}

// Read reads a node of a cube.
func (d *Daemon) Read(ctx context.Context, service, cube, path string, to any) error {
	body, err := d.Do(ctx, http.MethodGet, service+"/"+url.PathEscape(cube)+"/"+path+"/", nil)
	if err != nil {
		return fmt.Errorf("cube %s: %w", cube, err)
	}
	if err := json.Unmarshal(body, to); err != nil {
		return fmt.Errorf("cube %s: %s: %w", cube, path, err)
	}
	return nil
}

// Do sends a request and returns the body of the answer.
func (d *Daemon) Do(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, method, "http://localhost/polycube/v1/"+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := d.http.Do(r)
	if err != nil {
		return nil, fmt.Errorf("polycubed does not answer: %w", err)
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s %s: %w", method, path, err)
	case answer.StatusCode == http.StatusNotFound:
		return nil, ErrNoCube
	case answer.StatusCode/100 != 2:
		return nil, fmt.Errorf("%s %s: %s", method, path, bytes.TrimSpace(text))
	}
	return text, nil
}
