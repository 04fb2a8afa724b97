// SPDX-License-Identifier: Apache-2.0

// A captive portal: a phone whose requests are redirected.

package e2e

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/wmnsk/go-pfcp/ie"

	"github.com/polycube/polycube/test/smf"
)

// TestAPhoneIsRedirectedToAPortal, whose browser has a TCP of its own, until the SMF lets its packets pass.
func TestAPhoneIsRedirectedToAPortal(t *testing.T) {
	onEachUserPlane(t, func(t *testing.T, c *core) {
		const portal = "http://portal.example/start?device=7"
		content := bytes.Repeat([]byte("0123456789abcdef"), 1<<10)
		c.serve(content)
		c.attach()
		c.ran.Reaches(t, patience, webServer)
		c.modify(smf.FAR{ID: 1, Action: smf.Forward, Destination: ie.DstInterfaceCore, InParameters: []*ie.IE{ie.NewRedirectInformation(2, portal)}}.Update())

		// The server is never asked: it would send what no browser understands.
		for _, body := range []string{"", strings.Repeat("a form of many segments ", 200)} {
			status, to, err := c.browse("/news", body)
			if err != nil || status != http.StatusFound || to != portal {
				t.Errorf("status %d, to %q, %v", status, to, err)
			}
		}
		if conn, err := c.connect(webServer + ":443"); err == nil {
			t.Error("a server answers at another port")
			_ = conn.Close()
		}
		if out := c.Do("drops u"); !strings.Contains(out, "redirected") {
			t.Errorf("no packet of another port was dropped:\n%s", out)
		}
		c.modify(
			smf.FAR{ID: 3, Action: smf.Forward, Destination: ie.DstInterfaceCore}.Create(),
			ie.NewUpdatePDR(ie.NewPDRID(1), ie.NewFARID(3)),
			ie.NewRemoveFAR(ie.NewFARID(1)),
		)
		c.download(content)
		c.modify(ie.NewQueryURR(ie.NewURRID(1)))
		if up := c.interfaceCounts().Up; c.reported[len(c.reported)-1].Up >= up {
			t.Errorf("%+v was reported, %d bytes went through the phone's interface: those that were redirected are not charged", c.reported, up)
		}
	})
}

// connect opens a connection on the phone.
func (c *core) connect(address string) (conn net.Conn, err error) {
	c.ran.Must(func() error {
		conn, err = net.DialTimeout("tcp", address, patience/8)
		return nil
	})
	return conn, err
}

// browse requests a page of the server on the phone. It returns the status, and where to it is redirected.
func (c *core) browse(path, form string) (status int, to string, err error) {
	conn, err := c.connect(webServer + ":80")
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(patience))
	method := http.MethodGet
	if form != "" {
		method = http.MethodPost
	}
	request, err := http.NewRequestWithContext(c.t.Context(), method, "http://"+webServer+path, strings.NewReader(form))
	if err != nil {
		return 0, "", err
	}
	if err := request.Write(conn); err != nil {
		return 0, "", err
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), request)
	if err != nil {
		return 0, "", err
	}
	_, err = io.Copy(io.Discard, response.Body)
	return response.StatusCode, response.Header.Get("Location"), errors.Join(err, response.Body.Close())
}
