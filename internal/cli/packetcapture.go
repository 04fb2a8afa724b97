// SPDX-License-Identifier: Apache-2.0

package cli

// The program pcn-packetcapture: package pcapclient, with the connection to the daemon.

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/internal/pcapclient"
)

// PacketCapture is the program pcn-packetcapture. It returns the exit status.
func PacketCapture(args []string, stdin *os.File, stdout, stderr io.Writer, getenv func(string) string) int {
	s := newSession(stdin, stdout, stderr, getenv)
	signals, stop := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(signals, unix.SIGINT, unix.SIGTERM)
	var once sync.Once
	end := func() { once.Do(func() { close(stop) }) }
	go func() { <-signals; signal.Stop(signals); end() }() // a second one ends the program at once
	defer end()
	var err error
	if s.config, err = loadConfig(s.getenv, ""); err == nil {
		read := func(cube string, most int) ([]byte, bool, error) { return readPackets(s, cube, most) }
		p := pcapclient.Program{Read: read, Stop: stop, Stdout: stdout, Terminal: s.screen, Stderr: stderr}
		err = p.Run(args)
	}
	if err != nil {
		fmt.Fprintf(stderr, "pcn-packetcapture: %v\n", err)
	}
	if errors.Is(err, pcapclient.ErrUsage) {
		fmt.Fprint(stderr, pcapclient.Usage)
		return int(ExitUsage)
	}
	return int(exitOf(err))
}

// readPackets calls the action that takes packets out of the queue of a cube.
func readPackets(s *session, cube string, most int) (output []byte, away bool, err error) {
	r := request{method: http.MethodPost, path: []string{"packetcapture", cube, "read"}}
	if r.body, err = json.Marshal(map[string]int{"max": most}); err != nil {
		return nil, false, err
	}
	a, err := s.demand(r)
	if err != nil {
		is := &serverError{}
		return nil, !errors.As(err, &is), err
	}
	return a.body, false, nil
}
