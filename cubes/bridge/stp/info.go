// SPDX-License-Identifier: Apache-2.0

package stp

// The port information machine (17.27): the information that a port has about the tree, and its updates from messages.

type infoState uint8

const (
	pimDisabled infoState = iota
	pimAged
	pimCurrent
)

// received is the relation of a message to the port's information (17.21.8).
type received uint8

const (
	otherInfo received = iota
	superiorDesignated
	repeatedDesignated
	inferiorDesignated
	notDesignated
)

func (p *port) inform() bool {
	if !p.portEnabled && p.info != infoDisabled {
		p.infoDisable()
		return true
	}
	switch p.pim {
	case pimDisabled:
		if p.portEnabled {
			return p.ageInfo()
		}
	case pimAged:
		if p.selected && p.updtInfo {
			return p.updateInfo()
		}
	case pimCurrent:
		switch {
		case p.selected && p.updtInfo:
			return p.updateInfo()
		case p.rcvdMsg && !p.updtInfo:
			return p.receiveInfo()
		case p.info == infoReceived && p.rcvdInfoWhile == 0 && !p.updtInfo:
			return p.ageInfo()
		}
	}
	return false
}

func (p *port) infoDisable() {
	p.pim, p.info = pimDisabled, infoDisabled
	p.rcvdMsg, p.proposing, p.proposed, p.agree, p.agreed = false, false, false, false, false
	p.rcvdInfoWhile = 0
	p.reselect, p.selected = true, false
}

func (p *port) ageInfo() bool {
	p.pim, p.info = pimAged, infoAged
	p.reselect, p.selected = true, false
	return true
}

func (p *port) updateInfo() bool {
	p.pim = pimCurrent
	p.proposing, p.proposed = false, false
	// betterorsameInfo(Mine)
	p.agreed = p.agreed && p.info == infoMine && p.designatedPriority.compare(p.portPriority) <= 0
	p.synced = p.synced && p.agreed
	p.portPriority, p.portTimes = p.designatedPriority, p.designatedTimes
	p.updtInfo, p.info, p.newInfo = false, infoMine, true
	return true
}

func (p *port) receiveInfo() bool {
	p.rcvdMsg = false
	m := p.msg
	switch p.classify(m) {
	case superiorDesignated:
		p.agreed, p.proposing = false, false
		p.recordProposal(m)
		p.setTcFlags(m)
		// betterorsameInfo(Received)
		p.agree = p.agree && p.info == infoReceived && m.Vector.compare(p.portPriority) <= 0
		if m.Vector.compare(p.portPriority) > 0 {
			p.b.doubt(p, m.Vector)
		}
		p.portPriority, p.portTimes = m.Vector, m.Times
		p.updtRcvdInfoWhile()
		p.info, p.reselect, p.selected = infoReceived, true, false
	case repeatedDesignated:
		p.recordProposal(m)
		p.setTcFlags(m)
		p.updtRcvdInfoWhile()
	case inferiorDesignated:
		p.recordDispute(m)
		// As in 802.1D-1998 (8.6.1), a bridge with wrong information is answered at once rather than with the
		// next hello.
		p.newInfo = true
	case notDesignated:
		p.recordAgreement(m)
		p.setTcFlags(m)
	case otherInfo:
		if m.Type == typeTCN {
			p.setTcFlags(m)
		}
	}
	return true
}

func (p *port) classify(m message) received {
	if m.Type == typeTCN {
		return otherInfo
	}
	c := m.Vector.compare(p.portPriority)
	if m.role() != DesignatedPort {
		if c >= 0 {
			return notDesignated
		}
		return otherInfo
	}
	switch {
	case c == 0 && m.Times == p.portTimes && p.info == infoReceived:
		return repeatedDesignated
	case m.Vector.superior(p.portPriority):
		return superiorDesignated
	}
	return inferiorDesignated
}

func (p *port) recordProposal(m message) {
	if m.has(flagProposal) {
		p.proposed = true
	}
}

func (p *port) recordAgreement(m message) {
	p.agreed = p.b.cfg.Version == RSTP && p.operPointToPoint() && m.has(flagAgreement)
	if p.agreed {
		p.proposing = false
	}
}

// recordDispute handles a neighbour that does not receive our BPDUs, or receives them late: it forwards where we
// forward.
func (p *port) recordDispute(m message) {
	if m.Type == typeRST && m.has(flagLearning) {
		p.disputed, p.agreed = true, false
	}
}

func (p *port) setTcFlags(m message) {
	if p.cfg.RestrictedTCN {
		return
	}
	p.rcvdTcn = p.rcvdTcn || m.Type == typeTCN
	p.rcvdTc = p.rcvdTc || m.has(flagTC)
	p.rcvdTcAck = p.rcvdTcAck || m.Type == typeConfig && m.has(flagTCAck)
	// In STP the root announces a change repeatedly, in RSTP each bridge does so briefly.
	p.rcvdNews = p.rcvdNews || m.Type == typeTCN || m.Type == typeRST && m.has(flagTC)
}

func (p *port) updtRcvdInfoWhile() {
	p.rcvdInfoWhile = 0
	if p.portTimes.MessageAge+1 <= p.portTimes.MaxAge {
		p.rcvdInfoWhile = 3 * p.portTimes.HelloTime
	}
}

// doubt expires the information that other ports have from a bridge that now sends inferior information: it sent that
// on all its ports, and its BPDUs for these may have to wait for a second. The standard trusts them until then, and two
// bridges with several links between them can advertise a root that is gone to each other until its messages are too
// old.
func (b *Bridge) doubt(received *port, v vector) {
	for _, p := range b.ports {
		known := p.portPriority
		if p == received || p.info != infoReceived || known.Bridge.address() != v.Bridge.address() {
			continue
		}
		if known.Root < v.Root || known.Root == v.Root && known.Cost < v.Cost {
			p.rcvdInfoWhile = 0
		}
	}
}
