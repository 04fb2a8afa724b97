// SPDX-License-Identifier: Apache-2.0

// A response without an end: it is read as it arrives, until the user has seen enough. No timeout applies once it has
// begun.

package cli

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

// maxLine is the longest line of a stream.
const maxLine = 1 << 20

// stream requests a stream of lines, prints what it listens to, and calls each for every line.
func (s *session) stream(r request, what string, t *tally, each func(line []byte) error) error {
	return s.open(r, func(body *interruptible) error {
		return s.watchStream(body, what, t, func() error {
			lines := bufio.NewScanner(body)
			lines.Buffer(make([]byte, 0, 64<<10), maxLine)
			for lines.Scan() {
				if line := bytes.TrimSpace(lines.Bytes()); len(line) > 0 {
					if err := each(line); err != nil {
						return err
					}
				}
			}
			return lines.Err()
		})
	})
}

// open sends a request and returns the body of a success response.
func (s *session) open(r request, read func(body *interruptible) error) error {
	c, err := s.connect()
	if err != nil {
		return err
	}
	defer c.close()
	s.sent = r
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	patience := time.AfterFunc(s.config.timeout, cancel)
	defer patience.Stop()
	resp, err := c.begin(ctx, r)
	if !patience.Stop() && err != nil {
		err = c.end.explain(context.DeadlineExceeded)
	}
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	s.status = resp.StatusCode
	a := answer{status: resp.StatusCode, line: resp.Proto + " " + resp.Status}
	if !a.ok() {
		if a.body, err = readAnswer(resp.Body); err != nil {
			return c.end.explain(err)
		}
		return &serverError{sentences(a)}
	}
	body := &interruptible{Reader: resp.Body, cancel: cancel}
	defer body.watch(c)()
	err = read(body)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("the daemon at %s closed the stream early", c.end)
	}
	return err
}

// begin sends a request and returns the response before its body. Resources of the framework are not redirected.
func (c *client) begin(ctx context.Context, r request) (*http.Response, error) {
	target, err := url.Parse(c.end.base.String() + r.target())
	if err != nil {
		return nil, fmt.Errorf("build the URL: %w", err)
	}
	req, err := c.newRequest(ctx, r, target)
	if err != nil {
		return nil, err
	}
	c.trace("> "+r.method+" "+target.String(), r.body)
	resp, err := c.http.RoundTrip(req)
	if err != nil {
		return nil, c.end.explain(err)
	}
	c.trace("< "+resp.Proto+" "+resp.Status, nil)
	return resp, nil
}
