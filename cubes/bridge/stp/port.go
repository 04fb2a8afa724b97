// SPDX-License-Identifier: Apache-2.0

package stp

// A port's variables (17.19) and the small machines: timers, migration, edge detection, states, transmission.

const (
	migrateTime = 3 // seconds, 17.13.9
	txHoldCount = 6 // 17.13.12
)

// infoIs is the origin of a port's priority vector.
type infoIs uint8

const (
	infoDisabled infoIs = iota
	infoAged
	infoMine
	infoReceived
)

type port struct {
	b   *Bridge
	key int
	cfg PortParameters

	portEnabled, operEdge bool

	// Timers, in seconds.
	helloWhen, tcWhile, fdWhile, rcvdInfoWhile, rrWhile, rbWhile, mdelayWhile, edgeDelayWhile, txCount uint16

	info                                      infoIs
	portPriority, designatedPriority          vector
	portTimes, designatedTimes                times
	msg                                       message
	rcvdMsg, rcvdRSTP, rcvdSTP                bool
	rcvdTc, rcvdTcn, rcvdTcAck, tcAck, tcProp bool
	// rcvdNews and newsProp say that the change that was received, or is to be propagated, may be a different one
	// from the last.
	rcvdNews, newsProp                           bool
	role, selectedRole                           Role
	selected, reselect, updtInfo                 bool
	agree, agreed, proposed, proposing, disputed bool
	sync, synced, reRoot                         bool
	learn, forward, learning, forwarding         bool
	sendRSTP, newInfo, mcheck                    bool

	pim infoState
	prt transitionState
	ppm migrationState
	tcm topologyState

	resume State // the state in the fast path before this instance started
	shown  State // the current state in the fast path
	count  Counters
}

// Counters counts BPDUs of a port in an instance.
type Counters struct {
	RxConfig, RxRST, RxTCN, TxConfig, TxRST, TxTCN uint64
	// Discarded BPDUs were malformed, too old or sent by the port itself.
	Discarded         uint64
	ForwardTransition uint64
}

func (p *port) operPointToPoint() bool { return p.cfg.PointToPoint != ForceFalse }
func (p *port) helloTime() uint16      { return p.designatedTimes.HelloTime }
func (p *port) maxAge() uint16         { return p.designatedTimes.MaxAge }
func (p *port) fwdDelay() uint16       { return p.designatedTimes.ForwardDelay }

// forwardDelay is the time in each of the states before forwarding if no handshake ends it (17.20.6). Among bridges
// that all speak RSTP, a bridge that disagrees answers within a hello time.
func (p *port) forwardDelay() uint16 {
	return p.fwdDelay()
}

func (p *port) edgeDelay() uint16 {
	if p.operPointToPoint() {
		return migrateTime
	}
	return p.maxAge()
}

// tick is the timer machine (17.22).
func (p *port) tick() {
	for _, t := range [...]*uint16{&p.helloWhen, &p.tcWhile, &p.fdWhile, &p.rcvdInfoWhile, &p.rrWhile, &p.rbWhile,
		&p.mdelayWhile, &p.edgeDelayWhile, &p.txCount} {
		if *t > 0 {
			*t--
		}
	}
}

type migrationState uint8

const (
	checkingRSTP migrationState = iota
	selectingSTP
	sensing
)

// migrate is the machine of 17.24: it determines the protocol version to send.
func (p *port) migrate() bool {
	rstp := p.b.cfg.Version == RSTP
	switch p.ppm {
	case checkingRSTP:
		if p.mdelayWhile != migrateTime && !p.portEnabled {
			return p.checkRSTP()
		}
		if p.mdelayWhile == 0 {
			return p.sense()
		}
	case selectingSTP:
		if p.mdelayWhile == 0 || !p.portEnabled || p.mcheck {
			return p.sense()
		}
	case sensing:
		if !p.portEnabled || p.mcheck || rstp && !p.sendRSTP && p.rcvdRSTP {
			return p.checkRSTP()
		}
		if p.sendRSTP && p.rcvdSTP {
			p.ppm, p.sendRSTP, p.mdelayWhile = selectingSTP, false, migrateTime
			return true
		}
	}
	return false
}

