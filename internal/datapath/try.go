// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"context"

	"github.com/polycube/polycube/internal/datapath/trial"
)

// Try loads the programs of a service in a trial, with the settings with which this Plane would link them.
func (p *Plane) Try(ctx context.Context, t Trial) (TrialReport, error) {
	p.mu.Lock()
	as := trial.Like{Objects: p.fw.Objects, Kernel: p.kernel, Mode: p.opts.Mode, State: p.state.OnTrial()}
	p.mu.Unlock()
	return trial.TryLike(ctx, t, as)
}
