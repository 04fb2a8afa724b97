// SPDX-License-Identifier: Apache-2.0

package sdk

// A map whose layout has changed: entries that an earlier version of the service left are converted one by one.

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/polycube/polycube/api/polycube/service/v1"
	"github.com/polycube/polycube/cube"
)

// ErrDrop is returned by the function of a Migration to leave an entry out.
var ErrDrop = errors.New("drop this entry")

// Migration converts the entries of a map from the layout of an earlier version to the present one. See Migrate.
type Migration struct {
	name             string
	oldKey, oldValue int
	newKey, newValue int
	convert          func(key, value []byte) (newKey, newValue []byte, err error)
	newTypes         string
}

// Migrate returns the conversion of a map, by its C name. entry returns the new entry for an old one; it depends on that
// entry alone, because the daemon repeats it for what packets write meanwhile. With ErrDrop the entry is left out; any
// other error refuses the new version, and nothing has changed. In a per-CPU map, entry is called for the value of each
// CPU and must always return the same key. Where a C type has padding, the Go type has blank members.
//
// A service with several old layouts has several migrations of the map; the first whose old types have the sizes of the
// old map is used.
func Migrate[OldK comparable, OldV any, K comparable, V any](name string, entry func(OldK, OldV) (K, V, error)) Migration {
	var oldKey OldK
	var oldValue OldV
	var key K
	var value V
	return Migration{
		name: name, oldKey: binary.Size(oldKey), oldValue: binary.Size(oldValue), newKey: binary.Size(key), newValue: binary.Size(value),
		newTypes: fmt.Sprintf("%T and %T", key, value),
		convert: func(rawKey, rawValue []byte) ([]byte, []byte, error) {
			var key OldK
			var value OldV
			if err := errors.Join(decode(rawKey, &key), decode(rawValue, &value)); err != nil {
				return nil, nil, err
			}
			k, v, err := entry(key, value)
			if err != nil {
				return nil, nil, err
			}
			outKey, err := encode(k)
			if err != nil {
				return nil, nil, err
			}
			outValue, err := encode(v)
			return outKey, outValue, err
		},
	}
}

// migrationOf finds the migration of a map.
func migrationOf(all []Migration, start *pb.MigrateStart) (Migration, error) {
	was, is := start.GetOld(), start.GetNew()
	for _, m := range all {
		if m.name != start.GetMap() || m.oldKey != int(was.GetKeySize()) || m.oldValue != int(was.GetValueSize()) {
			continue
		}
		if m.newKey != int(is.GetKeySize()) || m.newValue != int(is.GetValueSize()) {
			return m, fmt.Errorf("map %s: its migration makes entries of %d and %d bytes (%s), the map has %d and %d: %w",
				m.name, m.newKey, m.newValue, m.newTypes, is.GetKeySize(), is.GetValueSize(), cube.ErrInvalid)
		}
		if was.GetPerCpu() != is.GetPerCpu() {
			return m, fmt.Errorf("map %s: entries of a per-CPU map and of another one cannot be converted: %w", m.name, cube.ErrUnsupported)
		}
		return m, nil
	}
	return Migration{}, fmt.Errorf("map %s: the service has no migration from keys of %d and values of %d bytes: add one to Service.Migrations, "+
		"or declare the map with PCN_DISPOSABLE if its entries may be dropped: %w", start.GetMap(), was.GetKeySize(), was.GetValueSize(), cube.ErrUnsupported)
}

// check refuses types without a fixed size.
func (m Migration) check() error {
	if min(m.oldKey, m.oldValue, m.newKey, m.newValue) < 0 {
		return fmt.Errorf("map %s: its migration has a type without a fixed size, such as int or string: use uint32, arrays and "+
			"structs of these: %w", m.name, cube.ErrInvalid)
	}
	return nil
}

// entry converts an entry; nil if it is left out.
func (m Migration) entry(e *pb.Entry, perCPU bool) (*pb.Entry, error) {
	step := len(e.GetValue())
	if perCPU {
		step = (m.oldValue + 7) &^ 7
	}
	out := &pb.Entry{}
	for at := 0; at < len(e.GetValue()); at += step {
		key, value, err := m.convert(e.GetKey(), e.GetValue()[at:][:m.oldValue])
		if errors.Is(err, ErrDrop) {
			return nil, nil
		}
		switch {
		case err != nil:
		case out.Key != nil && string(out.GetKey()) != string(key):
			err = fmt.Errorf("the values of two CPUs have different keys (%x and %x): %w", out.GetKey(), key, cube.ErrInvalid)
		}
		if err != nil {
			return nil, fmt.Errorf("map %s: entry %x: %w", m.name, e.GetKey(), err)
		}
		if perCPU {
			value = append(value, make([]byte, (m.newValue+7)&^7-m.newValue)...)
		}
		out.Key, out.Value = key, append(out.Value, value...)
	}
	return out, nil
}

// Migrate implements the protocol.
func (s *server[T]) Migrate(stream grpc.BidiStreamingServer[pb.MigrateIn, pb.MigrateOut]) error {
	err := guarded(func() error { return migrate(s.service.Migrations, stream) })
	if _, ok := status.FromError(err); !ok {
		err = status.Error(codeOf(err), err.Error())
	}
	return err
}

func migrate(all []Migration, stream grpc.BidiStreamingServer[pb.MigrateIn, pb.MigrateOut]) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	start := first.GetStart()
	if start == nil {
		return status.Error(codes.InvalidArgument, "a migration must begin with MigrateStart")
	}
	m, err := migrationOf(all, start)
	if err != nil {
		return err
	}
	for in := first; ; {
		out := &pb.MigrateOut{}
		for _, e := range in.GetEntries() {
			converted, err := m.entry(e, start.GetOld().GetPerCpu())
			if err != nil {
				return err
			}
			if converted != nil {
				out.Entries = append(out.Entries, converted)
			}
		}
		if len(out.GetEntries()) > 0 {
			if err := stream.Send(out); err != nil {
				return err
			}
		}
		if in, err = stream.Recv(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}
