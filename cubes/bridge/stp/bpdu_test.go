// SPDX-License-Identifier: Apache-2.0

package stp

import (
	"bytes"
	"encoding/hex"
	"errors"
	"net"
	"testing"
)

var (
	macA = net.HardwareAddr{2, 0, 0, 0, 0, 0xa}
	idA  = MakeBridgeID(32768, macA)
)

// The encoding of Linux and of the standard, by hand.
const (
	configBytes = "0000" + "00" + "00" + "81" + "700002000000000a" + "00000004" + "800002000000000b" + "8002" + "0100" + "1400" + "0200" + "0f00"
	rstBytes    = "0000" + "02" + "02" + "7e" + "700002000000000a" + "00000004" + "800002000000000b" + "8002" + "0100" + "1400" + "0200" + "0f00" + "00"
	tcnBytes    = "00000080"
)

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func vectorOfBytes() vector {
	return vector{MakeBridgeID(0x7000, macA), 4, MakeBridgeID(0x8000, net.HardwareAddr{2, 0, 0, 0, 0, 0xb}), 0x8002}
}

func TestBPDUsAreWrittenAndRead(t *testing.T) {
	v, when := vectorOfBytes(), times{1, 20, 2, 15}
	for name, c := range map[string]struct {
		hex  string
		want message
		role Role
	}{
		"a configuration BPDU with both flags":       {configBytes, message{typeConfig, flagTC | flagTCAck, v, when}, DesignatedPort},
		"an RST BPDU of a designated port with all":  {rstBytes, message{typeRST, 0x7e, v, when}, DesignatedPort},
		"a notification that the topology changes":   {tcnBytes, message{Type: typeTCN}, DesignatedPort},
		"an RST BPDU of a root port":                 {rstBytes[:8] + "48" + rstBytes[10:], message{typeRST, 0x48, v, when}, RootPort},
		"an RST BPDU of an alternate or backup port": {rstBytes[:8] + "04" + rstBytes[10:], message{typeRST, 0x04, v, when}, AlternatePort},
		"an RST BPDU of unknown role":                {rstBytes[:8] + "00" + rstBytes[10:], message{typeRST, 0, v, when}, DesignatedPort},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parse(unhex(t, c.hex))
			if err != nil || got != c.want || got.role() != c.role {
				t.Errorf("read as %+v of a %v port (%v), want %+v of a %v port", got, got.role(), err, c.want, c.role)
			}
			if wire := hex.EncodeToString(c.want.bytes()); wire != c.hex {
				t.Errorf("written as %s, want %s", wire, c.hex)
			}
		})
	}
}

func TestWhatIsNoBPDUIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		hex  string
		want error
	}{
		"nothing":                                  {"", ErrMalformed},
		"three octets":                             {"000000", ErrMalformed},
		"another protocol":                         {"0001" + configBytes[4:], ErrMalformed},
		"an unknown type":                          {"000000" + "03" + configBytes[8:], ErrMalformed},
		"a configuration BPDU that is cut":         {configBytes[:2*34], ErrMalformed},
		"an RST BPDU that is cut":                  {rstBytes[:2*35], ErrMalformed},
		"an RST BPDU of version 0":                 {"000000" + rstBytes[6:], ErrMalformed},
		"an age that is the maximum":               {configBytes[:54] + "1400" + configBytes[58:], ErrTooOld},
		"an age of 0 with a maximum of 0":          {configBytes[:54] + "00000000" + configBytes[62:], ErrTooOld},
		"a maximum age in which no age is allowed": {configBytes[:54] + "ffffffff" + configBytes[62:], ErrTooOld},
	} {
		t.Run(name, func(t *testing.T) {
			if m, err := parse(unhex(t, c.hex)); !errors.Is(err, c.want) {
				t.Errorf("read as %+v, %v, want %v", m, err, c.want)
			}
		})
	}
}

func TestForgedTimesAreClamped(t *testing.T) {
	m, err := parse(unhex(t, configBytes[:54]+"0000"+"ffff"+"0000"+"ffff"))
	if want := (times{0, 40, 1, 30}); err != nil || m.Times != want {
		t.Errorf("read %+v, %v, want %+v", m.Times, err, want)
	}
}

func TestLaterVersionsAreReadAsRSTP(t *testing.T) {
	b := unhex(t, rstBytes+"0000")
	b[2] = 3 // an MST BPDU has the RST BPDU's octets first
	if m, err := parse(b); err != nil || m.Vector != vectorOfBytes() {
		t.Errorf("read as %+v, %v", m, err)
	}
}

