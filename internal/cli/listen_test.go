// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
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
	"testing/iotest"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

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

// captureOf is a file of three packets, one of which was dropped, and its end.
func captureOf(t *testing.T) (file []byte, ends []int) {
	t.Helper()
	var b bytes.Buffer
	w, err := pcapgo.NewNgWriterInterface(&b, pcapgo.NgInterface{Name: "br1:p1", LinkType: layers.LinkTypeEthernet}, pcapgo.DefaultNgWriterOptions)
	if err != nil {
		t.Fatal(err)
	}
	mark := func() {
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		ends = append(ends, b.Len())
	}
	mark()
	for i, fate := range []string{"flood", "drop too-big", "sent"} {
		data := bytes.Repeat([]byte{byte(i)}, 61+i)
		err := w.WritePacketWithOptions(gopacket.CaptureInfo{Timestamp: time.Unix(1, 0), CaptureLength: len(data), Length: len(data)}, data,
			pcapgo.NgPacketOptions{Comments: []string{"port br1:p1", "fate " + fate}})
		if err != nil {
			t.Fatal(err)
		}
		mark()
	}
	if err := w.WriteInterfaceStats(0, pcapgo.NgInterfaceStatistics{LastUpdate: time.Unix(2, 0), PacketsReceived: 3, PacketsDropped: 6}); err != nil {
		t.Fatal(err)
	}
	mark()
	return b.Bytes(), ends
}

// TestACaptureIsCopiedInWholeBlocks, wherever its stream ends.
func TestACaptureIsCopiedInWholeBlocks(t *testing.T) {
	file, ends := captureOf(t)
	for n := range len(file) + 1 {
		var out bytes.Buffer
		seen := tally{unit: "packet"}
		if err := copyBlocks(&out, bytes.NewReader(file[:n]), &seen); err != nil {
			t.Fatalf("%d bytes: %v", n, err)
		}
		whole, packets := 0, -1
		for _, end := range ends {
			if end <= n {
				whole, packets = end, packets+1
			}
		}
		// the block of the section ends before the first of the ends
		if got := out.Len(); got != whole && n >= ends[0] || !bytes.HasPrefix(file, out.Bytes()) {
			t.Fatalf("of %d bytes, %d are written, want %d", n, got, whole)
		}
		if want := max(0, min(packets, 3)); seen.count != want {
			t.Fatalf("of %d bytes, %d packets are counted, want %d", n, seen.count, want)
		}
		if all := n == len(file); seen.known != all || all && (seen.lost != 6 || seen.drops["br1 too-big"] != 1) {
			t.Fatalf("of %d bytes, this is known: %+v", n, seen)
		}
	}
}

// TestACaptureThatIsCutOff is an error, within a block and between two, with the whole blocks written.
func TestACaptureThatIsCutOff(t *testing.T) {
	file, ends := captureOf(t)
	for n, whole := range map[int]int{ends[2]: ends[2], ends[2] + 5: ends[2], ends[2] + 40: ends[2]} {
		var out bytes.Buffer
		err := copyBlocks(&out, io.MultiReader(bytes.NewReader(file[:n]), iotest.ErrReader(io.ErrUnexpectedEOF)), &tally{})
		if !errors.Is(err, io.ErrUnexpectedEOF) || out.Len() != whole {
			t.Errorf("after %d bytes: %v, %d bytes are written, want %d", n, err, out.Len(), whole)
		}
	}
}

// TestACaptureThatIsNone is refused after its valid blocks were written.
func TestACaptureThatIsNone(t *testing.T) {
	file, ends := captureOf(t)
	for name, length := range map[string]uint32{"empty": 0, "odd": 33, "huge": 1 << 31} {
		bad := bytes.Clone(file)
		binary.LittleEndian.PutUint32(bad[ends[1]+4:], length)
		var out bytes.Buffer
		err := copyBlocks(&out, bytes.NewReader(bad), &tally{})
		if err == nil || !strings.Contains(err.Error(), "cannot parse") || out.Len() != ends[1] {
			t.Errorf("%s: %v, %d bytes are written, want %d", name, err, out.Len(), ends[1])
		}
	}
	big := bytes.Clone(file[:ends[0]])
	for i := 0; i < 12; i += 4 { // the same section, written by a machine of the other order
		binary.BigEndian.PutUint32(big[i:], binary.LittleEndian.Uint32(big[i:]))
	}
	if err := copyBlocks(io.Discard, bytes.NewReader(big[:binary.BigEndian.Uint32(big[4:])]), &tally{}); err != nil {
		t.Errorf("the other order: %v", err)
	}
}
