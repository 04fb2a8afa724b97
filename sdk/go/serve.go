// SPDX-License-Identifier: Apache-2.0

package sdk

// Running a service: on the socket named by the daemon that started it, or, for remote daemons, at an address.

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	pb "github.com/polycube/polycube/api/polycube/service/v1"
)

// SocketEnv is the environment variable with the path of the socket.
const SocketEnv = "POLYCUBE_SERVICE_SOCKET"

const maxMessage = 32 << 20

// Main runs a service until it is told to stop, and exits.
func Main[T Instance](s Service[T]) {
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM, unix.SIGINT)
	err := Serve(ctx, s, os.Args[1:], os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", s.Name, err)
		os.Exit(1)
	}
}

// Serve runs a service until the context ends. args are the command line's arguments: --listen HOST:PORT serves remote
// daemons, with --cert, --key and --ca (PEM) for mutual TLS, which is required except on loopback.
func Serve[T Instance](ctx context.Context, s Service[T], args []string, help io.Writer) error {
	keepSocket()
	listener, creds, err := where(s.Name, args, help)
	if err != nil {
		return err
	}
	options := []grpc.ServerOption{grpc.MaxRecvMsgSize(maxMessage), grpc.MaxSendMsgSize(maxMessage)}
	if creds != nil {
		options = append(options, grpc.Creds(creds))
	}
	g := grpc.NewServer(options...)
	pb.RegisterServiceServer(g, newServer(s))
	defer context.AfterFunc(ctx, g.Stop)()
	if err := g.Serve(listener); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return fmt.Errorf("serving: %w", err)
	}
	return nil
}

func where(name string, args []string, help io.Writer) (net.Listener, credentials.TransportCredentials, error) {
	f := flag.NewFlagSet(name, flag.ContinueOnError)
	f.SetOutput(help)
	listen := f.String("listen", "", "HOST:PORT to listen on for remote daemons")
	cert, key := f.String("cert", "", "certificate of the service (PEM)"), f.String("key", "", "its key")
	ca := f.String("ca", "", "authority that must have signed the daemons' certificates (PEM)")
	if err := f.Parse(args); err != nil {
		return nil, nil, err
	}
	if *listen == "" {
		path := os.Getenv(SocketEnv)
		if path == "" {
			return nil, nil, fmt.Errorf("start it with `polycubectl services add`, or give --listen (%s is not set)", SocketEnv)
		}
		l, err := net.Listen("unix", path)
		return l, nil, err
	}
	creds, err := mutual(*listen, *cert, *key, *ca)
	if err != nil {
		return nil, nil, err
	}
	l, err := net.Listen("tcp", *listen)
	return l, creds, err
}

// mutual reads the files for mutual TLS, which are optional on loopback.
func mutual(listen, cert, key, ca string) (credentials.TransportCredentials, error) {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	ip := net.ParseIP(host)
	if cert == "" && key == "" && ca == "" && (host == "localhost" || ip != nil && ip.IsLoopback()) {
		return nil, nil
	}
	if cert == "" || key == "" || ca == "" {
		return nil, errors.New("on a non-loopback address, a service requires --cert, --key and --ca")
	}
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("cert: %w", err)
	}
	text, err := os.ReadFile(ca)
	if err != nil {
		return nil, fmt.Errorf("ca: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("ca %s: contains no certificate", ca)
	}
	return credentials.NewTLS(&tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{pair}, ClientCAs: pool,
		ClientAuth: tls.RequireAndVerifyClientCert}), nil
}
