// SPDX-License-Identifier: Apache-2.0

// Package external runs external services: processes that are not part of the daemon. It speaks the protocol of api/
// with them, and presents them to the topology with the contract of package cube. Data from such a process is not
// trusted: it is checked and limited, and calls have deadlines, so that it can only break its own cubes' control
// plane.
package external

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
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
	// Dial connects to where the process listens. It fails until the process listens.
	Dial(context.Context) (net.Conn, error)
	// Done is closed when the process has ended, with Err as the reason.
	Done() <-chan struct{}
	Err() error
	// Pass sends a message with a file descriptor to the process, over the socket that it inherited. It does not wait:
	// EAGAIN if the process does not read its messages.
	Pass(message []byte, fd int) error
	// Stop ends it.
	Stop(context.Context) error
}

// Executable is an open file of a service, which stays the same whatever happens to its path.
type Executable interface {
	Start(context.Context) (Process, error)
}

// Options of New.
type Options struct {
	// Open opens the executable of a service; nil refuses the type lib.
	Open func(service, path string) (Executable, error)
	// TLS is for services of type grpc, with the certificate to present and the authority to trust; nil restricts them
	// to loopback addresses, without TLS.
	TLS *tls.Config
	// Route looks up a route of the host for a service; cube.ErrNotFound if there is none. Nil refuses such requests.
	Route func(netip.Addr) (Route, error)
	// Logger receives the log lines of services.
	Logger *slog.Logger
	// Version is the daemon's.
	Version string
	// Beat is the time between two pings, Silence how long a service may be silent after one; 0 is the default.
	Beat, Silence time.Duration
}

// Defaults and limits of times.
const (
	beat         = 5 * time.Second
	maxSilence   = 10 * time.Second
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
		o.Silence = maxSilence
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

// start starts a service: process, connection, description, session.
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

// unlessEnded calls cancel if the process ends, until stop.
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

// launch starts the executable of a service: the same file as before, if it ran before.
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

// isLoopback reports whether a host is certainly this machine. Names other than localhost can be anything.
func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// dial creates a connection that is established on first use.
func (l *life) dial(creds credentials.TransportCredentials, dialer func(context.Context) (net.Conn, error)) (*grpc.ClientConn, error) {
	conn, err := grpc.NewClient("passthrough:///service",
		grpc.WithTransportCredentials(creds),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			conn, err := dialer(ctx)
			l.dialErr.Store(nil)
			if err != nil {
				l.dialErr.Store(&err)
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

// describe requests the description of a service, and checks the response.
func (l *life) describe(ctx context.Context) error {
	l.client = pb.NewServiceClient(l.conn)
	// A started process needs time until it listens; other services already listen.
	d, err := l.client.Describe(ctx, &pb.DescribeRequest{Protocol: protocol, Daemon: l.opts.Version, Kernel: kernelRelease()},
		grpc.WaitForReady(l.process != nil))
	if why := l.dialErr.Load(); err != nil && why != nil && status.Code(err) != codes.OK {
		return &lost{"connecting to it: " + sentence((*why).Error()), true}
	}
	if err != nil {
		return fmt.Errorf("query its description: %w", callError(err))
	}
	l.description = d
	if err := checkDescription(l.reg.Name, d); err != nil {
		return err
	}
	return service.KernelIs(d.GetMinKernel())
}

// random is a number that cannot be guessed and is not used twice.
func random() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails: the runtime ends the process if the kernel has no randomness
	return binary.LittleEndian.Uint64(b[:]) | 1
}

// errEnded is the error of calls after the end of a session.
var errEnded = errors.New("it was stopped")
