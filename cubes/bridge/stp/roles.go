// SPDX-License-Identifier: Apache-2.0

package stp

// The role selection machine (17.28): selects the port that leads to the root, and the roles of the others.

// selectRoles is ROLE_SELECTION; a resumed instance selects nothing while it listens to its neighbours.
func (b *Bridge) selectRoles() bool {
	wanted := false
	for _, p := range b.ports {
		wanted = wanted || p.reselect
	}
	if !wanted || b.listen > 0 {
		return false
	}
	b.updateRoles()
	for _, p := range b.ports {
		p.reselect, p.selected = false, true
	}
	return true
}

// updateRoles is updtRolesTree (17.21.25).
func (b *Bridge) updateRoles() {
	b.findRoot()
	b.rootTimes = times{MaxAge: b.cfg.MaxAge, HelloTime: b.cfg.HelloTime, ForwardDelay: b.cfg.ForwardDelay}
	if b.rootPort != nil {
		b.rootTimes = b.rootPort.portTimes
		b.rootTimes.MessageAge++
	}
	for _, p := range b.ports {
		p.designatedPriority = vector{b.root.Root, b.root.Cost, b.cfg.ID, p.cfg.ID}
		p.designatedTimes = b.rootTimes
		p.designatedTimes.HelloTime = b.cfg.HelloTime
		p.selectedRole, p.updtInfo = p.selectRole()
	}
}

// findRoot returns the root priority vector: the best of this bridge's own and those received on its ports.
func (b *Bridge) findRoot() {
	b.root, b.rootPort = vector{Root: b.cfg.ID, Bridge: b.cfg.ID}, nil
	for _, p := range b.ports {
		if p.info != infoReceived || p.cfg.RestrictedRole || p.portPriority.Bridge.address() == b.cfg.ID.address() {
			continue
		}
		v := p.portPriority.through(p.cfg.PathCost)
		c := v.compare(b.root)
		if c < 0 || c == 0 && b.rootPort != nil && p.cfg.ID < b.rootPort.cfg.ID {
			b.root, b.rootPort = v, p
		}
	}
}

// selectRole returns a port's role, and whether it must send new information to its neighbours.
func (p *port) selectRole() (role Role, updtInfo bool) {
	switch p.info {
	case infoDisabled:
		return DisabledPort, false
	case infoAged:
		return DesignatedPort, true
	case infoMine:
		return DesignatedPort, p.portPriority != p.designatedPriority || p.portTimes != p.designatedTimes
	case infoReceived:
	}
	switch {
	case p == p.b.rootPort:
		return RootPort, false
	case p.designatedPriority.compare(p.portPriority) < 0:
		return DesignatedPort, true
	case p.portPriority.Bridge.address() == p.b.cfg.ID.address():
		return BackupPort, false
	}
	return AlternatePort, false
}
