// SPDX-License-Identifier: Apache-2.0

package health

// A strict parser for answers of HTTP/1.0 and 1.1 (RFC 9112), which takes bytes as they arrive. What it stores, and the
// time it takes for a byte, is bounded whatever a server sends.

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

const (
	// maxHead is the limit of all lines in front of the body, and of those of chunks and trailers.
	maxHead = 16 << 10
	// maxBody is how much of a body is read to keep the connection, compared how much of it is compared.
	maxBody  = 64 << 10
	compared = 16 << 10
	// retained is the size of buffers that stay allocated between two checks.
	retained = 1 << 10
	// quoted is how much of an invalid answer an error shows.
	quoted = 40
	// begins is how an answer begins.
	begins = "HTTP/"
)

// stage is what the next bytes of an answer are.
type stage uint8

const (
	statusLine stage = iota
	headerLine
	sizedBody
	unsizedBody // until the server closes the connection
	chunkSize
	chunkData
	chunkEnd
	trailerLine
	complete
)

var (
	errCutOff = errors.New("the server closed the connection before the response was complete")
	errHead   = fmt.Errorf("the status line and headers of the response exceed %d KiB", maxHead>>10)
	errChunks = fmt.Errorf("the chunk sizes and trailers of the response exceed %d KiB", maxHead>>10)
)

// answer is an answer that arrives. The zero value is not valid: call begin.
type answer struct {
	check *prepared
	stage stage
	// got says that at least one byte has arrived.
	got  bool
	line []byte // a line whose end has not arrived
	head int    // bytes of lines

	status, minor            int
	length                   int64 // of the body; -1 if it is not known
	chunked, closes, persist bool

	left  int64 // of the body or of a chunk
	total int64 // of the body so far
	body  []byte
	// beyond says that bytes follow, or would follow, which are not read.
	beyond bool
}

// begin prepares for the answer to a request.
func (a *answer) begin(p *prepared) {
	*a = answer{check: p, line: a.line[:0], body: a.body[:0], length: -1}
}

// free gives back large buffers.
func (a *answer) free() {
	if cap(a.line) > retained {
		a.line = nil
	}
	if cap(a.body) > retained {
		a.body = nil
	}
}

// feed takes bytes. done says that the answer is complete, as far as it matters.
func (a *answer) feed(p []byte) (done bool, err error) {
	a.got = a.got || len(p) > 0
	for len(p) > 0 && a.stage != complete {
		switch a.stage {
		case sizedBody, unsizedBody, chunkData:
			p = a.data(p)
		default:
			var line []byte
			var ok bool
			if line, p, ok, err = a.cutLine(p); err == nil && ok {
				err = a.take(line)
				a.line = a.line[:0]
			}
			if err != nil {
				return false, err
			}
		}
	}
	a.beyond = a.beyond || len(p) > 0
	return a.stage == complete, nil
}

// end takes the end of the stream.
func (a *answer) end() (done bool, err error) {
	switch {
	case a.stage == unsizedBody:
		a.stage, a.beyond = complete, true
		return true, nil
	case !a.got:
		return false, errClosedEarly
	}
	return false, errCutOff
}

// cutLine cuts a line off, without its end; not ok if that has not arrived.
func (a *answer) cutLine(p []byte) (line, rest []byte, ok bool, err error) {
	line, rest, ok = bytes.Cut(p, []byte{'\n'})
	a.head += len(p) - len(rest)
	if a.stage == statusLine { // before its length, since it depends on the network how much arrives at once
		due := begins[min(len(a.line), len(begins)):]
		if n := min(len(due), len(line)); due[:n] != string(line[:n]) {
			return nil, nil, false, notHTTP(bytes.TrimSuffix(append(a.line, line[:min(len(line), quoted)]...), []byte{'\r'}))
		}
	}
	switch {
	case a.head <= maxHead:
	case a.stage == statusLine || a.stage == headerLine:
		return nil, nil, false, errHead
	default:
		return nil, nil, false, errChunks
	}
	if !ok || len(a.line) > 0 {
		a.line = append(a.line, line...)
		line = a.line
	}
	return bytes.TrimSuffix(line, []byte{'\r'}), rest, ok, nil
}

func notHTTP(line []byte) error {
	return fmt.Errorf("the response is not HTTP: %.*q", quoted, line[:min(len(line), quoted)])
}

// take processes a line.
func (a *answer) take(line []byte) error {
	switch a.stage {
	case statusLine:
		return a.takeStatus(line)
	case headerLine:
		if len(line) == 0 {
			return a.endHead()
		}
		return a.takeHeader(line)
	case chunkSize:
		return a.takeChunk(line)
	case chunkEnd:
		if len(line) > 0 {
			return errors.New("a chunk of the response exceeds its declared size")
		}
		a.stage = chunkSize
	default: // a trailer
		if len(line) == 0 {
			a.stage = complete
		}
	}
	return nil
}

