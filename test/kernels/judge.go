// SPDX-License-Identifier: Apache-2.0

package kernels

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"sync"

	"github.com/polycube/polycube/test/kernels/guest"
)

// Outcome is the result of a job, or of one test of a package.
type Outcome struct {
	// Job is the name of the job, Test that of the test with its parents; empty for the job itself.
	Job, Test string
	// Result is pass, fail or skip; "run" for a test that began and did not end.
	Result string
	// Seconds as the machine's clock counts them.
	Seconds float64
	// Output is the test's output; kept if it did not pass.
	Output string
	// Facts are attributes that the test set (testing.T.Attr).
	Facts map[string]string
}

// The results of an outcome.
const (
	passed, failed, skipped, running = "pass", "fail", "skip", "run"
)

// judge reads the frames of one machine and decides.
type judge struct {
	jobs []Job

	mu    sync.Mutex // the fields below: the progress is read while frames arrive
	tests map[string]map[string]*Outcome
	order []*Outcome
	ended map[string]guest.Frame
	wrote map[string]*strings.Builder
	notes []string
	now   string

	convert *converter
	// failure is called with a failed test, at once: a run takes long.
	failure func(o *Outcome)
}

func newJudge(jobs []Job, failure func(o *Outcome)) *judge {
	return &judge{jobs: jobs, failure: failure, tests: map[string]map[string]*Outcome{}, ended: map[string]guest.Frame{}, wrote: map[string]*strings.Builder{}}
}

// event is one line of go tool test2json.
type event struct {
	Action, Test, Output, Key, Value string
	Elapsed                          float64
}

// converter is go tool test2json at work for one job.
type converter struct {
	in   io.WriteCloser
	done chan error
}

func (j *judge) startConverter(ctx context.Context, job string) (*converter, error) {
	cmd := exec.CommandContext(ctx, "go", "tool", "test2json", "-t", "-p", job)
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c := &converter{in, make(chan error, 1)}
	go func() {
		events := json.NewDecoder(out)
		for {
			var e event
			if err := events.Decode(&e); err != nil {
				if errors.Is(err, io.EOF) {
					err = nil
				}
				c.done <- errors.Join(err, cmd.Wait())
				return
			}
			j.event(job, e)
		}
	}()
	return c, nil
}

// take processes a frame.
func (j *judge) take(ctx context.Context, f guest.Frame) error {
	switch f.Kind {
	case guest.Note:
		j.mu.Lock()
		j.notes = append(j.notes, f.Text)
		j.mu.Unlock()
	case guest.Begin:
		j.mu.Lock()
		j.now = f.Step
		j.wrote[f.Step] = &strings.Builder{}
		j.mu.Unlock()
		if j.job(f.Step).Package == "" {
			return nil
		}
		var err error
		j.convert, err = j.startConverter(ctx, f.Step)
		return err
	case guest.Output:
		j.mu.Lock()
		j.wrote[f.Step].Write(f.Data)
		j.mu.Unlock()
		if j.convert != nil {
			_, err := j.convert.in.Write(f.Data)
			return err
		}
	case guest.End:
		j.mu.Lock()
		j.ended[f.Step] = f
		j.mu.Unlock()
		return j.endConverter()
	}
	return nil
}

// endConverter waits until everything that was written is understood.
func (j *judge) endConverter() error {
	if j.convert == nil {
		return nil
	}
	err := errors.Join(j.convert.in.Close(), <-j.convert.done)
	j.convert = nil
	return err
}

func (j *judge) job(name string) Job {
	i := slices.IndexFunc(j.jobs, func(job Job) bool { return job.name() == name })
	if i < 0 {
		return Job{}
	}
	return j.jobs[i]
}

func (j *judge) event(job string, e event) {
	if e.Test == "" {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	tests := j.tests[job]
	if tests == nil {
		tests = map[string]*Outcome{}
		j.tests[job] = tests
	}
	o := tests[e.Test]
	if o == nil {
		o = &Outcome{Job: job, Test: e.Test, Result: running}
		tests[e.Test] = o
		j.order = append(j.order, o)
	}
	switch e.Action {
	case "run":
		j.now = job + " " + e.Test
	case passed, failed, skipped:
		o.Result, o.Seconds = e.Action, e.Elapsed
		switch o.Result {
		case failed:
			j.failure(o)
		case passed:
			o.Output = ""
		}
	case "attr":
		if o.Facts == nil {
			o.Facts = map[string]string{}
		}
		o.Facts[e.Key] = e.Value
	case "output":
		o.Output += e.Output
	}
}

// progress is one line on where the machine is.
func (j *judge) progress() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	n := map[string]int{}
	for _, o := range j.order {
		n[o.Result]++
	}
	if j.now == "" {
		return "booting"
	}
	return fmt.Sprintf("%s; %d passed, %d failed, %d skipped", j.now, n[passed], n[failed], n[skipped])
}

// faults lists the failures of a finished run: tests that failed or did not end, jobs that did not, and required tests
// that did not pass.
func (j *judge) faults() []string {
	var out []string
	for _, job := range j.jobs {
		name := job.name()
		end, ended := j.ended[name]
		bad := 0
		for _, o := range j.order {
			if o.Job == name && (o.Result == failed || o.Result == running) {
				bad++
				out = append(out, fmt.Sprintf("%s: %s: %s\n%s", name, o.Test, words[o.Result], lastLines(o.Output, 25)))
			}
		}
		switch {
		case !ended:
			out = append(out, name+": did not run to its end"+tail(j.wrote[name]))
		case end.Text != "":
			out = append(out, fmt.Sprintf("%s: %s%s", name, end.Text, tail(j.wrote[name])))
		case end.Code != 0 && bad == 0:
			out = append(out, fmt.Sprintf("%s: exit status %d%s", name, end.Code, tail(j.wrote[name])))
		}
		for _, test := range job.Tests {
			if o := j.tests[name][test]; o == nil || o.Result == skipped {
				out = append(out, fmt.Sprintf("%s: %s: wanted, and %s", name, test, whyNot(o)))
			}
		}
	}
	return out
}

var words = map[string]string{failed: "failed", running: "began and did not end"}

func whyNot(o *Outcome) string {
	if o == nil {
		return "there is no such test"
	}
	return "skipped: " + lastLines(o.Output, 2)
}

func tail(b *strings.Builder) string {
	if b == nil {
		return ""
	}
	return ":\n" + lastLines(b.String(), 25)
}
