// SPDX-License-Identifier: Apache-2.0

// The process of an SMF that is made of another library (test/core/smf): it reads commands, and prints what it has received.

package e2e

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/polycube/polycube/test/output"
	"github.com/polycube/polycube/test/smf"
)

// coreSMF is the environment variable with the path of the SMF.
const coreSMF = "POLYCUBE_CORE_SMF"

// foreign is a core whose SMF is that program.
type foreign struct {
	*core
	smf     *exec.Cmd
	in      io.Writer
	out     *output.Buffer
	started time.Time
	seid    string // of the session
	address string // of the phone
	numbers *numbered
}

// told is a message that the SMF has received: of a response or a request, what it says.
type told struct {
	what, kind string
	says       map[string]string
	usage      []string
}

// startSMF runs it, with a recovery time stamp that no other one of the test has had.
func (f *foreign) startSMF() {
	f.t.Helper()
	f.eventually(func() error {
		if time.Now().Unix() <= f.started.Unix() {
			return errors.New("it is the same second")
		}
		return nil
	})
	f.started, f.out = time.Now(), &output.Buffer{}
	f.smf = f.lab.Command(os.Getenv(coreSMF), smfAddress, upfAddress)
	f.smf.Stdout, f.smf.Stderr = f.out, f.out
	in, err := f.smf.StdinPipe()
	if err == nil {
		err = f.smf.Start()
	}
	if err != nil {
		f.t.Fatal(err)
	}
	f.in = in
	cmd, out := f.smf, f.out
	f.t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
		if f.t.Failed() {
			f.t.Logf("the SMF said:\n%s", tail(out.String(), 40))
		}
	})
	f.eventually(func() error {
		if !strings.HasPrefix(out.String(), "ready\n") {
			return fmt.Errorf("the SMF is not ready: %s", out)
		}
		return nil
	})
}

// stopSMF ends it as a crash does, after a look at what it has found.
func (f *foreign) stopSMF() {
	f.t.Helper()
	f.faults()
	_ = f.smf.Process.Kill()
	_ = f.smf.Wait() // it was killed
}

// faults reports what the SMF does not understand.
func (f *foreign) faults() {
	f.t.Helper()
	for line := range strings.Lines(f.out.String()) {
		if text, is := strings.CutPrefix(line, "fault "); is {
			f.t.Errorf("the SMF finds fault: %s", text)
		}
	}
}

// messages are those that the SMF has received, of responses or requests.
func (f *foreign) messages(what string) (list []told) {
	text := f.out.String()
	for line := range strings.Lines(text[:strings.LastIndexByte(text, '\n')+1]) {
		words := strings.Fields(line)
		if len(words) < 2 || words[0] != what {
			continue
		}
		m := told{what: what, kind: words[1], says: map[string]string{}}
		for _, word := range words[2:] {
			if name, value, _ := strings.Cut(word, "="); name == "usage" {
				m.usage = append(m.usage, value)
			} else {
				m.says[name] = value
			}
		}
		list = append(list, m)
	}
	return list
}

// ask has the SMF send a request, and checks its response: NAME=VALUE, and NAME for what has to be there.
func (f *foreign) ask(command string, want ...string) (response told) {
	f.t.Helper()
	before := len(f.messages("response"))
	if _, err := io.WriteString(f.in, command+"\n"); err != nil {
		f.t.Fatalf("%s: %v", command, err)
	}
	f.eventually(func() error {
		all := f.messages("response")
		if strings.Contains(f.out.String(), "fault "+command) {
			f.t.Fatalf("the SMF: %s", tail(f.out.String(), 5))
		}
		if len(all) == before {
			return fmt.Errorf("%s was not answered: %s", command, tail(f.out.String(), 5))
		}
		response = all[before]
		return nil
	})
	f.says(command, response, want)
	f.noteUsage(response)
	return response
}

// asked waits for a request of the UPF that says this.
func (f *foreign) asked(kind string, want ...string) (is told) {
	f.t.Helper()
	return f.askedAfter(func() {}, kind, want...)
}

// askedAfter does something again and again until then.
func (f *foreign) askedAfter(do func(), kind string, want ...string) (is told) {
	f.t.Helper()
	f.eventually(func() error {
		do()
		for _, m := range f.messages("request") {
			if m.kind == kind && len(missing(m, want)) == 0 {
				is = m
				return nil
			}
		}
		return fmt.Errorf("there is no %s with %v: %s", kind, want, tail(f.out.String(), 5))
	})
	return is
}

// missing are the words that a message does not say.
func missing(m told, want []string) (not []string) {
	for _, word := range want {
		name, value, exact := strings.Cut(word, "=")
		is, has := m.says[name]
		if name == "usage" {
			has = len(m.usage) > 0
		}
		if !has || exact && is != value {
			not = append(not, word)
		}
	}
	return not
}

func (f *foreign) says(what string, m told, want []string) {
	f.t.Helper()
	if not := missing(m, want); len(not) > 0 {
		f.t.Fatalf("%s: %+v does not say %v", what, m, not)
	}
}

// noteUsage reads the usage reports of a message.
func (f *foreign) noteUsage(m told) {
	f.t.Helper()
	for _, text := range m.usage {
		words := strings.Split(text, ":")
		if len(words) != 10 {
			f.t.Fatalf("usage report %q", text)
		}
		n := make([]uint64, len(words))
		for i, word := range words {
			var err error
			if n[i], err = strconv.ParseUint(word, 10, 64); err != nil && i != 2 {
				f.t.Fatalf("usage report %q: %v", text, err)
			}
		}
		u := smf.Usage{URR: uint32(n[0]), Sequence: uint32(n[1]), Total: n[3], Up: n[4], Down: n[5], UpPackets: n[7], DownPackets: n[8], Seconds: uint32(n[9])}
		if u.URR != 1 || u.Total != u.Up+u.Down || n[6] != u.UpPackets+u.DownPackets {
			f.t.Errorf("usage report %q does not add up", text)
		}
		f.reported = append(f.reported, u)
	}
}
