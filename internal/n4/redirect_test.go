// SPDX-License-Identifier: Apache-2.0

package n4

// Redirection to a web page.

import (
	"testing"

	"github.com/wmnsk/go-pfcp/ie"

	"github.com/polycube/polycube/pdusession"
	"github.com/polycube/polycube/test/smf"
)

// TestRedirectionIsThatOfItsFAR: it is there while packets are forwarded, changes with the FAR, and ends with
// another FAR.
func TestRedirectionIsThatOfItsFAR(t *testing.T) {
	b := start(t, nil)
	const first, second = "http://portal.example/?device=7&back=%2F", "https://portal.example/"
	far := toCore()
	far.InParameters = []*ie.IE{ie.NewRedirectInformation(2, first)}
	m := b.smf()
	s := b.establish1(m, uplink().Create(), downlink().Create(), far.Create(), toBase().Create())
	is := func(want string, action pdusession.Action) {
		t.Helper()
		session, _ := b.data.only(t)
		if up := session.Rules[0].Forward; up.Redirect != want || up.Action != action {
			t.Errorf("packets from the device: %+v, want redirection to %q", up, want)
		}
		if down := session.Rules[1].Forward; down.Redirect != "" {
			t.Errorf("packets to the device are redirected to %q", down.Redirect)
		}
	}
	is(first, pdusession.Pass)
	modify := func(list ...*ie.IE) {
		t.Helper()
		if _, err := m.Modify(b.context(), s, list...); err != nil {
			t.Fatal(err)
		}
	}
	far.InParameters = nil
	modify(far.Update())
	is(first, pdusession.Pass)
	far.InParameters = []*ie.IE{ie.New(ie.RedirectInformation, append([]byte{0xf2, 0, byte(len(second))}, second+"\x00\x00"...))} // spare bits, another address
	modify(far.Update())
	is(second, pdusession.Pass)
	modify(smf.FAR{ID: 1, Action: smf.Drop}.Update())
	is("", pdusession.Drop)
	modify(smf.FAR{ID: 1, Action: smf.Forward, Destination: ie.DstInterfaceCore}.Update())
	is(second, pdusession.Pass)
	p := uplink()
	p.FAR = 3
	modify(smf.FAR{ID: 3, Action: smf.Forward, Destination: ie.DstInterfaceCore}.Create(), p.Update())
	is("", pdusession.Pass)
}
