// SPDX-License-Identifier: Apache-2.0

package datapath

import "context"

// Try loads the programs of a service on trial, beside what runs, as this Plane would link them.
func (p *Plane) Try(ctx context.Context, t Trial) (TrialReport, error) {
	p.mu.Lock()
	as := like{p.fw.Objects, p.kernel, p.opts.Mode, p.state.OnTrial()}
	p.mu.Unlock()
	return try(ctx, t, as)
}
