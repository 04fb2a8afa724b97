// SPDX-License-Identifier: Apache-2.0

package sdk

// Maps in memory that the service shares with its programs: rings and arrays. The daemon passes their descriptors over a
// socket that the process inherited.

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	pb "github.com/polycube/polycube/api/polycube/service/v1"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/ring"
)

// DescriptorsEnv is the environment variable with the descriptor of the socket over which the daemon passes descriptors.
const DescriptorsEnv = "POLYCUBE_SERVICE_DESCRIPTORS"

// OpenRing opens the ring of a cube, by the name in PCN_RING. It can be called from the first Commit on. Packets that are in
// the ring are read as well: see Skip of ring.Reader. The service closes the reader when the cube is closed. Only a service
// that the daemon starts (type lib) has rings; otherwise the error is ErrUnsupported.
func OpenRing(ctx context.Context, env Env, name string) (*ring.Reader, error) {
	of, info, err := descriptor(ctx, env, name)
	if err != nil {
		return nil, err
	}
	defer of.Close()
	reader, _, err := descriptor(ctx, env, name+ring.ReaderSuffix)
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	return ring.OpenFiles(name, of, reader, uint64(info.GetMaxEntries()))
}

// Mapped is an array with the flag BPF_F_MMAPABLE in memory, see table.Mapped of package cube/table. What a service writes
// there is not undone when a change fails.
type Mapped[V any] struct {
	memory []byte
	values []V
}

// OpenMapped maps an array of a cube into memory. V has the layout of the C type, without implicit padding, and a multiple
// of 8 bytes. The rest is as for OpenRing.
func OpenMapped[V any](ctx context.Context, env Env, name string) (*Mapped[V], error) {
	file, info, err := descriptor(ctx, env, name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var zero V
	size := binary.Size(zero)
	if size != int(unsafe.Sizeof(zero)) || size%8 != 0 || size != int(info.GetValueSize()) {
		return nil, fmt.Errorf("map %s: its values have %d bytes, %T has %d and in memory %d; mapped values have a multiple of 8 and no implicit padding: %w",
			name, info.GetValueSize(), zero, size, unsafe.Sizeof(zero), cube.ErrInvalid)
	}
	memory, err := unix.Mmap(int(file.Fd()), 0, size*int(info.GetMaxEntries()), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map %s: map it into memory: %w", name, err)
	}
	return &Mapped[V]{memory, unsafe.Slice((*V)(unsafe.Pointer(&memory[0])), info.GetMaxEntries())}, nil
}

// Values returns all entries: not a copy, but the memory that programs use. It is valid until Close.
func (m *Mapped[V]) Values() []V { return m.values }

// Close ends the mapping.
func (m *Mapped[V]) Close() error {
	memory := m.memory
	m.memory, m.values = nil, nil
	if memory == nil {
		return nil
	}
	return unix.Munmap(memory)
}

// inherited is the socket for descriptors.
var inherited struct {
	sync.Mutex
	fd int // 0: not looked for yet; -1: none
}

// keepSocket finds the socket for descriptors, which children of the process do not inherit.
func keepSocket() {
	inherited.Lock()
	defer inherited.Unlock()
	if inherited.fd != 0 {
		return
	}
	inherited.fd = -1
	if fd, err := strconv.Atoi(os.Getenv(DescriptorsEnv)); err == nil && fd > 0 {
		unix.CloseOnExec(fd)
		inherited.fd = fd
	}
}

// descriptor requests a descriptor of a map. Requests come one at a time, so that each finds its own descriptor.
func descriptor(ctx context.Context, env Env, name string) (*os.File, *pb.MapInfo, error) {
	keepSocket()
	inherited.Lock()
	defer inherited.Unlock()
	r := &pb.MapRequest{Operation: &pb.MapRequest_Share{Share: &pb.MapShare{}}}
	reply, err := env.access().ask(ctx, name, r)
	if err != nil {
		return nil, nil, err
	}
	for {
		number, file, err := receive(inherited.fd)
		if err != nil {
			return nil, nil, fmt.Errorf("map %s: receive its descriptor: %w", name, err)
		}
		if number == r.GetId() {
			return file, reply.GetInfo(), nil
		}
		_ = file.Close() // of a request that was given up
	}
}

// receive takes a descriptor from the socket, with the number of its request. The daemon passes it before it answers.
func receive(socket int) (uint64, *os.File, error) {
	message, oob := make([]byte, 8), make([]byte, unix.CmsgSpace(4))
	n, oobn, _, _, err := unix.Recvmsg(socket, message, oob, unix.MSG_CMSG_CLOEXEC|unix.MSG_DONTWAIT)
	if err != nil {
		return 0, nil, err
	}
	rights, err := unix.ParseSocketControlMessage(oob[:oobn])
	if err != nil {
		return 0, nil, err
	}
	if n != len(message) || len(rights) != 1 {
		return 0, nil, errors.New("the message has no descriptor")
	}
	fds, err := unix.ParseUnixRights(&rights[0])
	if err != nil {
		return 0, nil, err
	}
	return binary.LittleEndian.Uint64(message), os.NewFile(uintptr(fds[0]), "map"), nil
}
