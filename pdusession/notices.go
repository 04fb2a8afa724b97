// SPDX-License-Identifier: Apache-2.0

package pdusession

// Reads what packets have caused.

import (
	"context"
	"time"
)

// poll is how often notices are read.
const poll = 2 * time.Millisecond

// Notices calls take with each notice, until the context ends or the tables cannot be read.
func (t *Tables) Notices(ctx context.Context, take func(Notice)) error {
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for {
		n, ok, err := t.notices.Pop()
		switch {
		case err != nil:
			return err
		case ok:
			take(t.noticeOf(n))
			continue
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// noticeOf reads a notice of a program.
func (t *Tables) noticeOf(n notice) Notice {
	is := Notice{Kind: NoticeKind(n.Kind), DSCP: uint8(n.DSCP), TEID: n.TEID}
	switch is.Kind {
	case Waiting:
		if int(n.Row) < len(t.rules.values) {
			is.Rule = t.rules.values[n.Row].Index & (1<<instanceBit - 1)
			is.Block = n.Row - is.Rule
		}
	case ErrorIndication, PathDown:
		is.Peer = n.Peer.Addr()
	default:
		is.Usage = n.Row
	}
	return is
}
