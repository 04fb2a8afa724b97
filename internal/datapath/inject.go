// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"context"

	"github.com/polycube/polycube/internal/datapath/inject"
)

// Inject returns what the cubes would do with a packet, as records of its steps (struct pcn_record), followed by those
// of its copies. Nothing is learned, sent or counted.
func (p *Plane) Inject(ctx context.Context, at Injection) ([][]byte, error) {
	s, err := p.newSandbox(at.Cube)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	return s.Run(ctx, at)
}

func (p *Plane) newSandbox(id CubeID) (*inject.Sandbox, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return inject.New(inject.From{
		Graph: p.graph, Wiring: p.wiring, Segments: p.present(), Maker: p.maker, State: p.state, Tables: p.tables,
		Framework: p.fw, Kernel: p.kernel, Copies: p.sets.Copies,
	}, id)
}
