// SPDX-License-Identifier: Apache-2.0

package external

import (
	"errors"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	pb "github.com/polycube/polycube/api/polycube/service/v1"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/extservice"
)

// taker is a process that takes descriptors, or not.
type taker struct {
	Process
	err  error
	took map[string]int
}

func (p *taker) Pass(message []byte, fd int) error {
	p.took[string(message)] = fd
	return p.err
}

func (p *taker) Done() <-chan struct{} { return nil }

func TestMemoryIsSharedWithProcessesOfTheDaemonOnly(t *testing.T) {
	l, err := begin(t, Options{}, &extservice.Server{Description: describe(t)})
	if err != nil {
		t.Fatal(err)
	}
	maps := map[string]*ebpf.Map{}
	for name, spec := range map[string]*ebpf.MapSpec{
		"ring":   {Type: ebpf.RingBuf, MaxEntries: 4096},
		"mapped": {Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 4, Flags: unix.BPF_F_MMAPABLE},
		"array":  {Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 4},
		"hash":   {Type: ebpf.Hash, KeySize: 4, ValueSize: 8, MaxEntries: 4},
	} {
		m, err := ebpf.NewMap(spec)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		maps[name] = m
	}
	i := open(t, l, newEnv(t, "c1", maps))
	defer func() { l.process = nil }()
	for _, c := range []struct {
		name    string
		process *taker
		want    error
	}{
		{"ring", nil, cube.ErrUnsupported},
		{"ring", &taker{}, nil},
		{"mapped", &taker{}, nil},
		{"array", &taker{}, cube.ErrInvalid},
		{"hash", &taker{}, cube.ErrInvalid},
		{"none", &taker{}, cube.ErrNotFound},
		{"ring", &taker{err: unix.EAGAIN}, cube.ErrFull},
		{"ring", &taker{err: unix.EPIPE}, unix.EPIPE},
	} {
		l.process = nil
		if c.process != nil {
			c.process.took = map[string]int{}
			l.process = c.process
		}
		var reply pb.MapReply
		err := i.mapRequest(&pb.MapRequest{Id: 0x0102, Map: c.name, Operation: &pb.MapRequest_Share{Share: &pb.MapShare{}}}, &reply)
		if !errors.Is(err, c.want) || err != nil && c.want == nil {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
		if err != nil {
			continue
		}
		if fd, passed := c.process.took["\x02\x01\x00\x00\x00\x00\x00\x00"]; !passed || fd != maps[c.name].FD() {
			t.Errorf("%s: passed %v", c.name, c.process.took)
		}
		if n := reply.GetInfo().GetMaxEntries(); n != maps[c.name].MaxEntries() {
			t.Errorf("%s: it has %d entries", c.name, n)
		}
	}
}
