// SPDX-License-Identifier: Apache-2.0

package external

// The entries of a map with an old layout are converted by the service, which has no access to the map itself.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/cilium/ebpf"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/polycube/polycube/api/polycube/service/v1"
	"github.com/polycube/polycube/cube"
)

// migrateTime limits the conversion of a map.
const migrateTime = 20 * time.Second

// migratePage is the number of entries per message.
const migratePage = 1024

// migrate implements cube.Service.Migrate.
func (l *life) migrate(m cube.Migration) error {
	ctx, cancel := context.WithTimeout(l.ctx, migrateTime)
	defer cancel()
	from, to := &table{name: m.Map, m: m.Old}, &table{name: m.Map, m: m.New}
	for _, t := range []*table{from, to} {
		if perCPU(t.m.Type()) {
			t.cpus = ebpf.MustPossibleCPU()
		}
	}
	stream, err := l.client.Migrate(ctx)
	if err != nil {
		return l.migrateError(err)
	}
	sent := make(chan error, 1)
	go func() {
		err := sendEntries(stream, m, from, to)
		if err != nil {
			cancel()
		}
		sent <- err
	}()
	for {
		out, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return <-sent
		}
		if err != nil {
			cancel()
			if broken := <-sent; broken != nil { // which ended the call
				return broken
			}
			return l.migrateError(err)
		}
		for _, e := range out.GetEntries() {
			if err := to.put(e.GetKey(), e.GetValue(), ebpf.UpdateAny); err != nil {
				cancel()
				return errors.Join(fmt.Errorf("service %s: %w", l.reg.Name, err), <-sent)
			}
		}
	}
}

// migrateError says why a call of Migrate failed.
func (l *life) migrateError(err error) error {
	if l.endsWith(err) {
		return &lost{fmt.Sprintf("service %s was lost during Migrate (%v)", l.reg.Name, l.Err()), false}
	}
	if code := status.Code(err); code == codes.DeadlineExceeded || code == codes.Canceled {
		return &lost{fmt.Sprintf("service %s did not answer Migrate within %v", l.reg.Name, migrateTime), false}
	}
	return callError(err)
}

// sendEntries sends the entries of the old map. If the service ends the call, the received error has the reason.
func sendEntries(stream grpc.BidiStreamingClient[pb.MigrateIn, pb.MigrateOut], m cube.Migration, from, to *table) error {
	start := &pb.MigrateStart{Cube: m.Cube, Map: m.Map, Old: from.info(), New: to.info()}
	if over(stream.Send(&pb.MigrateIn{Start: start})) {
		return nil
	}
	var after []byte
	for {
		var page []*pb.Entry
		last, err := from.page(after, migratePage, func(key, value []byte) error {
			page = append(page, &pb.Entry{Key: key, Value: value})
			return nil
		})
		if err != nil {
			return err
		}
		if len(page) > 0 {
			after = page[len(page)-1].GetKey()
			if over(stream.Send(&pb.MigrateIn{Entries: page})) {
				return nil
			}
		}
		if last || len(page) == 0 {
			_ = stream.CloseSend() // the received error has the reason
			return nil
		}
	}
}

// over says that nothing more can be sent; the received error has the reason.
func over(err error) bool { return err != nil }
