// SPDX-License-Identifier: Apache-2.0

package smf

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/wmnsk/go-pfcp/ie"
	"github.com/wmnsk/go-pfcp/message"

	"github.com/polycube/polycube/test/pace"
)

func loopback() netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 251, byte(rand.IntN(256)), byte(1 + rand.IntN(254))}), 8805)
}

// pair returns two SMFs, of which the second takes the place of a UPF.
func pair(t *testing.T) (m, upf *SMF) {
	t.Helper()
	at, to := loopback(), loopback()
	m, err := New(at, to, "smf.example.org")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	if upf, err = New(to, at, "upf.example.org"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { upf.Close() })
	return m, upf
}

func TestARequestIsSentAgainUntilItIsAnswered(t *testing.T) {
	m, upf := pair(t)
	m.Retransmit = 5 * time.Millisecond
	lost := 0
	upf.Answer(func(r message.Message) message.Message {
		if lost++; lost < 3 {
			return nil
		}
		return upf.Accept(r)
	})
	ctx, cancel := context.WithTimeout(context.Background(), pace.Stretch(10*time.Second))
	defer cancel()
	got, err := m.Associate(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if node, err := got.NodeID.NodeID(); err != nil || node != "upf.example.org" {
		t.Errorf("node %s, error %v", node, err)
	}
	if _, err := m.Heartbeat(ctx); err != nil {
		t.Error(err)
	}
}

func TestARefusalIsAnError(t *testing.T) {
	m, upf := pair(t)
	upf.Answer(func(r message.Message) message.Message {
		return message.NewSessionEstablishmentResponse(0, 0, 1, r.Sequence(), 0, ie.NewCause(73), ie.NewOffendingIE(22), ie.NewFailedRuleID(1, 9))
	})
	ctx, cancel := context.WithTimeout(context.Background(), pace.Stretch(10*time.Second))
	defer cancel()
	_, err := m.Establish(ctx, 1)
	var r *RefusedError
	if !errors.As(err, &r) || *r != (RefusedError{73, 22, true, 1, 9}) {
		t.Error(err)
	}
}
