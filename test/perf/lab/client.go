// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// Client keeps its connection to a daemon, as programs do that send many requests.
type Client struct {
	d    *Daemon
	http *http.Client
}

// longest is how long an answer may take.
const longest = 5 * time.Minute

// Client creates a client, which survives restarts of the daemon.
func (d *Daemon) Client() *Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		var dialer net.Dialer
		return dialer.DialContext(ctx, "unix", d.socket())
	}
	c := &Client{d, &http.Client{Timeout: longest, Transport: &http.Transport{DialContext: dial}}}
	d.rig.Cleanup(c.http.CloseIdleConnections)
	return c
}

// Do sends a request and returns the time until the answer was read, the answer, and its Link header.
func (c *Client) Do(method, path, body string) (took time.Duration, answer []byte, link string, err error) {
	req, err := http.NewRequestWithContext(c.d.rig.Context(), method, "http://polycubed/polycube/v1"+path, strings.NewReader(body))
	if err != nil {
		return 0, nil, "", err
	}
	start := time.Now()
	resp, err := c.http.Do(req)
	if err != nil {
		return 0, nil, "", fmt.Errorf("%s %s: %w", method, path, err)
	}
	defer resp.Body.Close()
	answer, err = io.ReadAll(resp.Body)
	took = time.Since(start)
	if err == nil && resp.StatusCode >= http.StatusBadRequest {
		err = fmt.Errorf("status %s: %.500s", resp.Status, answer)
	}
	if err != nil {
		return 0, nil, "", fmt.Errorf("%s %s: %w", method, path, err)
	}
	return took, answer, resp.Header.Get("Link"), nil
}
