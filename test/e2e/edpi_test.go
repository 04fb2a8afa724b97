// SPDX-License-Identifier: Apache-2.0

// Deep packet inspection: polycube-ndpi and a daemon as processes, and a client and a server of TLS.

package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/output"
)

// inspected is a bridge with a edpi on the port of the client, and polycube-ndpi.
type inspected struct {
	*daemon
	t              *testing.T
	client, server *netns.Node
	ndpi           *exec.Cmd
	said           *output.Buffer
	eve            string
	more           []string
}

func newInspected(t *testing.T, typ, conf string, more ...string) *inspected {
	t.Helper()
	program(t, "polycube-ndpi")
	n := &inspected{t: t, daemon: start(t), more: more}
	options := []netns.Option{netns.WithoutTxChecksum(), netns.WithGRO()}
	n.client, n.server = n.lab.Host("veth1", "10.0.0.1/24", options...), n.lab.Host("veth2", "10.0.0.2/24", options...)
	for _, line := range []string{
		"simplebridge add br1 type=" + typ, "br1 ports add p1 peer=veth1", "br1 ports add p2 peer=veth2",
		"edpi add dpi1 type=" + typ + " " + conf, "attach dpi1 br1:p1",
	} {
		n.Do(line)
	}
	n.eve = filepath.Join(n.dir, "eve.json")
	n.serveTLS()
	n.startNDPI()
	return n
}

// serveTLS runs a server with a certificate of its own. A client that falls silent does not hold up others.
func (n *inspected) serveTLS() {
	n.t.Helper()
	var l net.Listener
	n.server.Must(func() (err error) {
		l, err = net.Listen("tcp", ":443")
		return err
	})
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }))
	_ = s.Listener.Close() // it is on the loopback of the machine
	s.Listener = l
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	n.t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
}

func (n *inspected) control() string { return filepath.Join(n.dir, "ndpi.sock") }

// startNDPI runs polycube-ndpi until the cube knows it.
func (n *inspected) startNDPI() {
	n.t.Helper()
	said := &output.Buffer{}
	args := append([]string{"--cube", "dpi1", "--socket", n.socket(), "--bpffs", n.pins, "--control", n.control(), "--log", n.eve}, n.more...)
	cmd := n.lab.Command(program(n.t, "polycube-ndpi"), args...)
	cmd.Stdout, cmd.Stderr = said, said
	if err := cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
	n.ndpi, n.said = cmd, said
	n.t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
		if n.t.Failed() {
			n.t.Logf("polycube-ndpi said:\n%s", tail(said.String(), 40))
		}
	})
	n.until("classifier status", `"UP"`)
}

// until waits until state of the cube contains a text.
func (n *inspected) until(path, want string) {
	n.t.Helper()
	netns.Eventually(n.t, patience, func() error {
		if is := n.Must(http.StatusOK, http.MethodGet, "/edpi/dpi1/"+strings.ReplaceAll(path, " ", "/"), ""); !strings.Contains(is, want) {
			return fmt.Errorf("%s is %s, want %s\n%s", path, is, want, n.said)
		}
		return nil
	})
}

// fetch asks the server for a page, under a name. It returns what became of it.
func (n *inspected) fetch(name string) error {
	cmd := n.client.Command("curl", "-sk", "--max-time", "3", "--tls-max", "1.2", "--resolve", name+":443:10.0.0.2", "https://"+name+"/")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// fetches waits until the server answers.
func (n *inspected) fetches(name string) {
	n.t.Helper()
	netns.Eventually(n.t, patience, func() error { return n.fetch(name) })
}

// isDropped waits until the server does not answer for a name. A short answer may come before the decision.
func (n *inspected) isDropped(name string) {
	n.t.Helper()
	netns.Eventually(n.t, patience, func() error {
		if n.fetch(name) == nil {
			return fmt.Errorf("the server answers for %s", name)
		}
		return nil
	})
}

func TestFlowsOfAnApplicationAreDropped(t *testing.T) {
	for _, typ := range []string{"TC", "XDP_DRV"} {
		t.Run(typ, func(t *testing.T) {
			n := newInspected(t, typ, "on-failure=CLOSED ended-timeout=1")
			n.fetches("www.example.com")
			n.Do("dpi1 policy add PROTOCOL NetFlix action=DROP")
			n.until("policy/PROTOCOL/NetFlix/in-effect", "true")
			n.isDropped("www.netflix.com")
			if err := n.fetch("www.example.com"); err != nil {
				t.Errorf("another name: %v", err)
			}
			n.until("flow", `"NetFlix"`)
			netns.Eventually(t, patience, func() error { return n.logged("www.example.com") })

			// While it hangs, flows without a class are dropped, from a second on; then it continues.
			n.signal(syscall.SIGSTOP)
			n.until("classifier status", `"DOWN"`)
			if err := n.fetch("www.example.com"); err == nil {
				t.Error("the server answers while the classifier hangs")
			}
			n.signal(syscall.SIGCONT)
			n.until("classifier status", `"UP"`)
			n.fetches("www.example.com")

			// It dies, and another one comes.
			n.signal(syscall.SIGKILL)
			_ = n.ndpi.Wait() // it was killed
			n.until("classifier status", `"DOWN"`)
			n.Do("dpi1 set on-failure=OPEN")
			if err := n.fetch("www.netflix.com"); err != nil {
				t.Errorf("without a classifier, with on-failure OPEN: %v", err)
			}
			n.startNDPI()
			n.until("policy/PROTOCOL/NetFlix/in-effect", "true")
			n.isDropped("www.netflix.com")
			n.fetches("www.example.com")
		})
	}
}

func (n *inspected) signal(s syscall.Signal) {
	n.t.Helper()
	if err := n.ndpi.Process.Signal(s); err != nil {
		n.t.Fatal(err)
	}
}

// logged looks for the line of a flow that has ended, and that of its certificate.
func (n *inspected) logged(host string) error {
	text, err := os.ReadFile(n.eve)
	if err != nil {
		return err
	}
	var flow, risk bool
	for line := range strings.Lines(string(text)) {
		var e struct {
			Type    string `json:"event_type"`
			App     string `json:"app_proto"`
			Anomaly struct{ Event string }
			NDPI    struct{ Hostname string }
			Flow    struct {
				Bytes int `json:"bytes_toclient"`
			}
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			return fmt.Errorf("%w: %s", err, line)
		}
		flow = flow || e.Type == "flow" && e.App == "tls" && e.NDPI.Hostname == host && e.Flow.Bytes > 500
		risk = risk || e.Type == "anomaly" && strings.Contains(e.Anomaly.Event, "Certificate")
	}
	if !flow || !risk {
		return fmt.Errorf("the log has a flow: %v, a risk: %v:\n%s", flow, risk, text)
	}
	return nil
}
