// SPDX-License-Identifier: Apache-2.0

package sdk

// Optional methods of an instance. The service tells the daemon which of these its instances implement before there is
// an instance, so they are interfaces.

import (
	"context"
	"encoding/json"

	"github.com/polycube/polycube/cube"
)

// Stater returns state, as State of cube.Instance does.
type Stater interface {
	State(ctx context.Context, path []string) (any, error)
}

// Pager reads a part of a list of state that the model marks `paged`, as Page of cube.Instance does. The daemon filters
// the entries itself: Matches is nil. Table.Page reads a map in pages.
type Pager interface {
	Page(ctx context.Context, path []string, q cube.PageQuery) (cube.Page, error)
}

// StateDeleter deletes state, like DeleteState of cube.Instance.
type StateDeleter interface {
	DeleteState(ctx context.Context, path []string) error
}

// Actor runs the actions of the model. path is the action's path, keys included.
type Actor interface {
	Action(ctx context.Context, path []string, input json.RawMessage) (cube.ActionResult, error)
}

// PacketHandler receives the packets that the fast path sent to the slow path. The packet's Data is valid only during the
// call.
type PacketHandler interface {
	PacketIn(*cube.PacketIn)
}

// Notified receives the messages that the cube's programs send with pcn_notify. data is valid only during the call.
type Notified interface {
	Notify(kind uint32, data []byte)
}

// PortWatcher is called when a port got or lost its peer, after the change has taken effect.
type PortWatcher interface {
	PortChanged(port string, up bool)
}

// PeerWatcher is called with the peers of the ports of a standard cube: once for each port that has one when the cube is
// opened, and then when the peer, or its netdev, has changed. Several changes may be reported in one call.
type PeerWatcher interface {
	PeerChanged(port string, peer cube.Peer)
}

// LinkWatcher is called when the link of a port went up or down: it is up while the port has its peer and, if that is a
// netdev, the netdev has carrier.
type LinkWatcher interface {
	LinkChanged(port string, works bool)
}

// ParentWatcher is called when a transparent cube was attached or detached, or its parent changed.
type ParentWatcher interface {
	ParentChanged(cube.Parent)
}

// Closer is called when the cube is deleted or the service stops.
type Closer interface {
	Close()
}