func (p *port) checkRSTP() bool {
	p.ppm, p.mcheck, p.sendRSTP, p.mdelayWhile = checkingRSTP, false, p.b.cfg.Version == RSTP, migrateTime
	return true
}

func (p *port) sense() bool {
	p.ppm, p.rcvdRSTP, p.rcvdSTP = sensing, false, false
	return true
}

// detectEdge is the machine of 17.25, whose state is operEdge.
func (p *port) detectEdge() bool {
	if !p.portEnabled {
		p.edgeDelayWhile = migrateTime
		changed := p.operEdge != p.cfg.AdminEdge
		p.operEdge = p.cfg.AdminEdge
		return changed
	}
	if !p.operEdge && p.edgeDelayWhile == 0 && p.cfg.AutoEdge && p.sendRSTP && p.proposing {
		p.operEdge = true
		return true
	}
	return false
}

// changeState is the machine of 17.30.
func (p *port) changeState() bool {
	was := [2]bool{p.learning, p.forwarding}
	switch {
	case !p.learn || p.forwarding && !p.forward:
		p.learning, p.forwarding = false, false
	case p.learning && p.forward:
		if !p.forwarding {
			p.count.ForwardTransition++
		}
		p.forwarding = true
	default:
		p.learning = true
	}
	return was != [2]bool{p.learning, p.forwarding}
}

// state returns the port's state as shown: a port that waits for the forward delay in the 802.1D-1998 way is listening.
func (p *port) state() State {
	switch {
	case p.forwarding:
		return Forwarding
	case p.learning:
		return Learning
	case !p.portEnabled:
		return Disabled
	case !p.sendRSTP && (p.role == RootPort || p.role == DesignatedPort):
		return Listening
	}
	return Blocking
}

// transmit is the machine of 17.26.
func (p *port) transmit() {
	if !p.selected || p.updtInfo || !p.portEnabled {
		return
	}
	if p.helloWhen == 0 {
		p.newInfo = p.newInfo || p.role == DesignatedPort || p.role == RootPort && p.tcWhile != 0
		p.helloWhen = p.helloTime()
	}
	if !p.newInfo || p.txCount >= txHoldCount {
		return
	}
	switch {
	case p.sendRSTP && p.role != DisabledPort:
		p.count.TxRST++
		p.send(message{typeRST, p.rstFlags(), p.designatedPriority, p.designatedTimes})
		p.tcAck = false
	case !p.sendRSTP && p.role == DesignatedPort:
		p.count.TxConfig++
		p.send(message{typeConfig, p.configFlags(), p.designatedPriority, p.designatedTimes})
		p.tcAck = false
	case !p.sendRSTP && p.role == RootPort:
		// The information may contain no topology change: the neighbour must not be notified of one (8.6.6 of
		// 802.1D-1998).
		if p.tcWhile == 0 {
			p.newInfo = false
			return
		}
		p.count.TxTCN++
		p.send(message{Type: typeTCN})
	}
}

func (p *port) send(m message) {
	p.newInfo = false
	p.txCount++
	p.b.sink.Send(p.key, m.bytes())
}

func (p *port) configFlags() (f uint8) {
	if p.tcWhile != 0 {
		f |= flagTC
	}
	if p.tcAck {
		f |= flagTCAck
	}
	return f
}

func (p *port) rstFlags() uint8 {
	f := roleBits(p.role)
	for flag, set := range map[uint8]bool{flagTC: p.tcWhile != 0, flagProposal: p.proposing, flagAgreement: p.agree,
		flagLearning: p.learning, flagForwarding: p.forwarding} {
		if set {
			f |= flag
		}
	}
	return f
}