func TestFramesOfEitherKind(t *testing.T) {
	for name, c := range map[string]struct {
		bpdu   string
		tagged bool
		want   string
	}{
		"untagged: IEEE 802.1D": {configBytes, false, "0180c2000000" + "02000000000a" + "0026" + "424203" + configBytes + "0000000000000000"},
		"untagged, the longer":  {rstBytes, false, "0180c2000000" + "02000000000a" + "0027" + "424203" + rstBytes + "00000000000000"},
		"tagged, with its VLAN": {rstBytes, true, "01000ccccccd" + "02000000000a" + "8100" + "e07b" + "0032" + "aaaa0300000c010b" + rstBytes + "00000002007b"},
		"tagged, the shorter":   {configBytes, true, "01000ccccccd" + "02000000000a" + "8100" + "e07b" + "0032" + "aaaa0300000c010b" + configBytes + "00" + "00000002007b"},
	} {
		t.Run(name, func(t *testing.T) {
			bpdu := unhex(t, c.bpdu)
			f := Frame(macA, 123, c.tagged, bpdu)
			if got := hex.EncodeToString(f); got != c.want {
				t.Fatalf("frame\n%s, want\n%s", got, c.want)
			}
			got, err := Unframe(f, 123)
			if err != nil || !bytes.HasPrefix(got, bpdu) {
				t.Errorf("read back %x, %v, want %x", got, err, bpdu)
			}
		})
	}
}

func TestFramesThatAreNoneOfOurs(t *testing.T) {
	good := Frame(macA, 5, true, unhex(t, rstBytes))
	plain := Frame(macA, 1, false, unhex(t, rstBytes))
	change := func(f []byte, at int, with ...byte) []byte {
		f = bytes.Clone(f)
		copy(f[at:], with)
		return f
	}
	for name, c := range map[string]struct {
		frame []byte
		want  error
	}{
		"nothing":                              {nil, ErrFrame},
		"a header that is cut in the tag":      {good[:14], ErrFrame},
		"a length beyond the frame":            {change(plain, 12, 5, 0xff), ErrFrame},
		"a type in place of a length":          {change(plain, 12, 8, 0), ErrFrame},
		"another LLC address":                  {change(plain, 14, 0x43), ErrFrame},
		"another SNAP protocol":                {change(good, 25, 9), ErrFrame},
		"IEEE's address with a tag":            {change(good, 0, GroupAddress...), ErrFrame},
		"the other address without a tag":      {change(plain, 0, SharedVLAN...), ErrFrame},
		"a VLAN that is not the sender's":      {change(good, 17+1+8+36+4, 0, 6), nil},
		"the sender's VLAN where another came": {good, ErrVLAN},
	} {
		t.Run(name, func(t *testing.T) {
			if b, err := Unframe(c.frame, 6); !errors.Is(err, c.want) {
				t.Errorf("got %x, %v, want %v", b, err, c.want)
			}
		})
	}
}

// quiet is a Sink that checks its input.
type quiet struct{ t testing.TB }

func (q quiet) Send(_ int, bpdu []byte) {
	if _, err := parse(bpdu); err != nil {
		q.t.Errorf("sent %x: %v", bpdu, err)
	}
}
func (quiet) SetState(int, State) {}
func (quiet) Flush(int)           {}

func FuzzReceive(f *testing.F) {
	for _, s := range []string{configBytes, rstBytes, tcnBytes} {
		f.Add(unhex(f, s), uint8(0))
	}
	f.Fuzz(func(t *testing.T, data []byte, more uint8) {
		b := New(Parameters{idA, RSTP, 2, 20, 15}, quiet{t})
		for i := range 3 {
			b.AddPort(i, PortParameters{ID: MakePortID(128, uint16(i+1)), PathCost: 4, AutoEdge: true}, Disabled)
			b.SetPortUp(i, true)
		}
		for i, at := 0, 0; at < len(data); i++ {
			end := min(len(data), at+36)
			_ = b.Receive((i+int(more))%4, data[at:end])
			at = end
			if i%3 == int(more)%3 {
				b.Tick()
			}
		}
		if s := b.Status(); s.Stalled != 0 {
			t.Errorf("an event led to more than %d rounds: %+v", rounds, s)
		}
	})
}

func FuzzUnframe(f *testing.F) {
	f.Add(Frame(macA, 5, true, unhex(f, rstBytes)))
	f.Add(Frame(macA, 5, false, unhex(f, configBytes)))
	f.Fuzz(func(t *testing.T, data []byte) {
		if b, err := Unframe(data, 5); err == nil && len(b) > len(data) {
			t.Errorf("%d octets out of %d", len(b), len(data))
		}
	})
}
