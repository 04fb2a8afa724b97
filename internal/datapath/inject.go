// SPDX-License-Identifier: Apache-2.0

package datapath

import "context"

// Inject tells what the cubes would do with a packet, as records of its steps (struct pcn_record),
// those of its copies behind it. Nothing is learned, sent or counted.
func (p *Plane) Inject(ctx context.Context, at Injection) ([][]byte, error) {
	s, err := p.newSandbox(at.Cube)
	if err != nil {
		return nil, err
	}
	defer s.close()
	return s.inject(ctx, at)
}

func (p *Plane) newSandbox(id CubeID) (*sandbox, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return newSandbox(injectFrom{
		Graph: p.graph, Segments: p.present(), Maker: p.maker, State: p.state, Tables: p.tables,
		Framework: p.fw, Kernel: p.kernel, Copies: p.sets.Copies,
	}, id)
}
