// SPDX-License-Identifier: Apache-2.0

package health

// grpc.health.v1.Health/Check on a connection that is already open. The library may not open another one: a session
// ends with its connection.

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

const (
	// grpcBuffer is the size of the library's buffers, of which a connection has several.
	grpcBuffer = 4 << 10
	// grpcMessage and grpcHeaders limit what a server sends.
	grpcMessage = 4 << 10
	grpcHeaders = 16 << 10
)

type grpcClient struct {
	conn   *grpc.ClientConn
	client grpc_health_v1.HealthClient
}

// encrypted are the credentials of a connection whose handshake has been made.
type encrypted struct {
	credentials.TransportCredentials
}

func (e encrypted) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "tls"}
}

func (e encrypted) Clone() credentials.TransportCredentials { return e }

// newGRPC makes a client that uses conn alone, and closes it.
func newGRPC(conn net.Conn, p *prepared) (*grpcClient, error) {
	var used atomic.Bool
	dial := func(context.Context, string) (net.Conn, error) {
		if used.Swap(true) {
			return nil, net.ErrClosed
		}
		return conn, nil
	}
	creds := insecure.NewCredentials()
	if p.TLS {
		creds = encrypted{creds}
	}
	is, err := grpc.NewClient("passthrough:///"+p.Target.String(),
		grpc.WithContextDialer(dial), grpc.WithTransportCredentials(creds), grpc.WithAuthority(p.Host),
		grpc.WithNoProxy(), grpc.WithDisableRetry(), grpc.WithDisableServiceConfig(), grpc.WithDisableHealthCheck(),
		grpc.WithIdleTimeout(0), grpc.WithUserAgent("polycube-health"), grpc.WithMaxHeaderListSize(grpcHeaders),
		grpc.WithReadBufferSize(grpcBuffer), grpc.WithWriteBufferSize(grpcBuffer),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(grpcMessage)))
	if err != nil {
		return nil, fmt.Errorf("gRPC: %w", err)
	}
	return &grpcClient{conn: is, client: grpc_health_v1.NewHealthClient(is)}, nil
}

func (g *grpcClient) close() { _ = g.conn.Close() }

// check asks for the health of the service. An error is one of the connection.
func (g *grpcClient) check(ctx context.Context, p *prepared, expires time.Time) (out outcome, keep bool, err error) {
	ctx, cancel := context.WithDeadline(ctx, expires)
	defer cancel()
	answer, err := g.client.Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: p.Service})
	what := "the server"
	if p.Service != "" {
		what = fmt.Sprintf("the gRPC service %q", p.Service)
	}
	switch is := status.Convert(err); is.Code() {
	case codes.OK:
		if answer.GetStatus() == grpc_health_v1.HealthCheckResponse_SERVING {
			return success, true, nil
		}
		return failure(fmt.Sprintf("%s reports %v", what, answer.GetStatus())), true, nil
	case codes.DeadlineExceeded:
		return outcome{}, false, context.DeadlineExceeded
	case codes.NotFound:
		return failure(fmt.Sprintf("the server does not know %s", what)), true, nil
	case codes.Unimplemented:
		return failure("the server has no gRPC health service"), true, nil
	case codes.Unavailable:
		return outcome{}, false, fmt.Errorf("gRPC is unavailable: %s", is.Message())
	default:
		return failure(limited(fmt.Sprintf("gRPC status %v: %s", is.Code(), is.Message()))), false, nil
	}
}
