// SPDX-License-Identifier: Apache-2.0

package external

// Limits on what a service may send, and its form when it is passed on.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/polycube/polycube/api/polycube/service/v1"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/foreign"
)

// protocol is the version of the protocol implemented here.
const protocol = 1

// Limits on what a service sends; service.proto and Hello document them.
const (
	maxMessage  = 32 << 20
	maxDocument = 8 << 20
	maxFile     = 4 << 20
	maxName     = 64
	maxSentence = 1024
	maxBatch    = 1 << 16
	maxConst    = 64 << 10
	maxChanges  = 64
	maxEdits    = 10_000
	maxPath     = 64
	maxFrame    = 68 << 10
	maxRequests = 64
	maxMisses   = 3
	maxSeries   = 200
	maxLabels   = 8
	maxLabel    = 128
	maxAttrs    = 16
	logLines    = 200
	batchSize   = 64
	packetRate  = 500_000
	packetQueue = 4096
	packetBytes = 8 << 20
	outboxSize  = 16_384
)

var identifier = regexp.MustCompile(`^[A-Za-z_.][A-Za-z0-9_.]*$`)

// sentence converts text of a service to a single line of limited length.
func sentence(text string) string {
	if len(text) > maxSentence {
		text = text[:maxSentence]
		for len(text) > 0 && !utf8.ValidString(text) {
			text = text[:len(text)-1]
		}
	}
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		switch {
		case unicode.IsControl(r):
			return ' '
		case r == utf8.RuneError:
			return '?'
		}
		return r
	}, text))
}

// kinds map gRPC codes to errors of package cube.
var kinds = map[codes.Code]error{
	codes.InvalidArgument: cube.ErrInvalid, codes.OutOfRange: cube.ErrInvalid, codes.NotFound: cube.ErrNotFound,
	codes.AlreadyExists: cube.ErrExists, codes.FailedPrecondition: cube.ErrInUse, codes.ResourceExhausted: cube.ErrFull,
	codes.Unimplemented: cube.ErrUnsupported, codes.Unavailable: cube.ErrUnavailable, codes.Aborted: cube.ErrStale,
}

// lost is the error of a service that ended.
type lost struct {
	text string
	// broken says that the connection ended, which may be a consequence of something else.
	broken bool
}

func (e *lost) Error() string { return e.text }
func (e *lost) Unwrap() error { return cube.ErrUnavailable }

// lostError returns the error for the end of a part of a service, with the error of the connection.
func lostError(what string, err error) error {
	if s, ok := status.FromError(err); ok && err != nil && s.Message() != "" {
		what += " (" + sentence(s.Message()) + ")"
	}
	return &lost{what, err != nil}
}

// callError is the error that a service, or the connection to it, returned.
func callError(err error) error {
	s, ok := status.FromError(err)
	if !ok {
		return err
	}
	text := sentence(s.Message())
	if text == "" {
		text = "it gave no reason"
	}
	if code := s.Code(); code == codes.Unavailable || code == codes.DeadlineExceeded || code == codes.Canceled {
		return &lost{text, true}
	}
	if kind := kinds[s.Code()]; kind != nil {
		return fmt.Errorf("%s: %w", text, kind)
	}
	return errors.New(text)
}

// fault converts an error for the service.
func fault(err error) *pb.Fault {
	code := codes.Internal
	if errors.Is(err, cube.ErrRefused) {
		code = codes.InvalidArgument // the program that it added
	}
	for c, kind := range kinds {
		if errors.Is(err, kind) && c != codes.OutOfRange {
			code = c
		}
	}
	return &pb.Fault{Code: uint32(code), Message: sentence(err.Error())}
}

// invalid is the error for an invalid response.
func invalid(format string, args ...any) error {
	return fmt.Errorf("invalid response: "+format, args...)
}

// document checks a JSON document of a service; empty is nil.
func document(what string, raw []byte) (json.RawMessage, error) {
	switch {
	case len(raw) == 0:
		return nil, nil
	case len(raw) > maxDocument:
		return nil, invalid("%s has %d bytes, the limit is %d", what, len(raw), maxDocument)
	case !json.Valid(raw):
		return nil, invalid("%s is not JSON", what)
	}
	return raw, nil
}

