// SPDX-License-Identifier: Apache-2.0

package stp

// The role transition machine (17.29): from a role to a forwarding state, without temporary loops.

type transitionState uint8

const (
	disablePort transitionState = iota
	disabledPort
	rootPort
	designatedPort
	blockPort
	alternatePort
)

func (p *port) transit() bool {
	if !p.selected || p.updtInfo {
		return false
	}
	if p.role != p.selectedRole {
		return p.enterRole()
	}
	switch p.prt {
	case disablePort, blockPort:
		return p.whenDiscarding()
	case disabledPort:
		if p.fdWhile != p.maxAge() || p.sync || p.reRoot || !p.synced {
			return p.rest(p.maxAge())
		}
	case alternatePort:
		return p.transitAlternate()
	case rootPort:
		return p.transitRoot()
	case designatedPort:
		return p.transitDesignated()
	}
	return false
}

func (p *port) enterRole() bool {
	p.role = p.selectedRole
	switch p.role {
	case RootPort:
		p.prt, p.rrWhile = rootPort, p.fwdDelay()
	case DesignatedPort:
		p.prt = designatedPort
	case AlternatePort, BackupPort:
		p.prt, p.learn, p.forward = blockPort, false, false
	case DisabledPort:
		p.prt, p.learn, p.forward = disablePort, false, false
	}
	return true
}

func (p *port) whenDiscarding() bool {
	if p.learning || p.forwarding {
		return false
	}
	if p.prt == disablePort {
		p.prt = disabledPort
		return p.rest(p.maxAge())
	}
	p.prt = alternatePort
	return p.rest(p.forwardDelay())
}

// rest is the behaviour of DISABLED_PORT and ALTERNATE_PORT.
func (p *port) rest(fdWhile uint16) bool {
	p.fdWhile, p.synced, p.rrWhile, p.sync, p.reRoot = fdWhile, true, 0, false, false
	return true
}

func (p *port) transitAlternate() bool {
	switch {
	case p.proposed && !p.agree:
		p.b.setSyncTree()
		p.proposed = false
	case !p.agree && p.b.allSynced() || p.proposed && p.agree:
		p.proposed, p.agree, p.newInfo = false, true, true
	case p.role == BackupPort && p.rbWhile != 2*p.helloTime():
		p.rbWhile = 2 * p.helloTime()
	case p.fdWhile != p.forwardDelay() || p.sync || p.reRoot || !p.synced:
		p.rest(p.forwardDelay())
	default:
		return false
	}
	return true
}

func (p *port) transitRoot() bool {
	rapid := p.b.cfg.Version == RSTP && p.rbWhile == 0 && p.reRooted()
	switch {
	case p.proposed && !p.agree:
		p.b.setSyncTree()
		p.proposed = false
	case !p.agree && p.b.allSynced() || p.proposed && p.agree:
		p.proposed, p.sync, p.agree, p.newInfo = false, false, true, true
	case !p.forward && !p.reRoot:
		for _, q := range p.b.ports { // setReRootTree
			q.reRoot = true
		}
	case (p.fdWhile == 0 || rapid) && p.learn && !p.forward:
		p.fdWhile, p.forward = 0, true
	case (p.fdWhile == 0 || rapid) && !p.learn:
		p.fdWhile, p.learn = p.forwardDelay(), true
	case p.reRoot && p.forward:
		p.reRoot = false
	case p.rrWhile != p.fwdDelay():
		p.rrWhile = p.fwdDelay()
	default:
		return false
	}
	return true
}

func (p *port) transitDesignated() bool {
	ready := (p.fdWhile == 0 || p.agreed || p.operEdge) && (p.rrWhile == 0 || !p.reRoot) && !p.sync
	switch {
	case (p.sync && !p.synced || p.reRoot && p.rrWhile != 0 || p.disputed) && !p.operEdge && (p.learn || p.forward):
		p.learn, p.forward, p.disputed = false, false, false
		p.fdWhile = p.forwardDelay()
	case !p.forward && !p.agreed && !p.proposing && !p.operEdge:
		p.proposing, p.newInfo = true, true
		p.edgeDelayWhile = p.edgeDelay()
	case (!p.learning && !p.forwarding || p.agreed || p.operEdge) && !p.synced || p.sync && p.synced:
		p.rrWhile, p.synced, p.sync = 0, true, false
	case p.rrWhile == 0 && p.reRoot:
		p.reRoot = false
	case ready && p.learn && !p.forward:
		p.forward, p.fdWhile, p.agreed = true, 0, p.sendRSTP
	case ready && !p.learn:
		p.learn, p.fdWhile = true, p.forwardDelay()
	default:
		return false
	}
	return true
}

// reRooted reports whether no other port was recently the root port.
func (p *port) reRooted() bool {
	for _, q := range p.b.ports {
		if q != p && q.rrWhile != 0 {
			return false
		}
	}
	return true
}

func (b *Bridge) setSyncTree() {
	for _, p := range b.ports {
		p.sync = true
	}
}

// allSynced reports whether the whole bridge agrees with the proposal received on its root port.
func (b *Bridge) allSynced() bool {
	for _, p := range b.ports {
		if !p.selected || p.role != p.selectedRole || p.updtInfo || !p.synced && p.role != RootPort {
			return false
		}
	}
	return true
}
