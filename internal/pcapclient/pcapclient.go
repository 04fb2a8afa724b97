// SPDX-License-Identifier: Apache-2.0

// Package pcapclient is the program pcn-packetcapture, which reads the packets of a cube packetcapture in network mode and
// writes them to a pcap file.
package pcapclient

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/polycube/polycube/internal/nofollow"
)

// Usage is printed for a wrong command.
const Usage = "usage: pcn-packetcapture [-c COUNT] [-w FILE] CUBE\n" +
	"Writes the packets of a packetcapture cube with networkmode=true to a pcap file or to standard output, until COUNT packets\n" +
	"are written or it is interrupted.\n"

// ErrUsage is a wrong command.
var ErrUsage = errors.New("wrong command")

const (
	// batch is how many packets are asked for at once.
	batch = 10000
	// pause is how long it waits for more when there are none.
	pause = 100 * time.Millisecond
	// patience is how long a daemon may be away that has answered before.
	patience = 30 * time.Second
)

// Program is one run.
type Program struct {
	// Read takes up to so many packets out of the queue of a cube, and returns the output of the action. Away says that
	// the daemon did not answer.
	Read func(cube string, most int) (output []byte, away bool, err error)
	// Stop ends the run.
	Stop <-chan struct{}
	// Stdout gets the file unless another one is named, if it is not a terminal.
	Stdout   io.Writer
	Terminal bool
	// Stderr gets the summary.
	Stderr io.Writer
}

// answer is the output of the action.
type answer struct {
	Packets int         `json:"packets"`
	Header  []byte      `json:"header"`
	Records []byte      `json:"records"`
	Lost    json.Number `json:"lost"`
}

// Run runs the program with its arguments.
func (p *Program) Run(args []string) (err error) {
	flags := flag.NewFlagSet("pcn-packetcapture", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	count, path := flags.Int("c", 0, ""), flags.String("w", "", "")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		_, err := io.WriteString(p.Stdout, Usage)
		return err
	case err != nil:
		return fmt.Errorf("%w: %w", ErrUsage, err)
	case flags.NArg() != 1:
		return fmt.Errorf("%w: name exactly one cube, after the options", ErrUsage)
	case *count < 0:
		return fmt.Errorf("%w: -c %d: expected a number of 1 or greater", ErrUsage, *count)
	case (*path == "" || *path == "-") && p.Terminal:
		return fmt.Errorf("%w: packets are not written to a terminal: name a file with -w, or append | tcpdump -r -", ErrUsage)
	}
	to := p.Stdout
	if *path != "" && *path != "-" {
		f, err := nofollow.Open(*path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		to = f
	}
	return p.copy(flags.Arg(0), *count, to)
}

// copy copies packets until count is reached, 0 for no limit, and says how many.
func (p *Program) copy(cube string, count int, to io.Writer) error {
	var header []byte
	var lost json.Number
	packets := 0
	defer func() { fmt.Fprintf(p.Stderr, "%d packets captured, %s lost\n", packets, lost) }()
	lost = "0"
	for count == 0 || packets < count {
		most := batch
		if count > 0 {
			most = min(most, count-packets)
		}
		a, err := p.ask(cube, most, header != nil)
		if err != nil {
			return err
		}
		if a == nil {
			return nil
		}
		switch {
		case header == nil:
			header, a.Records = a.Header, append(a.Header, a.Records...)
		case !bytes.Equal(header, a.Header):
			return errors.New("snaplen or timestamps of the cube have changed: start again with a new file")
		}
		if _, err := to.Write(a.Records); err != nil {
			return fmt.Errorf("write %d packets: %w", a.Packets, err)
		}
		packets, lost = packets+a.Packets, a.Lost
		if a.Packets == 0 && p.wait(pause) {
			return nil
		}
	}
	return nil
}

// ask reads once, nil if the program is to stop. A daemon that restarts is waited for.
func (p *Program) ask(cube string, most int, before bool) (*answer, error) {
	for since := time.Now(); ; {
		output, away, err := p.Read(cube, most)
		if err == nil {
			a := &answer{}
			if err := json.Unmarshal(output, a); err != nil {
				return nil, fmt.Errorf("read the answer: %w", err)
			}
			return a, nil
		}
		if !away || !before || time.Since(since) > patience {
			return nil, err
		}
		if p.wait(pause) {
			return nil, nil
		}
	}
}

// wait waits, and is true if the program is to stop.
func (p *Program) wait(d time.Duration) bool {
	select {
	case <-p.Stop:
		return true
	case <-time.After(d):
		return false
	}
}
