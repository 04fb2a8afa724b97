// SPDX-License-Identifier: Apache-2.0

package cube

import (
	"context"
	"encoding/json"
)

// Instance is the control plane of one cube: the functions that the framework calls, one at a time. Only Prepare is
// required; a function that is nil is never called, and what it would do is not supported.
type Instance struct {
	// Prepare checks a change and returns the plan that carries it out. It changes nothing, neither a map nor the
	// instance: the plan may never be carried out. An error refuses the change.
	Prepare func(ctx context.Context, c Change) (Plan, error)
	// Dependents returns the edits that follow from a change from old to after: parts of the configuration that exist only as
	// long as others do, such as routes with the network of their next hop. The edits are part of the same
	// transaction; Prepare sees them like edits of the request. What the request itself deletes may be deleted again.
	// It changes nothing.
	Dependents func(ctx context.Context, old, after json.RawMessage) ([]Edit, error)

	// State returns a value that marshals to a JSON object shaped like the cube's tree; the framework merges it with the
	// configuration (lists by their keys). path is what was asked for, so that a cube need
	// not collect the rest; nil asks for everything.
	State func(ctx context.Context, path []string) (any, error)
	// Page reads a part of a list of state that the model marks `paged`. Such a list is read by Page alone; State is asked
	// for one of its entries, and may leave the list out otherwise. A page should not look at more than some ten thousand
	// entries: with a filter that few match, it may be short, or empty, and Next says where to continue. The error for an
	// After that is not valid wraps ErrInvalid, and ErrStale if the list has changed so that After means nothing any more.
	Page func(ctx context.Context, path []string, q PageQuery) (Page, error)
	// DeleteState deletes the entry at path of a list that is not configuration, such as learned addresses, at once and for
	// good. An error wraps ErrNotFound if there is no such
	// entry, and ErrInvalid, ErrInUse or ErrUnsupported if it cannot be deleted, because it follows from other
	// configuration: then it stays when the whole list is deleted. Any other error undoes the deletion of the list.
	//
	// When a whole list is deleted, the framework asks for each entry that State shows and that is not configured, after
	// the configured ones are gone and the plan is committed. For a list of state that the model marks `deletable`, path
	// is first that of the list, without keys: delete all its entries, or return ErrNotFound to be asked one by one.
	DeleteState func(ctx context.Context, path []string) error
	// Action runs an action of the model. path is the action's path, keys included.
	Action func(ctx context.Context, path []string, input json.RawMessage) (ActionResult, error)

	// PacketIn receives the packets that the fast path sent to the slow path. The packet's Data is valid only during the call.
	PacketIn func(*PacketIn)
	// Notify receives the messages that the cube's programs send with pcn_notify. data is valid only during the call.
	Notify func(kind uint32, data []byte)

	// PortChanged is called when a port got or lost its peer, after the change is in force.
	PortChanged func(port string, up bool)
	// LinkChanged is called when the link behind a port begins or ceases to work, after PortChanged. A link works while the port has
	// its peer and, if the peer is a netdev, the netdev has carrier. A link that was down for a moment is reported twice.
	LinkChanged func(port string, works bool)
	// PeerChanged reports what the ports of a standard cube are connected to, after a change is in force: once for each port
	// that has a peer when the cube is created, and then when the peer, or the netdev that it is, has changed. Several changes
	// may be reported in one call. If links change too, LinkChanged comes before it for a link that ceased to work, and after it
	// for one that works.
	PeerChanged func(port string, peer Peer)
	// ParentChanged is called when a transparent cube was attached or detached, and when a parameter of its parent changed:
	// the configuration of the port, its peer, or the netdev. The calls come in the order of the changes, each with all that
	// is known at the time, and not before the change is in force; several changes may be reported in one call.
	ParentChanged func(Parent)
	// RoutesChanged receives the routes that programs in the cube's namespace add: the changes since the last call, each route once,
	// many in one call. complete says that they are all the routes there are: routes reported before and not in the call are gone.
	// The first call is complete. Routes are state, not configuration: the namespace keeps them while the daemon is down.
	RoutesChanged func(changes []RouteChange, complete bool)

	// Interfaces returns, for a configuration, the interfaces that a shadow cube's ports have in its namespace, by port. The
	// framework keeps both equal, whichever side changes. A port that is not in the answer has nothing to keep equal.
	// It must not touch maps or packets.
	Interfaces func(conf json.RawMessage) (map[string]Interface, error)
	// NamespaceChanged returns the edits by which a port follows its interface, which somebody in the
	// namespace has changed from was, what Interfaces answers, to is; none, if the cube does not want to follow. They are
	// validated, carried out and persisted like those of a request.
	NamespaceChanged func(port string, was, is Interface) ([]Edit, error)
	// Alignment returns, for a configuration, the addresses that ports share with the netdevs that are their peers, by port. The
	// framework keeps both equal, whichever side changes: a port with addresses gives them to its netdev, a port without takes
	// those of the netdev; from then on changes go both ways. What the netdev was given is removed with the peer. A port that
	// is not in the answer has nothing to do with the addresses of its netdev.
	Alignment func(conf json.RawMessage) (map[string]Alignment, error)
	// NetdevChanged returns the edits by which a port follows its netdev, as NamespaceChanged does for the namespace.
	NetdevChanged func(port string, was, is Interface) ([]Edit, error)

	// Close is called when the cube is deleted or the daemon stops; in the latter case maps stay pinned.
	Close func()
}
