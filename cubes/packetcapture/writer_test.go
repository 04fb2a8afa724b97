// SPDX-License-Identifier: Apache-2.0

package packetcapture

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/ring"
	"github.com/polycube/polycube/test/pace"
)

// newTestIntake is an intake whose writer does not run yet: a disk that is stuck.
func newTestIntake(t *testing.T, conf *Config) (*intake, *bytes.Buffer) {
	t.Helper()
	logs := &bytes.Buffer{}
	n := newIntake(slog.New(slog.NewTextHandler(logs, nil)))
	n.use(conf)
	return n, logs
}

func TestAStuckDiskDelaysNothing(t *testing.T) {
	file := filepath.Join(t.TempDir(), "out")
	n, _ := newTestIntake(t, &Config{Capture: Ingress, Filter: "all", Dump: file})
	p := &ring.Packet{Data: make([]byte, 60000), Length: 60000}
	sent := uint64(0)
	for ; n.files.lostQueue.Load() == 0; sent++ {
		n.take(p)
	}
	waiting := n.waiting()
	if lost := n.files.lostQueue.Load(); waiting+lost != sent || waiting*60000 > bufferedChunks*chunkSize+chunkSize || waiting*60000 < bufferedChunks*chunkSize/2 {
		t.Errorf("of %d packets %d wait and %d are lost", sent, waiting, lost)
	}
	if n.close(0) {
		t.Error("close says that everything was written")
	}
	n.files.start(func() {})
	<-n.files.ended
	if got := n.files.delivered.Load(); got+n.files.lostQueue.Load() != sent || n.files.waiting.Load() != 0 {
		t.Errorf("%d of %d packets were written", got, sent)
	}
	if st, err := os.Stat(file + suffix); err != nil || uint64(st.Size()) != fileHeaderSize+n.files.delivered.Load()*(60000+recordHeaderSize) {
		t.Errorf("the file has %d bytes (%v)", st.Size(), err)
	}
}

func TestAPanicOfTheWriterIsCarriedAway(t *testing.T) {
	n, _ := newTestIntake(t, &Config{Capture: Ingress, Filter: "all", Dump: filepath.Join(t.TempDir(), "out")})
	n.files.series.of, n.files.file = &target{}, nil
	carried := make(chan any, 1)
	n.files.start(func() { carried <- recover() })
	n.files.put(chunk{of: n.files.series.of, records: []byte("no record"), packets: 1})
	select {
	case v := <-carried:
		if v == nil {
			t.Error("the writer did not panic on a record without a header")
		}
	case <-time.After(pace.Stretch(10 * time.Second)):
		t.Fatal("the writer did not stop")
	}
	if !n.close(pace.Stretch(10 * time.Second)) {
		t.Error("close waits for a writer that has ended")
	}
}

func TestTheClockFollowsThatOfTheWorld(t *testing.T) {
	var c clock
	for range 3 {
		before := time.Now()
		now, err := cube.Time()
		if err != nil {
			t.Fatal(err)
		}
		at := c.wall(time.Duration(now))
		if after := time.Now(); at.Before(before.Add(-time.Millisecond)) || at.After(after.Add(time.Millisecond)) {
			t.Errorf("%v is not between %v and %v", at, before, after)
		}
		c.offset += time.Hour // the clock of the world was set
		if at := c.wall(time.Duration(now) + 2*clockInterval); at.Sub(before) > time.Minute {
			t.Errorf("after a step: %v", at)
		}
		c.until = 0
	}
}

func TestNamesOfASeries(t *testing.T) {
	s := newSeries(&target{})
	s.base = "/tmp/out"
	for name, want := range map[string]int{
		"out.pcap": 0, "out_00001.pcap": 1, "out_123456.pcap": 123456,
		"out_1.pcap": -1, "out_00000.pcap": -1, "out_-0001.pcap": -1, "out_00001.pcap.gz": -1, "xout.pcap": -1, "out": -1, "out_.pcap": -1, "out_+0001.pcap": -1,
	} {
		if n, ok := s.number(name); ok != (want >= 0) || ok && n != want {
			t.Errorf("%s: %d, %t, want %d", name, n, ok, want)
		}
	}
}