// takeStatus parses HTTP/1.1 200 OK.
func (a *answer) takeStatus(line []byte) error {
	const version = "HTTP/1."
	const digits = len(version) + 2
	ok := len(line) >= digits+3 && string(line[:len(version)]) == version && line[digits-1] == ' ' &&
		(len(line) == digits+3 || line[digits+3] == ' ')
	if !ok || line[len(version)] < '0' || line[len(version)] > '9' {
		return notHTTP(line)
	}
	a.status = 0
	for _, d := range line[digits : digits+3] {
		if d < '0' || d > '9' {
			return notHTTP(line)
		}
		a.status = a.status*10 + int(d-'0')
	}
	if a.status < 100 {
		return notHTTP(line)
	}
	a.minor, a.stage = int(line[len(version)]-'0'), headerLine
	a.length, a.chunked, a.closes, a.persist = -1, false, false, false
	return nil
}

// takeHeader parses NAME: VALUE.
func (a *answer) takeHeader(line []byte) error {
	name, value, ok := bytes.Cut(line, []byte{':'})
	if !ok || len(name) == 0 || bytes.ContainsAny(name, " \t\r\x00") {
		return fmt.Errorf("the response has an invalid header: %q", line[:min(len(line), quoted)])
	}
	value = bytes.Trim(value, " \t")
	switch {
	case isToken(name, "Content-Length"):
		length, err := strconv.ParseInt(string(value), 10, 64)
		if err != nil || length < 0 || value[0] == '+' || a.length >= 0 && a.length != length {
			return fmt.Errorf("the response has an invalid Content-Length: %q", value[:min(len(value), quoted)])
		}
		a.length = length
	case isToken(name, "Transfer-Encoding"):
		if a.chunked || !isToken(value, "chunked") {
			return fmt.Errorf("the response has a Transfer-Encoding other than chunked: %q", value[:min(len(value), quoted)])
		}
		a.chunked = true
	case isToken(name, "Connection"):
		for option := range bytes.SplitSeq(value, []byte{','}) {
			option = bytes.Trim(option, " \t")
			a.closes = a.closes || isToken(option, "close")
			a.persist = a.persist || isToken(option, "keep-alive")
		}
	}
	return nil
}

func isToken(text []byte, token string) bool {
	return len(text) == len(token) && strings.EqualFold(string(text), token)
}

// endHead decides how the body ends (RFC 9112 6.3).
func (a *answer) endHead() error {
	switch {
	case a.status == 101:
		return errors.New("the server switches to another protocol: status 101")
	case a.status < 200:
		a.stage = statusLine
		return nil
	case a.check.Method == "HEAD" || a.status == 204 || a.status == 304:
		a.stage = complete
	case a.chunked:
		a.closes = a.closes || a.length >= 0 // both are a sign of a confused proxy
		a.stage = chunkSize
	case a.length == 0:
		a.stage = complete
	case a.length > 0:
		a.stage, a.left = sizedBody, a.length
	default:
		a.stage = unsizedBody
	}
	if !a.check.comparesBody() && (a.stage == unsizedBody || a.stage == sizedBody && a.left > maxBody) {
		a.stage, a.beyond = complete, true // the rest is of no interest
	}
	a.head = 0
	return nil
}

// takeChunk parses the size of a chunk.
func (a *answer) takeChunk(line []byte) error {
	digits, _, _ := bytes.Cut(line, []byte{';'})
	size, err := strconv.ParseUint(string(bytes.Trim(digits, " \t")), 16, 31)
	if err != nil {
		return fmt.Errorf("the response has an invalid chunk size: %q", line[:min(len(line), quoted)])
	}
	a.stage, a.left = chunkData, int64(size)
	if size == 0 {
		a.stage = trailerLine
	}
	return nil
}

// data takes bytes of the body, and returns the others.
func (a *answer) data(p []byte) (rest []byte) {
	part := p
	if a.stage != unsizedBody && int64(len(part)) > a.left {
		part = part[:a.left]
	}
	if a.check.comparesBody() && len(a.body) < compared {
		a.body = append(a.body, part[:min(len(part), compared-len(a.body))]...)
	}
	a.total += int64(len(part))
	a.left -= int64(len(part))
	switch {
	case a.total > maxBody:
		a.stage, a.beyond = complete, true
	case a.stage == sizedBody && a.left == 0:
		a.stage = complete
	case a.stage == chunkData && a.left == 0:
		a.stage = chunkEnd
	}
	return p[len(part):]
}

// reusable reports whether another request can be sent on the connection.
func (a *answer) reusable() bool {
	return a.stage == complete && !a.beyond && !a.closes && (a.minor >= 1 || a.persist)
}

// outcome judges a complete answer.
func (a *answer) outcome() outcome {
	p := a.check
	switch {
	case !p.accepts(a.status):
		return failure(fmt.Sprintf("status %d, expected %s", a.status, p.expected()))
	case p.Body != "" && !bytes.Contains(a.body, []byte(p.Body)):
		return failure(fmt.Sprintf("status %d, but the body does not contain %q", a.status, p.Body))
	case p.pattern != nil && !p.pattern.Match(a.body):
		return failure(fmt.Sprintf("status %d, but the body does not match %q", a.status, p.BodyPattern))
	}
	return success
}
