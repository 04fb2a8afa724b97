// SPDX-License-Identifier: Apache-2.0

package bridge

// Squares of two cubes and two Linux bridges, with both diagonals and default path costs.

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
)

// squarePriorities are those of the bridges a to d; b is the root. a and b are cubes.
var squarePriorities = map[string]int{"a": 28672, "b": 24576, "c": 32768, "d": 36864}

// square is one of several in a mesh: its bridges are named by a letter and its number.
type square struct {
	m      *mesh
	number int
	// stations are devices at the far end of a port of each bridge, by letter.
	stations map[string]*netns.Raw
	// at are the times at which frames were sent to the station of c, by sender, and got the ones that arrived.
	at  map[string][]time.Time
	got map[string]map[int]bool
	cut time.Time
}

// newSquare creates a square. quick uses the shortest possible times, otherwise those of the model and the kernel are
// used.
func newSquare(m *mesh, number int, quick bool) *square {
	s := &square{m: m, number: number, stations: map[string]*netns.Raw{}, at: map[string][]time.Time{}, got: map[string]map[int]bool{}}
	for i, letter := range []string{"a", "b", "c", "d"} {
		name, priority, mac := s.bridge(letter), squarePriorities[letter], fmt.Sprintf("02:00:00:%02x:%02x:01", number, i+0xa)
		switch {
		case letter >= "c" && quick:
			m.linux(name, mac, priority, shortest)
		case letter >= "c":
			m.linux(name, mac, priority, nil)
		case quick:
			m.cube(name, withSTP(mac, priority, "rstp", ""))
		default:
			m.cube(name, fmt.Sprintf(`{"stp-enabled":true,"mac":%q,"stp":[{"vlan":1,"priority":%d}]}`, mac, priority))
		}
		near, far := name+"near", name+"far"
		m.sh("ip", "link", "add", "name", near, "type", "veth", "peer", "name", far)
		m.sh("ip", "link", "set", near, "up")
		m.sh("ip", "link", "set", far, "up")
		m.bridges[name].add(near)
		s.stations[letter] = netns.OpenRaw(m.t, m.Lab.Lab, far)
		s.got[letter] = map[int]bool{}
	}
	for _, link := range []string{"a-b", "b-c", "c-d", "d-a", "a-c", "b-d"} {
		x, y, _ := strings.Cut(link, "-")
		m.link(s.bridge(x), s.bridge(y))
	}
	return s
}

func (s *square) bridge(letter string) string { return fmt.Sprint(letter, s.number) }

func (s *square) link(link string) string {
	x, y, _ := strings.Cut(link, "-")
	return s.bridge(x) + "-" + s.bridge(y)
}

// forms returns the form of the links, by their letters.
func (s *square) forms(forms map[string]string) map[string]string {
	out := map[string]string{}
	for link, form := range forms {
		out[s.link(link)] = form
	}
	return out
}

// wholeSquare is the tree that four Linux bridges with these priorities form.
var wholeSquare = map[string]string{"a-b": "-", "b-c": "-", "b-d": "-", "a-c": ">", "d-a": "<", "c-d": ">"}

// stationMAC is the address of a station.
func (s *square) stationMAC(letter string) string {
	return fmt.Sprintf("06:00:00:00:%02x:0%s", s.number, letter)
}

var mark = []byte("square frame")

// introduce has each station send one frame to all, by which bridges learn where it is.
func (s *square) introduce() {
	s.m.t.Helper()
	for letter, station := range s.stations {
		frame := pkt.Eth(s.stationMAC(letter), pkt.Broadcast).Data(make([]byte, 46)).Bytes()
		if err := station.Send(frame); err != nil {
			s.m.t.Fatal(err)
		}
	}
}

// ask sends a frame from each other station to that of c, which never sends any, and collects the frames that arrived
// there.
func (s *square) ask() {
	s.m.t.Helper()
	for _, letter := range []string{"a", "b", "d"} {
		number := binary.BigEndian.AppendUint32([]byte(letter), uint32(len(s.at[letter])))
		data := append(append(append([]byte{}, mark...), number...), make([]byte, 46)...)
		s.at[letter] = append(s.at[letter], time.Now())
		if err := s.stations[letter].Send(pkt.Eth(s.stationMAC(letter), s.stationMAC("c")).Data(data).Bytes()); err != nil {
			s.m.t.Fatal(err)
		}
	}
	s.take(0)
}

