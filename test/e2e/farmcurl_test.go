// SPDX-License-Identifier: Apache-2.0

// nginx as the servers of a farm, and curl as its client: requests on a connection that is kept, and downloads that last. curl
// waits while nobody reads its output, so its connections last as long as the test uses them.

package e2e

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/output"
)

// sites are what servers offer: a page, and a file that is long enough not to fit into the buffers of the sockets.
type sites struct {
	t   *testing.T
	dir string
	// files are the files of servers, by number; the page of each is its beginning.
	files [4][]byte
}

const (
	pageSize = 16 << 10
	fileSize = 24 << 20
	// pieceSize is how much of a response is read at a time.
	pieceSize = 128 << 10
)

// newSites writes the files.
func newSites(t *testing.T) *sites {
	t.Helper()
	s := &sites{t: t, dir: t.TempDir()}
	for n := 1; n < len(s.files); n++ {
		s.files[n] = make([]byte, fileSize)
		random := rand.NewChaCha8([32]byte{byte(n)})
		_, _ = random.Read(s.files[n]) // it never fails
		root := filepath.Join(s.dir, strconv.Itoa(n))
		err := errors.Join(os.Mkdir(root, 0o755), os.WriteFile(filepath.Join(root, "page"), s.files[n][:pageSize], 0o644),
			os.WriteFile(filepath.Join(root, "file"), s.files[n], 0o644))
		if err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// nginxConfig has the directory of nginx, its addresses, its number, and the directory of its files.
const nginxConfig = `daemon off;
master_process off;
pid %[1]s/pid;
error_log stderr;
events { worker_connections 4096; }
http {
	access_log off;
	client_body_temp_path %[1]s/body; proxy_temp_path %[1]s/proxy; fastcgi_temp_path %[1]s/fastcgi; uwsgi_temp_path %[1]s/uwsgi; scgi_temp_path %[1]s/scgi;
	keepalive_requests 1000000;
	server {
		listen %[2]s;
		listen %[3]s;
		add_header X-Server %[4]d;
		root %[5]s;
	}
}
`

// serve starts nginx on the host of a server.
func (s *sites) serve(f *farm, n int, addresses [2]string) *exec.Cmd {
	f.t.Helper()
	dir, port := f.t.TempDir(), fmt.Sprint(80+f.shift)
	for v, a := range addresses {
		addresses[v] = net.JoinHostPort(a, port)
	}
	file := filepath.Join(dir, "nginx.conf")
	conf := fmt.Sprintf(nginxConfig, dir, addresses[0], addresses[1], n, filepath.Join(s.dir, strconv.Itoa(n)))
	if err := os.WriteFile(file, []byte(conf), 0o644); err != nil {
		f.t.Fatal(err)
	}
	out := &output.Buffer{}
	cmd := f.hosts[n].Command("nginx", "-p", dir, "-e", "stderr", "-c", file)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() {
		if f.t.Failed() {
			f.t.Logf("nginx %d said:\n%s", n, tail(out.String(), 20))
		}
	})
	netns.Eventually(f.t, patience, func() error {
		return f.hosts[n].Do(func() error {
			for _, a := range addresses {
				c, err := net.DialTimeout("tcp", a, patience)
				if err != nil {
					return err
				}
				c.Close()
			}
			return nil
		})
	})
	return cmd
}

// page and file are protocols: curl reads pages one after the other, or files.
func (s *sites) page(family int) protocol {
	return protocol{"pages by curl", family, func(f *farm, family int) (asker, error) { return s.curl(f, family, "page", pageSize) }}
}

func (s *sites) file(family int) protocol {
	return protocol{"files by curl", family, func(f *farm, family int) (asker, error) { return s.curl(f, family, "file", fileSize) }}
}

// curl is a process that makes requests on one connection.
type curl struct {
	sites     *sites
	cmd       *exec.Cmd
	said      *output.Buffer // its errors
	out       *os.File
	in        *bufio.Reader
	size      int // of a response
	responses int
	response  *http.Response // nil between responses
	server    int            // that it is from
	at        int            // how much of it was read
}

func (s *sites) curl(f *farm, family int, name string, size int) (asker, error) {
	out, stdout, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer stdout.Close()
	c := &curl{sites: s, said: &output.Buffer{}, out: out, in: bufio.NewReaderSize(out, pieceSize), size: size}
	// The numbers make URLs of their own; each transfer is followed by how many connections it opened.
	url := fmt.Sprintf("http://%s/%s?[1-1000000]", net.JoinHostPort(f.vips[family], "80"), name)
	c.cmd = f.client.Command("curl", "-q", "-sS", "-i", "--no-buffer", "-w", `%{num_connects}\n`, url)
	c.cmd.Stdout, c.cmd.Stderr = stdout, c.said
	if err := c.cmd.Start(); err != nil {
		return nil, errors.Join(err, out.Close())
	}
	return c, nil
}

// Close ends curl.
func (c *curl) Close() error {
	_ = c.cmd.Process.Kill() // it may have ended
	_ = c.cmd.Wait()
	return c.out.Close()
}

// ask reads the next piece of a response, which is from the server, complete, and on the connection.
func (c *curl) ask(line string) (string, error) {
	err := c.out.SetReadDeadline(time.Now().Add(patience))
	if err == nil && c.response == nil {
		err = c.begin()
	}
	if err == nil {
		err = c.read()
	}
	if err != nil {
		return "", fmt.Errorf("response %d, after %d bytes: %w: %s", c.responses+1, c.at, err, c.said)
	}
	return fmt.Sprintf("%d %s", c.server, line), nil
}

// begin reads the header of a response.
func (c *curl) begin() (err error) {
	c.response, err = http.ReadResponse(c.in, nil) //nolint:bodyclose // that would read to the end; the source is a pipe
	if err != nil {
		return err
	}
	c.at = 0
	c.server, err = strconv.Atoi(c.response.Header.Get("X-Server"))
	if err != nil || c.server < 1 || c.server >= len(c.sites.files) || c.response.StatusCode != http.StatusOK {
		return fmt.Errorf("an answer with status %s of server %d (%w)", c.response.Status, c.server, err)
	}
	return nil
}

// read reads a piece, and behind the last one whether a connection was opened.
func (c *curl) read() error {
	b := make([]byte, min(pieceSize, c.size-c.at))
	if _, err := io.ReadFull(c.response.Body, b); err != nil {
		return err
	}
	if !bytes.Equal(b, c.sites.files[c.server][c.at:c.at+len(b)]) {
		return fmt.Errorf("%d bytes differ from those of server %d", len(b), c.server)
	}
	if c.at += len(b); c.at < c.size {
		return nil
	}
	if n, err := io.Copy(io.Discard, c.response.Body); err != nil || n != 0 {
		return fmt.Errorf("%d bytes more (%w)", n, err)
	}
	opened, err := c.in.ReadString('\n')
	if err != nil {
		return err
	}
	want := "0"
	if c.responses == 0 {
		want = "1"
	}
	if opened = strings.TrimSpace(opened); opened != want {
		return fmt.Errorf("it took %s new connections, want %s", opened, want)
	}
	c.responses++
	c.response = nil
	return nil
}

// TestDownloadsFromNginxOutliveChangesOfServers: curl keeps its connections to nginx, and reads complete responses.
func TestDownloadsFromNginxOutliveChangesOfServers(t *testing.T) {
	eachNginx(t, func(t *testing.T, conf farm, kind string, connections int) {
		newFarm(t, newMachine(t), kind, conf).live(connections)
	})
}

func TestDownloadsFromNginxOutliveAnUpgrade(t *testing.T) {
	eachNginx(t, func(t *testing.T, conf farm, kind string, connections int) { upgrade(t, kind, conf, connections) })
}

// eachNginx runs a test with nginx and curl for each load balancer at hooks.
func eachNginx(t *testing.T, test func(t *testing.T, conf farm, kind string, connections int)) {
	t.Helper()
	for _, program := range []string{"nginx", "curl"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("needs %s: run scripts/deps.sh build (%v)", program, err)
		}
	}
	connections, kinds := 16, []string{"TC", "XDP_DRV"}
	if soak {
		connections, kinds = 100, types
	}
	s := newSites(t)
	eachBalancer(t, kinds, func(t *testing.T, b balancer, kind string) {
		test(t, farm{balancer: b, services: farmServices[:1], serve: s.serve, heavy: true,
			protocols: []protocol{s.page(0), s.file(0), s.page(1), s.page(0)}}, kind, connections)
	})
}
