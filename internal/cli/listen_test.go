// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/polycube/polycube/test/output"
	"github.com/polycube/polycube/test/pace"
	"github.com/polycube/polycube/test/pki"
)

// twoSteps is a stream that has its last word when the client closes its side, or, of a deaf daemon, none.
func twoSteps(deaf <-chan struct{}) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, `{"cube":"h1","verdict":"drop","reason":"action-drop"}`+"\n"+`{"cube":"h1","verdict":"pass"}`+"\n")
		_ = http.NewResponseController(w).Flush()
		if deaf != nil {
			<-deaf
			return
		}
		<-r.Context().Done()
		_, _ = io.WriteString(w, `{"cube":"h1","verdict":"drop","reason":"action-drop"}`+"\n"+`{"end":"ended by the client","steps":3,"lost":4,"lost-in-ring":5}`+"\n")
	}
}

// program is a run of the test binary as the client, until it has shown two lines.
func (d *daemon) program(t *testing.T, args ...string) (cmd *exec.Cmd, out, said *output.Buffer, ended chan error) {
	t.Helper()
	out, said, ended = &output.Buffer{}, &output.Buffer{}, make(chan error, 1)
	cmd = exec.Command(os.Args[0], args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), actAsProgram+"=1"), out, said
	for name, value := range d.env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // it may have ended
	go func() { ended <- cmd.Wait() }()
	soon(t, func() error {
		if strings.Count(out.String(), "\n") < 2 {
			return fmt.Errorf("it shows %q and says %q", out.String(), said.String())
		}
		return nil
	})
	return cmd, out, said, ended
}

// soon waits until a condition holds.
func soon(t *testing.T, holds func() error) {
	t.Helper()
	deadline := time.Now().Add(pace.Stretch(20 * time.Second))
	for tick := time.Tick(5 * time.Millisecond); ; <-tick {
		err := holds()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// TestAnInterruptedStreamHasItsLastWord over each kind of connection.
func TestAnInterruptedStreamHasItsLastWord(t *testing.T) {
	secure := httptest.NewUnstartedServer(twoSteps(nil))
	authority := pki.Authority(t, "root")
	secure.TLS = &tls.Config{Certificates: []tls.Certificate{authority.Server(t).TLS()}}
	secure.StartTLS()
	t.Cleanup(secure.Close)
	ca := pki.Place(t, filepath.Join(t.TempDir(), "ca.pem"), authority.PEM())
	for name, d := range map[string]*daemon{
		"unix": newDaemon(t, "unix", twoSteps(nil)), "tcp": newDaemon(t, "tcp", twoSteps(nil)),
		"tls": {env: map[string]string{"HOME": t.TempDir(), "POLYCUBECTL_URL": secure.URL, "POLYCUBECTL_CACERT": ca}},
	} {
		cmd, out, said, ended := d.program(t, "trace")
		if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		err := <-ended
		want := "listening on all cubes, Ctrl-C to stop\n3 steps, 9 lost\ndropped: h1 action-drop 2\n"
		if err != nil || said.String() != want || strings.Count(out.String(), "\n") != 3 {
			t.Errorf("%s: %v, it shows %q and says %q, want %q", name, err, out.String(), said.String(), want)
		}
	}
}

// TestADaemonThatDoesNotHearTheEnd, behind a proxy for example: the summary comes without the daemon's figures. A second
// signal ends the program at once.
func TestADaemonThatDoesNotHearTheEnd(t *testing.T) {
	deaf := make(chan struct{})
	d := newDaemon(t, "unix", twoSteps(deaf))
	t.Cleanup(func() { close(deaf) })
	patient, _, said, patientEnds := d.program(t, "trace")
	hasty, _, _, hastyEnds := d.program(t, "trace")
	if err := patient.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	soon(t, func() error {
		select {
		case err := <-hastyEnds:
			var exit *exec.ExitError
			if status, ok := hasty.ProcessState.Sys().(syscall.WaitStatus); !errors.As(err, &exit) || !ok || status.Signal() != syscall.SIGINT {
				t.Errorf("two signals: %v", err)
			}
			return nil
		default:
			return errors.Join(errors.New("two signals do not end it"), hasty.Process.Signal(syscall.SIGINT))
		}
	})
	const want = "\n2 steps, number lost unknown\ndropped: h1 action-drop 1\n"
	if err := <-patientEnds; err != nil || !strings.HasSuffix(said.String(), want) {
		t.Errorf("%v, it says %q, want %q", err, said.String(), want)
	}
}

func TestTheSummaryOfAWatcher(t *testing.T) {
	for want, seen := range map[string]tally{
		"1 step, 0 lost\n": {unit: "step", count: 1, known: true},
		"0 packets, 7 lost, written to a\\nb (time limit reached)\n":         {unit: "packet", known: true, lost: 7, file: "a\nb", end: "time limit reached"},
		"2 events, 0 lost\nby type: config 2\n":                              {unit: "event", count: 2, known: true, types: map[string]int{"config": 2}},
		"9 steps, 0 lost\ndropped: br1 no-peer 4, h1 a 4, h1 b 1\n":          {unit: "step", count: 9, known: true, drops: map[string]int{"h1 b": 1, "h1 a": 4, "br1 no-peer": 4}},
		"3 events, 5 lost, number lost unknown\nby type: cube 2, daemon 1\n": {unit: "event", count: 3, lost: 5, types: map[string]int{"daemon": 1, "cube": 2}},
	} {
		if got := seen.text(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	missed := tally{unit: "event", known: true}
	missed.event("lost", 5)
	if missed.event("port", 0); missed.count != 1 || missed.lost != 5 || !missed.known {
		t.Errorf("%+v, want one event and five lost", missed)
	}
	if missed.event("lost", 0); missed.known {
		t.Errorf("%+v, but nobody knows how many are missing", missed)
	}
}
