// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// FuzzRawRequest: whatever bytes an anonymous client on loopback sends, nothing changes,
// no answer is a fault of the daemon, and the next request is answered.
func FuzzRawRequest(f *testing.F) {
	for _, text := range []string{
		"GET /polycube/v1/lab/l1 HTTP/1.1\r\nHost: HOST\r\n\r\n",
		"POST /polycube/v1/lab/x HTTP/1.1\r\nHost: HOST\r\nContent-Length: 2\r\n\r\n{}",
		"DELETE /polycube/v1/lab/l1 HTTP/1.1\r\nHost: HOST\r\nAuthorization: Bearer full\r\n\r\n",
		"PATCH /polycube/v1/lab/l1 HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\nDELETE /polycube/v1/lab/l1 HTTP/1.1\r\nHost: HOST\r\n\r\n",
		"OPTIONS /polycube/v1/?help=SHOW HTTP/1.0\r\nHost: HOST\r\nOrigin: null\r\n\r\n",
		"GET http://HOST/polycube/v1/cubes/ HTTP/1.1\r\nHost: x\r\nReferer: http://HOST/\r\nX-HTTP-Method-Override: DELETE\r\n\r\n",
	} {
		f.Add(text)
	}
	l := newLab(f, Options{Tokens: someTokens{"s3cret": 2}, Rate: -1}, true)
	l.must(f, 201, "POST", "/cubes", labSetUp)
	before := l.do(f, "GET", "/cubes", "").body
	f.Fuzz(func(t *testing.T, text string) {
		c, err := net.Dial("tcp", l.tcp)
		if err != nil {
			t.Skipf("no connection is left: %v", err)
		}
		defer c.Close()
		if err := c.SetDeadline(time.Now().Add(shutdownPatience)); err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(c, strings.ReplaceAll(text, "HOST", l.tcp))
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.CloseWrite()
		}
		answer, _ := io.ReadAll(io.LimitReader(c, 1<<20)) // a reset is an end, too
		if strings.HasPrefix(string(answer), "HTTP/1.1 500") {
			t.Errorf("%q is answered %.300q", text, answer)
		}
		if after := l.do(t, "GET", "/cubes", "").body; after != before {
			t.Errorf("%q changed something:\n%s\n%s", text, before, after)
		}
	})
}
