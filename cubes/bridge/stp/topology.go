// SPDX-License-Identifier: Apache-2.0

package stp

// The topology change machine (17.31): which ports must flush learned addresses.

type topologyState uint8

const (
	tcInactive topologyState = iota
	tcLearning
	tcActive
)

func (p *port) changeTopology() bool {
	active := p.role == RootPort || p.role == DesignatedPort
	told := p.rcvdTc || p.rcvdTcn || p.rcvdTcAck || p.tcProp
	switch p.tcm {
	case tcInactive:
		if p.learn {
			p.tcm = tcLearning
			p.forgetTold()
			return true
		}
		if told { // there is nothing to flush, and what is announced now is not news later
			p.forgetTold()
			return true
		}
	case tcLearning:
		switch {
		case active && p.forward && !p.operEdge:
			p.detectChange()
		case !active && !p.learn && !p.learning:
			p.tcm, p.tcWhile, p.tcAck = tcInactive, 0, false
			p.forgetTold()
			p.b.sink.Flush(p.key)
		case told:
			p.forgetTold()
		default:
			return false
		}
		return true
	case tcActive:
		return p.spreadChange(active)
	}
	return false
}

func (p *port) forgetTold() {
	p.rcvdTc, p.rcvdTcn, p.rcvdTcAck, p.tcProp, p.rcvdNews, p.newsProp = false, false, false, false, false, false
}

func (p *port) detectChange() {
	p.tcm = tcActive
	p.newTcWhile(true)
	p.setTcPropTree(true)
	p.newInfo = true
	p.b.changes++
	p.b.sinceChange = 0
}

func (p *port) spreadChange(active bool) bool {
	switch {
	case !active || p.operEdge:
		p.tcm = tcLearning
		p.forgetTold()
	case p.rcvdTcn || p.rcvdTc:
		if p.rcvdTcn {
			p.newTcWhile(true)
		}
		if p.role == DesignatedPort {
			p.tcAck = true
		}
		p.b.changes++
		p.b.sinceChange = 0
		p.setTcPropTree(p.rcvdNews)
		p.rcvdTcn, p.rcvdTc, p.rcvdNews = false, false, false
	case p.tcProp:
		p.newTcWhile(p.newsProp)
		p.tcProp, p.newsProp = false, false
		p.b.sink.Flush(p.key)
	case p.rcvdTcAck:
		p.tcWhile, p.rcvdTcAck = 0, false
	default:
		return false
	}
	return true
}

// newTcWhile is 17.21.7: in RSTP each bridge notifies all neighbours itself for a while, in STP it notifies the root,
// which notifies the others. If a neighbour speaks STP, each change lasts the whole time, as in 802.1D-1998 (8.6.14.3
// restarts the timer): with the rest of the previous change's time, the neighbour might have less than the forward
// delay in which it forgets addresses, and then keep them for minutes.
func (p *port) newTcWhile(news bool) {
	switch {
	case p.sendRSTP && p.tcWhile == 0:
		p.tcWhile, p.newInfo = p.helloTime()+1, true
	case !p.sendRSTP && (p.tcWhile == 0 || news):
		p.tcWhile = p.b.rootTimes.MaxAge + p.b.rootTimes.ForwardDelay
		p.newInfo = p.newInfo || p.role == RootPort
	}
}

func (p *port) setTcPropTree(news bool) {
	for _, q := range p.b.ports {
		if q != p {
			q.tcProp, q.newsProp = true, q.newsProp || news
		}
	}
}
