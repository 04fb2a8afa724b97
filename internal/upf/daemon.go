// SPDX-License-Identifier: Apache-2.0

package upf

// The API of polycubed, which returns the UUID and addresses of the cube, and sends End Markers.

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"

	"github.com/polycube/polycube/gtppath"
	"github.com/polycube/polycube/internal/n4"
	"github.com/polycube/polycube/internal/sidecar"
)

// patience is how long the daemon may take to answer.
const patience = sidecar.Patience

// daemon is a polycubed.
type daemon struct{ *sidecar.Daemon }

// newDaemon returns the daemon that listens on a Unix socket.
func newDaemon(socket string) *daemon { return &daemon{sidecar.NewDaemon(socket)} }

// cubeState is the part of the cube's state that the program needs.
type cubeState struct {
	UUID   string            `json:"uuid"`
	Locals []gtppath.Address `json:"local-address"`
}

// errNoCube is a cube that does not exist.
var errNoCube = sidecar.ErrNoCube

// cube reads the state of a cube `upf`.
func (d *daemon) cube(ctx context.Context, name string) (is cubeState, err error) {
	if err := d.Read(ctx, "upf", name, "uuid", &is.UUID); err != nil {
		return is, err
	}
	return is, d.Read(ctx, "upf", name, "local-address", &is.Locals)
}

// endMarker asks a cube to send an End Marker.
func (d *daemon) endMarker(ctx context.Context, name string, m n4.EndMarker) error {
	to := map[string]any{"tunnel-endpoint": m.Peer, "remote-teid": m.TEID}
	if m.Local != "" {
		to["network-instance"] = m.Local
	}
	body, err := json.Marshal(to)
	if err != nil {
		return err
	}
	_, err = d.Do(ctx, http.MethodPost, "upf/"+url.PathEscape(name)+"/end-marker/", body)
	return err
}
