// SPDX-License-Identifier: Apache-2.0

package upf

// The API of polycubed: it says where the tables of the cube are, and sends End Markers.

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"time"
)

// patience is how long the daemon may take to answer.
const patience = 10 * time.Second

// daemon is a polycubed.
type daemon struct{ http *http.Client }

// newDaemon returns the daemon that listens on a Unix socket.
func newDaemon(socket string) *daemon {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", socket)
	}
	return &daemon{&http.Client{Timeout: patience, Transport: &http.Transport{DialContext: dial}}}
}

// cubeState is what the program has to know of its cube.
type cubeState struct {
	UUID   string `json:"uuid"`
	Locals []struct {
		Address netip.Addr `json:"address"`
	} `json:"local-address"`
}

// errNoCube is a cube that does not exist.
var errNoCube = errors.New("there is no such cube")

// cube reads the state of a cube `upf`.
func (d *daemon) cube(ctx context.Context, name string) (is cubeState, err error) {
	for _, part := range []struct {
		path string
		to   any
	}{{"uuid", &is.UUID}, {"local-address", &is.Locals}} {
		body, err := d.do(ctx, http.MethodGet, "upf/"+url.PathEscape(name)+"/"+part.path+"/", nil)
		if err != nil {
			return is, fmt.Errorf("cube %s: %w", name, err)
		}
		if err := json.Unmarshal(body, part.to); err != nil {
			return is, fmt.Errorf("cube %s: %s: %w", name, part.path, err)
		}
	}
	return is, nil
}

// endMarker makes a cube send an End Marker.
func (d *daemon) endMarker(ctx context.Context, name string, peer netip.Addr, teid uint32) error {
	body, err := json.Marshal(map[string]any{"tunnel-endpoint": peer, "remote-teid": teid})
	if err != nil {
		return err
	}
	_, err = d.do(ctx, http.MethodPost, "upf/"+url.PathEscape(name)+"/end-marker/", body)
	return err
}

// do sends a request and returns the body of the answer.
func (d *daemon) do(ctx context.Context, method, path string, body []byte) ([]byte, error) {
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
		return nil, errNoCube
	case answer.StatusCode/100 != 2:
		return nil, fmt.Errorf("%s %s: %s", method, path, bytes.TrimSpace(text))
	}
	return text, nil
}