// object is document for JSON objects.
func object(what string, raw []byte) (json.RawMessage, error) {
	doc, err := document(what, raw)
	if err == nil && doc != nil && strings.TrimLeft(string(doc[:min(len(doc), 64)]), " \t\r\n")[:1] != "{" {
		err = invalid("%s is not a JSON object", what)
	}
	return doc, err
}

// checkName checks a C name.
func checkName(what, name string) error {
	if len(name) > maxName || !identifier.MatchString(name) {
		return invalid("%.80q is not a valid name of a %s", name, what)
	}
	return nil
}

// bucket limits a rate per second, with a burst of twice as many.
type bucket struct {
	mu   sync.Mutex
	rate float64
	left float64
	last time.Time
	// over counts what exceeded the rate.
	over uint64
}

func newBucket(rate int) *bucket {
	return &bucket{rate: float64(rate), left: 2 * float64(rate), last: time.Now()}
}

func (b *bucket) take() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	b.left = min(2*b.rate, b.left+now.Sub(b.last).Seconds()*b.rate)
	b.last = now
	if b.left < 1 {
		b.over++
		return false
	}
	b.left--
	return true
}

// excess returns the excess since the last call.
func (b *bucket) excess() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := b.over
	b.over = 0
	return n
}

// within is the time that a service requests for a call, within limits.
func within(ms uint32, usual, most time.Duration) time.Duration {
	if ms == 0 {
		return usual
	}
	return min(time.Duration(ms)*time.Millisecond, most)
}

// deadlines are those of calls to a service.
type deadlines struct{ prepare, commit, state, action time.Duration }

func deadlinesOf(d *pb.Deadlines) deadlines {
	return deadlines{
		prepare: within(d.GetPrepare(), 5*time.Second, 10*time.Second),
		commit:  within(d.GetCommit(), 5*time.Second, 10*time.Second),
		state:   within(d.GetState(), 2*time.Second, 10*time.Second),
		action:  within(d.GetAction(), 5*time.Second, 10*time.Second),
	}
}

// timed gives a call only its deadline: a client that disconnects does not cancel what the service has started.
func timed(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), d)
}

func kernelRelease() string {
	var name unix.Utsname
	if unix.Uname(&name) != nil {
		return ""
	}
	return unix.ByteSliceToString(name.Release[:])
}

// hooks converts the protocol's hooks.
var hooks = map[pb.Hook]cube.Hook{pb.Hook_HOOK_TC: cube.TC, pb.Hook_HOOK_XDP: cube.XDP}

// objectsOf checks compiled files.
func objectsOf(list []*pb.Object) (map[cube.Hook][]byte, error) {
	out := map[cube.Hook][]byte{}
	for _, o := range list {
		h, ok := hooks[o.GetHook()]
		switch {
		case !ok:
			return nil, invalid("an object is for an unknown hook")
		case out[h] != nil:
			return nil, invalid("two objects are for %s", h)
		case len(o.GetElf()) == 0 || len(o.GetElf()) > maxFile:
			return nil, invalid("the object for %s has %d bytes, the range is 1 to %d", h, len(o.GetElf()), maxFile)
		}
		out[h] = o.GetElf()
	}
	if err := foreign.Check(out); err != nil {
		return nil, err
	}
	return out, nil
}

// checkDescription checks the description of a service. The model is checked when it is loaded.
func checkDescription(name string, d *pb.Description) error {
	switch {
	case d.GetProtocol() != protocol:
		return fmt.Errorf("it uses version %d of the protocol, this daemon uses version %d: %w", d.GetProtocol(), protocol, cube.ErrUnsupported)
	case d.GetName() != name:
		return fmt.Errorf("it is the service %.80q, not %q: %w", d.GetName(), name, cube.ErrInvalid)
	case len(d.GetModel()) > maxFile:
		return fmt.Errorf("its model has %d bytes: %w", len(d.GetModel()), cube.ErrInvalid)
	case len(d.GetObjects()) == 0:
		return fmt.Errorf("it has no programs: %w", cube.ErrInvalid)
	case d.GetMaxPorts() > 1<<16:
		return fmt.Errorf("it allows %d ports: %w", d.GetMaxPorts(), cube.ErrInvalid)
	}
	return nil
}
