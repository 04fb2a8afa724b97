// SPDX-License-Identifier: Apache-2.0

package guest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/polycube/polycube/test/pace"
)

// ran runs steps here and returns the frames, without heartbeats.
func ran(t *testing.T, steps ...Step) []Frame {
	t.Helper()
	var out bytes.Buffer
	if err := (Plan{Env: []string{"WHO=world"}, Steps: steps}).Run(&out); err != nil {
		t.Fatal(err)
	}
	var frames []Frame
	for in := json.NewDecoder(&out); in.More(); {
		var f Frame
		if err := in.Decode(&f); err != nil {
			t.Fatal(err)
		}
		if f.Kind != Alive {
			frames = append(frames, f)
		}
	}
	return frames
}

func shell(name, script string) Step {
	return Step{Name: name, Dir: "/", Args: []string{"sh", "-c", script}, Within: time.Minute}
}

func TestStepsRunInOrderAndSayHowTheyEnded(t *testing.T) {
	frames := ran(t, shell("a", "printf 'hello %s' $WHO"), shell("b", "exit 3"), shell("c", "kill -9 $$"), Step{Name: "d", Args: []string{"/none"}, Within: time.Minute})
	var got []string
	for _, f := range frames {
		line := strings.TrimSpace(f.Kind + " " + f.Step + " " + string(f.Data))
		if f.Kind == End {
			line += map[bool]string{true: "ok", false: "bad"}[f.Code == 0 && f.Text == ""]
		}
		got = append(got, line)
	}
	want := "begin a|output a hello world|end aok|begin b|end bbad|begin c|end cbad|begin d|end dbad|done"
	if s := strings.Join(got, "|"); s != want {
		t.Errorf("got\n%s\nwant\n%s", s, want)
	}
	if code := frames[4].Code; code != 3 {
		t.Errorf("b ended with 3, and %d is told", code)
	}
}

// TestAStepThatHangsIsKilledWithItsChildren: the child keeps the output open, and would do so for an hour.
func TestAStepThatHangsIsKilledWithItsChildren(t *testing.T) {
	s := shell("hangs", "sleep 3600 & echo $!; wait")
	s.Within = 2 * time.Second
	frames := ran(t, s, shell("next", "exit 0"))
	if frames[1].Kind != Output {
		t.Fatalf("the shell did not say who its child is: %+v", frames)
	}
	child, err := strconv.Atoi(strings.TrimSpace(string(frames[1].Data)))
	if err != nil {
		t.Fatal(err)
	}
	for began := time.Now(); syscall.Kill(child, 0) == nil; runtime.Gosched() { // it is killed, and ends when it gets a CPU
		state, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", child))
		if strings.Contains(string(state), ") Z ") {
			break
		}
		if time.Since(began) > pace.Stretch(10*time.Second) {
			t.Fatalf("the child lives: %s", state)
		}
	}
	if end := frames[2]; end.Kind != End || end.Code != -1 || !strings.Contains(end.Text, "killed after 2s") {
		t.Errorf("%+v", end)
	}
	if end := frames[len(frames)-2]; end.Step != "next" || end.Code != 0 {
		t.Errorf("the next step did not run: %+v", end)
	}
}
