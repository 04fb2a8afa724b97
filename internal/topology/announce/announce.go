// SPDX-License-Identifier: Apache-2.0

// Package announce writes what happens to cubes, ports, netdevs, services and the configuration to the event log, each
// event once. The cost follows the size of the change: only ports that the change can concern are looked at.
package announce

import (
	"log/slog"

	"github.com/polycube/polycube/internal/events"
	"github.com/polycube/polycube/internal/topology/read"
	"github.com/polycube/polycube/internal/topology/unit"
	"github.com/polycube/polycube/internal/topology/world"
)

// Announcer writes events. Its methods may be called from any goroutine.
type Announcer struct {
	events *events.Log
	log    *slog.Logger
}

// New returns an announcer. Without an event log, ports that go up or down are only logged.
func New(list *events.Log, log *slog.Logger) *Announcer { return &Announcer{events: list, log: log} }

// Events is the event log; nil when events are not kept.
func (a *Announcer) Events() *events.Log { return a.events }

// Port announces that a port went UP or DOWN.
func (a *Announcer) Port(at world.Place, up bool, reason string) {
	e := events.Event{Type: events.Port, Cube: at.Cube, Port: at.Port, State: read.UpOrDown(up), Reason: reason, Message: at.String() + " is " + read.UpOrDown(up)}
	if reason != "" {
		e.Message += ": " + reason
	}
	a.events.Add(e)
}

// PortsOn logs and announces which ports went down and came up with netdevs, each once.
func (a *Announcer) PortsOn(netdevs []string, before, now *unit.Snapshot) {
	if len(netdevs) == 0 {
		return
	}
	held := now.AllHolders()
	for _, name := range netdevs {
		was, is := before.WhyDown(name), now.WhyDown(name)
		if was == is {
			continue
		}
		for _, at := range held[name] {
			if is == "" {
				a.log.Info("a port is up again", "port", at.String(), "netdev", name)
				a.Port(at, true, "")
			} else {
				a.log.Warn("a port is down", "port", at.String(), "reason", is)
				a.Port(at, false, is)
			}
		}
	}
}

// Cube announces that a cube is in another state: degraded, broken, restored, adopted.
func (a *Announcer) Cube(name, service, state, reason string) {
	message := name + " is " + state
	if reason != "" {
		message += ": " + reason
	}
	a.events.Add(events.Event{Type: events.Cube, Cube: name, Service: service, State: state, Reason: reason, Message: message})
}

// Told announces what a cube's code says of the cube.
func (a *Announcer) Told(name, service, state, what string) {
	a.events.Add(events.Event{Type: events.Cube, Cube: name, Service: service, State: state, Reason: what, Message: name + ": " + what})
}

// Session announces what a cube's code says of a session.
func (a *Announcer) Session(name, service, state, what string) {
	a.events.Add(events.Event{Type: events.Session, Cube: name, Service: service, State: state, Reason: what, Message: name + ": " + state + " " + what})
}

// Service announces that a service was registered, updated, removed or lost, or that it is back.
func (a *Announcer) Service(name, state, reason string) {
	message := "service " + name + " " + state
	if reason != "" {
		message += ": " + reason
	}
	a.events.Add(events.Event{Type: events.Service, Service: name, State: state, Reason: reason, Message: message})
}

// Netdev announces a device that appeared, disappeared, was replaced, or was set up or down.
func (a *Announcer) Netdev(name string, was, is world.Link) {
	var state, reason string
	switch {
	case was.Index == 0 && is.Index != 0:
		state = "appeared"
	case was.Index != 0 && is.Index == 0:
		state, reason = "went", is.Gone
	case was.Index != is.Index:
		state = "replaced"
	case was.Up && !is.Up:
		state = "down"
	case !was.Up && is.Up:
		state = "up"
	default:
		return
	}
	message := "netdev " + name + " " + state
	if state == "up" || state == "down" {
		message = "netdev " + name + " is " + state
	}
	if reason != "" {
		message += ": " + reason
	}
	a.events.Add(events.Event{Type: events.Netdev, Netdev: name, State: state, Reason: reason, Message: message})
}
