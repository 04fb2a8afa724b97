// SPDX-License-Identifier: Apache-2.0

// Package foreign makes services of processes that are not part of the daemon. It speaks the protocol of api/ with them,
// and is the contract of package cube to the topology. What comes from such a process is not trusted: it is checked,
// bounded and waited for with deadlines, so that it can spoil its own cubes' control plane and nothing else.
package foreign

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	pb "github.com/polycube/polycube/api/polycube/service/v1"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/topology/service"
)

// Process is a process that was started for a service.
type Process interface {
	// Dial connects to where the process listens. It fails as long as that is nowhere.
	Dial(context.Context) (net.Conn, error)
	// Done is closed when the process has ended, of which Err is the reason.
	Done() <-chan struct{}
	Err() error
	// Stop ends it.
	Stop(context.Context) error
}

// Executable is a file that was opened for a service, and that stays the same whatever happens to its path.
type Executable interface {
	Start(context.Context) (Process, error)
}

// Options of New.
type Options struct {
	// Open opens the executable of a service; nil refuses the type lib.
	Open func(service, path string) (Executable, error)
	// TLS is for services of type grpc, with a certificate to show and the authority to trust; nil confines them to
	// loopback addresses, in the clear.
	TLS *tls.Config
	// Logger gets what services log.
	Logger *slog.Logger
	// Version is the daemon's.
	Version string
	// Beat is the time between two pings, Silence how long a service may be silent after one; 0 is the default.
	Beat, Silence time.Duration
}

// Defaults and bounds of time.
const (
	beat         = 5 * time.Second
	silence      = 10 * time.Second
	describeTime = 10 * time.Second
	readyTime    = 5 * time.Second
	closeTime    = 2 * time.Second
	stopTime     = 5 * time.Second
)

// Host starts services. It implements service.Host.
type Host struct {
	opts Options
}

// New creates a host.
func New(o Options) *Host {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Beat == 0 {
		o.Beat = beat
	}
	if o.Silence == 0 {
		o.Silence = silence
	}
	return &Host{opts: o}
}

// Start implements service.Host.
func (h *Host) Start(ctx context.Context, reg service.Registration, again service.Life) (service.Life, error) {
	l := newLife(h.opts, reg)
	if err := l.start(ctx, again); err != nil {
		why := l.reason(err)
		l.Close()
		return nil, why
	}
	return l, nil
}

// start begins a life: process, connection, description, session.
func (l *life) start(ctx context.Context, again service.Life) error {
	var err error
	switch l.reg.Type {
	case "lib":
		err = l.launch(ctx, again)
	case "grpc":
		err = l.dialAt(l.reg.URI)
	default:
		return fmt.Errorf("type %.20q is neither lib nor grpc: %w", l.reg.Type, cube.ErrInvalid)
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, describeTime)
	defer cancel()
	stop := l.unlessEnded(cancel)
	defer stop()
	if err := l.describe(ctx); err != nil {
		return err
	}
	return l.open(ctx)
}

// unlessEnded calls cancel when the process ends, until stop.
func (l *life) unlessEnded(cancel func()) (stop func()) {
	if l.process == nil {
		return func() {}
	}
	over := make(chan struct{})
	go func() {
		select {
		case <-l.process.Done():
			cancel()
		case <-over:
		}
	}()
	return func() { close(over) }
}

// launch starts the executable of a service: the one of an earlier life, if there was one.
func (l *life) launch(ctx context.Context, again service.Life) error {
	if l.opts.Open == nil {
		return fmt.Errorf("this daemon does not start executables: %w", cube.ErrUnsupported)
	}
	if !filepath.IsAbs(l.reg.URI) {
		return fmt.Errorf("uri %.200q: must be the absolute path of an executable: %w", l.reg.URI, cube.ErrInvalid)
	}
	if before, ok := again.(*life); ok && before.executable != nil && before.reg == l.reg {
		l.executable = before.executable
	} else {
		var err error
		if l.executable, err = l.opts.Open(l.reg.Name, l.reg.URI); err != nil {
			return err
		}
	}
	var err error
	if l.process, err = l.executable.Start(ctx); err != nil {
		return err
	}
	l.conn, err = l.dial(insecure.NewCredentials(), l.process.Dial)
	return err
}

// dialAt connects to a service that listens elsewhere.
func (l *life) dialAt(address string) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil || host == "" || port == "" || len(address) > 300 {
		return fmt.Errorf("uri %.300q: must be HOST:PORT: %w", address, cube.ErrInvalid)
	}
	creds := insecure.NewCredentials()
	switch {
	case l.opts.TLS != nil:
		config := l.opts.TLS.Clone()
		config.ServerName = host
		creds = credentials.NewTLS(config)
	case !isLoopback(host):
		return fmt.Errorf("uri %s: a service on another machine requires mutual TLS: start the daemon with services-cacert, "+
			"services-cert and services-key: %w", address, cube.ErrInvalid)
	}
	l.conn, err = l.dial(creds, func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", address)
	})
	return err
}

// isLoopback says whether a host can be nothing but this machine. Names other than localhost can be anything.
func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// dial makes a connection that is established when it is first used.
func (l *life) dial(creds credentials.TransportCredentials, dialer func(context.Context) (net.Conn, error)) (*grpc.ClientConn, error) {
	conn, err := grpc.NewClient("passthrough:///service",
		grpc.WithTransportCredentials(creds),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			conn, err := dialer(ctx)
			l.unreached.Store(nil)
			if err != nil {
				l.unreached.Store(&err)
			}
			return conn, err
		}),
		grpc.WithDisableServiceConfig(), grpc.WithDisableRetry(), grpc.WithUserAgent("polycubed"),
		grpc.WithMaxHeaderListSize(64<<10),
		grpc.WithConnectParams(grpc.ConnectParams{MinConnectTimeout: 2 * time.Second,
			Backoff: backoff.Config{BaseDelay: 20 * time.Millisecond, Multiplier: 1.5, MaxDelay: 300 * time.Millisecond}}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage), grpc.MaxCallSendMsgSize(maxMessage), grpc.WaitForReady(true)))
	if err != nil {
		return nil, fmt.Errorf("connecting: %w", err)
	}
	return conn, nil
}

// describe asks a service what it is, and checks the answer.
func (l *life) describe(ctx context.Context) error {
	l.client = pb.NewServiceClient(l.conn)
	// A process that was started needs time until it listens; who listens elsewhere does so already.
	d, err := l.client.Describe(ctx, &pb.DescribeRequest{Protocol: protocol, Daemon: l.opts.Version, Kernel: kernelRelease()},
		grpc.WaitForReady(l.process != nil))
	if why := l.unreached.Load(); err != nil && why != nil && status.Code(err) != codes.OK {
		return &lost{"connecting to it: " + sentence((*why).Error()), true}
	}
	if err != nil {
		return fmt.Errorf("query its description: %w", said(err))
	}
	l.description = d
	if err := checkDescription(l.reg.Name, d); err != nil {
		return err
	}
	return service.KernelIs(d.GetMinKernel())
}

// random is a number that nobody guesses and that is not used twice.
func random() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails: the runtime ends the process if the kernel has no randomness
	return binary.LittleEndian.Uint64(b[:]) | 1
}

// errEnded is what calls answer after the end of a life.
var errEnded = errors.New("it was stopped")
