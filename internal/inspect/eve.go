// SPDX-License-Identifier: Apache-2.0

package inspect

// The log: a line of JSON for each flow that has ended, and for each risk that nDPI sees, with the fields of Suricata's EVE.

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/bits"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/dpi"
	"github.com/polycube/polycube/inet"
	"github.com/polycube/polycube/internal/ndpi"
)

// event is a line.
type event struct {
	Timestamp string   `json:"timestamp"`
	FlowID    uint64   `json:"flow_id"`
	Type      string   `json:"event_type"`
	SrcIP     string   `json:"src_ip"`
	SrcPort   uint16   `json:"src_port"`
	DestIP    string   `json:"dest_ip"`
	DestPort  uint16   `json:"dest_port"`
	Proto     string   `json:"proto"`
	AppProto  string   `json:"app_proto,omitempty"`
	NDPI      *ndpiLog `json:"ndpi,omitempty"`
	Flow      *flowLog `json:"flow,omitempty"`
	Anomaly   *anomaly `json:"anomaly,omitempty"`
}

type ndpiLog struct {
	Protocol string   `json:"protocol"`
	Carrier  string   `json:"carrier,omitempty"`
	Category string   `json:"category"`
	Guessed  bool     `json:"guessed"`
	Host     string   `json:"hostname,omitempty"`
	JA3      string   `json:"ja3,omitempty"`
	Risks    []string `json:"risks,omitempty"`
}

type flowLog struct {
	PacketsToServer uint64 `json:"pkts_toserver"`
	PacketsToClient uint64 `json:"pkts_toclient"`
	BytesToServer   uint64 `json:"bytes_toserver"`
	BytesToClient   uint64 `json:"bytes_toclient"`
	Start           string `json:"start"`
	End             string `json:"end"`
	Age             int64  `json:"age"`
	State           string `json:"state"`
	Elephant        bool   `json:"elephant"`
}

type anomaly struct {
	Type  string `json:"type"`
	Event string `json:"event"`
}

// eveTime is how EVE writes times.
const eveTime = "2006-01-02T15:04:05.000000-0700"

// wall is the time of the world when the monotonic clock shows this.
func wall(at uint64) time.Time {
	now, err := cube.Time()
	if err != nil {
		return time.Now()
	}
	return time.Now().Add(-time.Duration(now - at))
}

// record is a flow that has ended, with its names.
type record struct {
	dpi.Ended
	details
	protocol, carrier, category string
}

// source is which side of the tables the source is on.
func (r *record) source() int {
	if r.Flow.Flags&dpi.Reverse != 0 {
		return 1
	}
	return 0
}

// endpoints are the ends, the source first.
func endpoints(k dpi.Key, reverse bool) event {
	e := event{
		SrcIP: k.Low.Addr().String(), DestIP: k.High.Addr().String(), SrcPort: k.LowPort.Number(), DestPort: k.HighPort.Number(),
		Proto: inet.Protocol(k.Protocol).String(),
	}
	if reverse {
		e.SrcIP, e.DestIP, e.SrcPort, e.DestPort = e.DestIP, e.SrcIP, e.DestPort, e.SrcPort
	}
	return e
}

// risks are the names of risks.
func risks(set uint64) (all []string) {
	for ; set != 0; set &= set - 1 {
		all = append(all, ndpi.Risk(bits.TrailingZeros64(set)))
	}
	return all
}

// flowEvent is the line about a flow.
func (r *record) flowEvent() event {
	e := endpoints(r.Key, r.source() == 1)
	start, end := r.times()
	e.Timestamp, e.FlowID, e.Type, e.AppProto = time.Now().Format(eveTime), r.Flow.ID, "flow", strings.ToLower(r.protocol)
	e.NDPI = &ndpiLog{
		Protocol: r.protocol, Carrier: r.carrier, Category: r.category, Guessed: dpi.Flags(r.Flow.Class.Flags)&dpi.Guessed != 0,
		Host: r.host, JA3: r.ja3, Risks: risks(r.Flow.Class.Risks),
	}
	s := r.source()
	e.Flow = &flowLog{
		r.Flow.Packets[s], r.Flow.Packets[1-s], r.Flow.Bytes[s], r.Flow.Bytes[1-s], start.Format(eveTime), end.Format(eveTime),
		int64(end.Sub(start).Round(time.Second) / time.Second), r.state(), r.Flow.Flags&dpi.Elephant != 0,
	}
	return e
}

// times are when the first packet came and the last one, whose clock is coarse.
func (r *record) times() (start, end time.Time) {
	return wall(r.Flow.ID), wall(max(r.Flow.ID, r.Flow.Last))
}

// state is the one of EVE.
func (r *record) state() string {
	switch {
	case r.Flow.Flags.Ended():
		return "closed"
	case r.Flow.Packets[0] != 0 && r.Flow.Packets[1] != 0:
		return "established"
	}
	return "new"
}

// logFile is the file. Lines that the disk does not take in time are dropped and counted: packets do not wait for it.
type logFile struct {
	path  string
	log   *slog.Logger
	lines chan event
	lost  atomic.Uint64
	done  chan struct{}

	mu   sync.Mutex // guards file
	file *os.File
}

// logLines is how many lines may wait.
const logLines = 8192

func openLog(path string, log *slog.Logger) (*logFile, error) {
	l := &logFile{path: path, log: log, lines: make(chan event, logLines), done: make(chan struct{})}
	if err := l.reopen(); err != nil {
		return nil, err
	}
	go l.run()
	return l, nil
}

// reopen opens the file again: it was renamed.
func (l *logFile) reopen() error {
	f, err := os.OpenFile(l.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND|unix.O_NOFOLLOW, 0o640)
	if err != nil {
		return fmt.Errorf("--log: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	was := l.file
	l.file = f
	if was != nil {
		return was.Close()
	}
	return nil
}

// put adds a line.
func (l *logFile) put(e event) {
	select {
	case l.lines <- e:
	default:
		l.lost.Add(1)
	}
}

func (l *logFile) run() {
	defer close(l.done)
	failed := false
	for e := range l.lines {
		line, err := json.Marshal(e)
		if err == nil {
			l.mu.Lock()
			_, err = l.file.Write(append(line, '\n'))
			l.mu.Unlock()
		}
		if err != nil {
			l.lost.Add(1)
			if !failed {
				l.log.Error("write the log", "error", err)
			}
		}
		failed = err != nil
	}
}

// close writes what waits.
func (l *logFile) close() error {
	close(l.lines)
	<-l.done
	l.mu.Lock()
	defer l.mu.Unlock()
	return errors.Join(l.file.Close())
}
