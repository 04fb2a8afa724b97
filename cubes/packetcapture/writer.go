// SPDX-License-Identifier: Apache-2.0

package packetcapture

// Writing capture files. A goroutine of its own writes, so that a slow disk delays nothing else: what does not fit into the
// buffer before it is lost, and counted.

import (
	"log/slog"
	"os"
	"sync/atomic"
	"time"
)

const (
	// bufferedChunks bounds the buffer, to 64 MB.
	bufferedChunks = 256
	// freeChunks is how many of them are kept for later.
	freeChunks = 8
	// retryInterval is how soon a file is tried again after an error.
	retryInterval = time.Second
)

// writer writes capture files.
type writer struct {
	log    *slog.Logger
	chunks chan chunk
	free   chan []byte
	ended  chan struct{}

	// Numbers of packets.
	waiting, delivered, lostQueue, lostFile atomic.Uint64
	// shown is the state of the last file; never nil.
	shown atomic.Pointer[fileState]

	// What follows belongs to the goroutine.
	series  series
	file    *os.File // nil: none is open
	size    int64
	first   uint32 // time of its first packet, in seconds
	failed  error
	retryAt time.Time
}

// fileState is the container `file`.
type fileState struct {
	Path  string `json:"path,omitempty"`
	Size  int64  `json:"size"`
	Error string `json:"error,omitempty"`
}

func newWriter(log *slog.Logger) *writer {
	w := &writer{log: log, chunks: make(chan chunk, bufferedChunks), free: make(chan []byte, freeChunks), ended: make(chan struct{})}
	w.shown.Store(&fileState{})
	return w
}

// buffer returns an empty buffer for a chunk.
func (w *writer) buffer() []byte {
	select {
	case b := <-w.free:
		return b[:0]
	default:
		return make([]byte, 0, chunkSize)
	}
}

// put gives the writer a chunk. It does not wait: if the buffer is full, the packets are lost, and it returns false.
func (w *writer) put(c chunk) bool {
	w.waiting.Add(c.packets)
	select {
	case w.chunks <- c:
		return true
	default:
		w.waiting.Add(-c.packets)
		w.lostQueue.Add(c.packets)
		return false
	}
}

// start starts the goroutine; carry is deferred in it.
func (w *writer) start(carry func()) {
	go func() {
		defer close(w.ended)
		defer carry()
		for c := range w.chunks {
			w.write(c)
		}
		w.end()
	}()
}

// stop ends the goroutine after everything is written. It is false if that takes longer than wait.
func (w *writer) stop(wait time.Duration) bool {
	close(w.chunks)
	select {
	case <-w.ended:
		return true
	case <-time.After(wait):
		return false
	}
}

// write writes a chunk. What cannot be written is lost.
func (w *writer) write(c chunk) {
	if c.of != w.series.of {
		w.end()
		w.series = newSeries(c.of)
	}
	written := uint64(0)
	if len(c.records) > 0 && !time.Now().Before(w.retryAt) {
		n, err := w.records(c)
		written = n
		w.judge(err)
	}
	w.delivered.Add(written)
	w.lostFile.Add(c.packets - written)
	w.waiting.Add(-c.packets)
	if c.last {
		w.end()
	}
	if cap(c.records) == 0 {
		return
	}
	select {
	case w.free <- c.records:
	default:
	}
}

// records writes the records of a chunk, and returns how many.
func (w *writer) records(c chunk) (written uint64, err error) {
	for rest := c.records; len(rest) > 0; {
		size, seconds := nextRecord(rest)
		if w.file != nil && w.full(size, seconds) {
			w.end()
		}
		if w.file == nil {
			if err := w.open(seconds); err != nil {
				return written, err
			}
		}
		part, packets := w.part(rest)
		if err := w.append(rest[:part]); err != nil {
			return written, err
		}
		rest, written = rest[part:], written+packets
	}
	return written, nil
}

// full reports whether a packet begins a new file.
func (w *writer) full(size int, seconds uint32) bool {
	r := &w.series.of.rotation
	return r.Size > 0 && w.size > fileHeaderSize && uint64(w.size)+uint64(size) > r.Size ||
		r.Seconds > 0 && seconds >= w.first && seconds-w.first >= r.Seconds
}

// part returns how many bytes and packets go to the current file, at least one.
func (w *writer) part(b []byte) (bytes int, packets uint64) {
	was := w.size
	defer func() { w.size = was }()
	for bytes < len(b) {
		size, seconds := nextRecord(b[bytes:])
		if packets > 0 && w.full(size, seconds) {
			break
		}
		bytes, packets, w.size = bytes+size, packets+1, w.size+int64(size)
	}
	return bytes, packets
}

// open begins a file.
func (w *writer) open(seconds uint32) error {
	f, err := w.series.next()
	if err != nil {
		return err
	}
	w.file, w.size, w.first = f, 0, seconds
	w.show()
	if err := w.append(w.series.of.format.header()); err != nil {
		w.end()
		w.series.undo()
		return err
	}
	if err := w.series.limit(); err != nil {
		w.log.Warn("old capture files are kept", "error", err)
	}
	return nil
}

// append appends bytes to the file, all or none.
func (w *writer) append(b []byte) error {
	if _, err := w.file.Write(b); err != nil {
		_, back := w.file.Seek(w.size, 0)
		if back == nil {
			back = w.file.Truncate(w.size)
		}
		if back != nil {
			w.end() // it ends with a part of a packet, as after a crash
		}
		return err
	}
	w.size += int64(len(b))
	w.show()
	return nil
}

// end closes the file.
func (w *writer) end() {
	if w.file == nil {
		return
	}
	if err := w.file.Close(); err != nil {
		w.log.Warn("close a capture file", "path", w.series.path, "error", err)
	}
	w.file = nil
}

// judge notes whether packets can be written, and logs when that changes.
func (w *writer) judge(err error) {
	switch {
	case err != nil && (w.failed == nil || w.failed.Error() != err.Error()):
		w.log.Error("packets are lost: they cannot be written", "error", err)
	case err == nil && w.failed != nil:
		w.log.Info("packets are written again", "path", w.series.path)
	}
	if w.failed = err; err != nil {
		w.retryAt = time.Now().Add(retryInterval)
	}
	w.show()
}

// show publishes the state.
func (w *writer) show() {
	s := &fileState{Path: w.series.path, Size: w.size}
	if w.failed != nil {
		s.Error = w.failed.Error()
	}
	w.shown.Store(s)
}
