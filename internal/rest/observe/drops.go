// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"errors"
	"net/http"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/rest/message"
	"github.com/polycube/polycube/internal/suggest"
	"github.com/polycube/polycube/internal/trace"
)

// ServeDrops handles /drops and /drops/CUBE: which cubes drop packets, why, and since when.
func (o *Observer) ServeDrops(w http.ResponseWriter, r *http.Request, rest []string) error {
	if err := message.Allow(r, http.MethodGet, http.MethodOptions); err != nil {
		return err
	}
	if r.Method == http.MethodOptions {
		return o.help.Show(w, r, rest)
	}
	name := ""
	if len(rest) > 0 {
		name = rest[0]
	}
	drops, err := o.drops.Report(name)
	if errors.Is(err, cube.ErrNotFound) {
		p := message.NotFound("%v", err)
		p.Near = suggest.Near(name, append(o.names.CubeNames(), trace.Framework))
		return p
	}
	if err != nil {
		return err
	}
	return o.out.JSON(w, r, http.StatusOK, drops)
}
