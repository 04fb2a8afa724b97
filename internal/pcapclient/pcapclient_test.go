// SPDX-License-Identifier: Apache-2.0

package pcapclient

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// source answers reads from a script.
type source struct {
	answers []any // answer or error
	asked   []int
	away    bool
	stop    chan struct{}
}

func (s *source) read(_ string, most int) ([]byte, bool, error) {
	s.asked = append(s.asked, most)
	if len(s.answers) == 0 {
		close(s.stop)
		s.stop = make(chan struct{})
		raw, err := json.Marshal(answer{Header: []byte("HEAD"), Lost: "3"})
		return raw, false, err
	}
	next := s.answers[0]
	s.answers = s.answers[1:]
	if err, ok := next.(error); ok {
		return nil, s.away, err
	}
	raw, err := json.Marshal(next)
	return raw, false, err
}

func packets(n int, text string) answer {
	return answer{Packets: n, Header: []byte("HEAD"), Records: []byte(text), Lost: "3"}
}

func TestPacketsAreWrittenInTheirOrder(t *testing.T) {
	gone := errors.New("connection refused")
	other := packets(1, "x")
	other.Header = []byte("OTHER")
	for name, tt := range map[string]struct {
		args    []string
		answers []any
		away    bool
		want    string // of the file
		says    string
		fails   string
	}{
		"until it is interrupted":    {nil, []any{packets(2, "ab"), packets(0, ""), packets(1, "c")}, false, "HEADabc", "3 packets captured, 3 lost", ""},
		"up to a number":             {[]string{"-c", "3"}, []any{packets(2, "ab"), packets(1, "c")}, false, "HEADabc", "3 packets captured", ""},
		"over a restart":             {nil, []any{packets(1, "a"), gone, gone, packets(1, "b")}, true, "HEADab", "2 packets captured", ""},
		"not without a daemon":       {nil, []any{gone}, true, "", "0 packets captured, 0 lost", "refused"},
		"not of a cube that is gone": {nil, []any{packets(1, "a"), errors.New("no cube")}, false, "HEADa", "1 packets captured", "no cube"},
		"not in two formats":         {nil, []any{packets(1, "a"), other}, false, "HEADa", "1 packets captured", "have changed"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, file := range []string{"", filepath.Join(t.TempDir(), "out.pcap")} {
				s := &source{answers: append([]any(nil), tt.answers...), away: tt.away, stop: make(chan struct{})}
				var stdout, stderr bytes.Buffer
				p := Program{Read: s.read, Stop: s.stop, Stdout: &stdout, Stderr: &stderr}
				args := tt.args
				if file != "" {
					args = append(args, "-w", file)
				}
				err := p.Run(append(args, "pc"))
				if (err == nil) != (tt.fails == "") || err != nil && !strings.Contains(err.Error(), tt.fails) {
					t.Errorf("error %v, want %q", err, tt.fails)
				}
				got := stdout.String()
				if file != "" {
					text, err := os.ReadFile(file)
					if err != nil {
						t.Fatal(err)
					}
					got = string(text)
				}
				if got != tt.want || !strings.Contains(stderr.String(), tt.says) {
					t.Errorf("wrote %q and said %q, want %q and %q", got, stderr.String(), tt.want, tt.says)
				}
				if len(tt.args) > 0 && (len(s.asked) != 2 || s.asked[0] != 3 || s.asked[1] != 1) {
					t.Errorf("asked for %v", s.asked)
				}
			}
		})
	}
}

func TestWrongCommandsSayWhatIsRight(t *testing.T) {
	for args, says := range map[string]string{
		"":                "name exactly one cube",
		"pc extra":        "name exactly one cube",
		"-x pc":           "-x",
		"-c 0x pc":        "-c",
		"-c -1 pc":        "1 or greater",
		"pc":              "terminal",
		"-w - pc":         "terminal",
		"-w /none/x pc":   "/none/x",
		"-w /dev/stdin/x": "name exactly one cube",
	} {
		p := Program{Terminal: true, Stderr: &bytes.Buffer{}, Read: func(string, int) ([]byte, bool, error) { return nil, false, errors.New("read") }}
		if err := p.Run(strings.Fields(args)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %q", args, err, says)
		}
	}
}

func TestHelpIsNoError(t *testing.T) {
	var stdout bytes.Buffer
	p := Program{Stdout: &stdout, Terminal: true}
	if err := p.Run([]string{"-h"}); err != nil || stdout.String() != Usage {
		t.Errorf("%v, %q", err, stdout.String())
	}
}

func TestALinkIsNotFollowed(t *testing.T) {
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink("/etc/hostname", link); err != nil {
		t.Fatal(err)
	}
	p := Program{Stderr: &bytes.Buffer{}}
	if err := p.Run([]string{"-w", link, "pc"}); err == nil || !strings.Contains(err.Error(), "symbolic link") {
		t.Errorf("%v", err)
	}
}
