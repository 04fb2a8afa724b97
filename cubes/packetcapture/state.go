// SPDX-License-Identifier: Apache-2.0

package packetcapture

// What the cube shows, and what clients read.

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/polycube/polycube/cube"
)

// state is the part of the model that is no configuration.
type state struct {
	// Dump is the sentence about the current file, if nothing else is read.
	Dump         *string       `json:"dump,omitempty"`
	GlobalHeader *globalHeader `json:"globalheader,omitempty"`
	Packet       *packet       `json:"packet,omitempty"`
	File         *fileState    `json:"file,omitempty"`
	Statistics   *statistics   `json:"statistics,omitempty"`
}

// globalHeader is the container `globalheader`.
type globalHeader struct {
	Magic        uint32 `json:"magic"`
	VersionMajor uint16 `json:"version_major"`
	VersionMinor uint16 `json:"version_minor"`
	ThisZone     int32  `json:"thiszone"`
	SigFigs      uint32 `json:"sigfigs"`
	SnapLen      uint32 `json:"snaplen"`
	LinkType     uint32 `json:"linktype"`
}

// packet is the container `packet`.
type packet struct {
	CaptureLength uint32 `json:"capturelen"`
	Length        uint32 `json:"packetlen"`
	Seconds       uint32 `json:"timestamp-seconds"`
	Microseconds  uint32 `json:"timestamp-microseconds"`
	Nanoseconds   uint32 `json:"timestamp-nanoseconds"`
	Direction     string `json:"direction,omitempty"`
	RawData       string `json:"rawdata"`
}

// statistics is the container `statistics`; counters of 64 bits are strings in JSON.
type statistics struct {
	Captured  uint64 `json:"captured"`
	Delivered uint64 `json:"delivered"`
	Queued    uint64 `json:"queued"`
	LostRing  uint64 `json:"lost-ring"`
	LostQueue uint64 `json:"lost-queue"`
	LostFile  uint64 `json:"lost-file"`
}

// state collects what is asked for. Reading the container packet itself takes a packet out of the queue.
func (c *control) state(_ context.Context, path []string) (any, error) {
	if c.config == nil {
		return nil, nil
	}
	all := len(path) == 0
	wants := func(name string) bool { return all || path[0] == name }
	var s state
	if wants("globalheader") {
		f := c.config.format()
		s.GlobalHeader = &globalHeader{f.magic(), versionMajor, versionMinor, 0, 0, f.snap, linkEthernet}
	}
	if !all && path[0] == "packet" { // its bytes may be many, and the whole cube is read for metrics
		s.Packet = c.packet(len(path) == 1)
	}
	if wants("file") {
		s.File = c.intake.files.shown.Load()
	}
	if wants("statistics") {
		var err error
		if s.Statistics, err = c.statistics(); err != nil {
			return nil, err
		}
	}
	if !all && path[0] == "dump" {
		s.Dump = c.sentence()
	}
	return s, nil
}

// packet is the first packet of the queue.
func (c *control) packet(take bool) *packet {
	p, ok := c.intake.queue.first()
	if take {
		taken := c.intake.queue.pop(1, 0)
		if ok = len(taken) == 1; ok {
			p = taken[0]
		}
	}
	if !ok {
		return &packet{}
	}
	nanoseconds := uint32(p.at.Nanosecond())
	return &packet{
		CaptureLength: uint32(len(p.data)), Length: uint32(p.length),
		Seconds: uint32(p.at.Unix()), Microseconds: nanoseconds / 1000, Nanoseconds: nanoseconds,
		Direction: [...]string{"INGRESS", "EGRESS"}[p.direction&1], RawData: base64.StdEncoding.EncodeToString(p.data),
	}
}

func (c *control) statistics() (*statistics, error) {
	captured, lost, err := c.counts()
	if err != nil {
		return nil, err
	}
	files := c.intake.files
	read, lostQueue := c.intake.queue.totals()
	return &statistics{
		Captured: captured, LostRing: lost, Queued: c.intake.waiting(),
		Delivered: files.delivered.Load() + read, LostQueue: files.lostQueue.Load() + lostQueue, LostFile: files.lostFile.Load(),
	}, nil
}

// sentence says where the packets are. Scripts take the path from its fourth word on.
func (c *control) sentence() *string {
	text := "no packet captured"
	if file := c.intake.files.shown.Load(); c.config.NetworkMode {
		text = "packets are kept for clients: networkmode is true"
	} else if file.Path != "" {
		text = "capture dump in " + file.Path
	}
	return &text
}

// readRequest is the input of the action read, readAnswer its output.
type readRequest struct {
	Max int `json:"max"`
}

type readAnswer struct {
	Packets int    `json:"packets"`
	Header  []byte `json:"header"`
	Records []byte `json:"records"`
	Lost    uint64 `json:"lost"`
}

// readBytes is how many bytes an answer has at most.
const readBytes = 4 << 20

// action takes packets out of the queue.
func (c *control) action(_ context.Context, path []string, input json.RawMessage) (cube.ActionResult, error) {
	if len(path) != 1 || path[0] != "read" {
		return cube.ActionResult{}, fmt.Errorf("action %s: %w", strings.Join(path, " "), cube.ErrNotFound)
	}
	var in readRequest
	if err := json.Unmarshal(input, &in); err != nil {
		return cube.ActionResult{}, fmt.Errorf("decode the request: %w", err)
	}
	if !c.config.NetworkMode && c.intake.queue.length() == 0 {
		return cube.ActionResult{}, fmt.Errorf("packets are written to files: set networkmode=true to read them: %w", cube.ErrInvalid)
	}
	_, lost, err := c.counts()
	if err != nil {
		return cube.ActionResult{}, err
	}
	_, lostQueue := c.intake.queue.totals()
	f := c.config.format()
	out := readAnswer{Header: f.header(), Records: []byte{}, Lost: lost + lostQueue}
	for _, p := range c.intake.queue.pop(in.Max, readBytes) {
		out.Records = f.record(out.Records, p.at, p.data, p.length)
		out.Packets++
	}
	return cube.ActionResult{Output: out}, nil
}