// take collects the frames that arrived at the station of c.
func (s *square) take(wait time.Duration) {
	const header = 14
	at := header + len(mark)
	is := func(f []byte) bool { return len(f) >= at+5 && string(f[header:at]) == string(mark) }
	for {
		f, err := s.stations["c"].Recv(is, wait)
		if err != nil {
			return
		}
		s.got[string(f[at:at+1])][int(binary.BigEndian.Uint32(f[at+1:]))] = true
	}
}

// healed returns how long after the cut the last lost frame from a station was sent.
func (s *square) healed(letter string) (took time.Duration) {
	for i, at := range s.at[letter] {
		if !s.got[letter][i] {
			took = at.Sub(s.cut)
		}
	}
	return took
}

// A square elects the ports that one of Linux bridges alone would, and heals by its alternate port.
func TestASquareWithLinuxBridges(t *testing.T) {
	t.Parallel()
	m := newMesh(t, bpftest.Options{Hosts: 1})
	s := newSquare(m, 1, true)
	m.becomes(1, "6000.020000010b01", s.forms(wholeSquare))
	s.introduce()
	m.remove(s.link("d-a"))
	m.remove(s.link("b-c"))
	m.becomes(1, "6000.020000010b01", s.forms(map[string]string{"a-b": "-", "b-d": "-", "a-c": "-"}))
	netns.Eventually(t, patience, func() error {
		s.ask()
		s.take(20 * time.Millisecond)
		for letter, at := range s.at {
			if !s.got[letter][len(at)-1] {
				return fmt.Errorf("no frame from the station of %s arrives: %s", letter, m.fates())
			}
		}
		return nil
	})
}

// Twenty squares lose the link between a cube and the fourth bridge, then the one between the root and the third. With the
// default times, all stations reach the silent one of the third bridge after the root's two forward delays, 20 s. With a higher
// cost on cubes it would take 40 s, or until that station sends.
func TestTimedTwentySquaresHealWithAMargin(t *testing.T) {
	if !soak() {
		t.Skip("takes two minutes: POLYCUBE_SOAK is not set")
	}
	const squares, limit, watched = 20, 35 * time.Second, 55 * time.Second
	m := newMesh(t, bpftest.Options{Hosts: 1})
	var all []*square
	for i := range squares {
		all = append(all, newSquare(m, i+1, false))
	}
	for _, s := range all {
		m.becomes(1, "", s.forms(wholeSquare))
		s.introduce()
	}
	for i, s := range all {
		m.remove(s.link([]string{"d-a", "b-d"}[i%2]))
	}
	// Half of those that lost the root's link to the fourth bridge wait for the tree without it.
	for i, s := range all {
		if i%4 == 1 {
			m.becomes(1, "", s.forms(map[string]string{"a-b": "-", "b-c": "-", "d-a": "-", "a-c": ">", "c-d": ">"}))
			s.introduce()
		}
	}
	began := time.Now()
	for _, s := range all { // within three hello times
		s.cut = began.Add(time.Duration(rand.IntN(6000)) * time.Millisecond)
	}
	removed := map[*square]bool{}
	for now := range time.Tick(100 * time.Millisecond) {
		for _, s := range all {
			switch {
			case removed[s]:
				s.ask()
			case now.After(s.cut):
				m.remove(s.link("b-c"))
				s.cut, removed[s] = time.Now(), true
			}
		}
		if now.Sub(began) > watched {
			break
		}
	}
	for i, s := range all {
		s.take(bpftest.Patience / 100)
		for letter := range s.at {
			took := s.healed(letter)
			t.Logf("square %d: the station of %s reaches that of c after %v", i+1, letter, took)
			if took > limit {
				t.Errorf("square %d: frames of the station of %s are lost for %v, more than %v", i+1, letter, took, limit)
			}
		}
	}
}
