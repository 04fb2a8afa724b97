// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/need"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pace"
)

func TestMain(m *testing.M) { os.Exit(netns.CheckLeaks(m)) }

func TestARigTakesDownInReverseWhatWasSetUp(t *testing.T) {
	var order []string
	var dir string
	err := With(t.Context(), func(r *Rig) error {
		r.Cleanup(func() { order = append(order, "first") })
		dir = r.TempDir()
		r.Cleanup(func() { order = append(order, "second") })
		r.Errorf("noted %d", 1)
		return errors.New("returned")
	})
	if want := []string{"second", "first"}; !slices.Equal(order, want) {
		t.Errorf("cleaned up in the order %v, want %v", order, want)
	}
	for _, want := range []string{"returned", "noted 1"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is left: %v", dir, err)
	}
}

func TestAHelperThatGivesUpEndsTheRunAndNotTheProgram(t *testing.T) {
	cleaned := false
	err := With(t.Context(), func(r *Rig) error {
		r.Cleanup(func() { cleaned = true })
		r.Cleanup(func() { r.Fatal("in a cleanup") })
		r.Fatalf("given up: %s", "why")
		return nil
	})
	if err == nil || !strings.Contains(err.Error(), "given up: why") || !strings.Contains(err.Error(), "in a cleanup") {
		t.Errorf("error %v, want both failures", err)
	}
	if !cleaned {
		t.Error("a cleanup that fails kept the next one from running")
	}
}

func TestOtherPanicsAreNotSwallowed(t *testing.T) {
	defer func() {
		if p := recover(); p != "a bug" {
			t.Errorf("recovered %v, want the panic", p)
		}
	}()
	_ = With(t.Context(), func(*Rig) error { panic("a bug") })
	t.Error("the panic was swallowed")
}

func TestTheTemplateIsAnIPv4PacketWithARightChecksum(t *testing.T) {
	for _, size := range []int{60, 64, 1514} {
		f := Template(size)
		if len(f) != size {
			t.Fatalf("%d bytes, want %d", len(f), size)
		}
		var sum uint32
		for i := 14; i < 34; i += 2 {
			sum += uint32(f[i])<<8 | uint32(f[i+1])
		}
		for sum > 0xffff {
			sum = sum>>16 + sum&0xffff
		}
		if sum != 0xffff {
			t.Errorf("size %d: the header sums up to %#x, want 0xffff", size, sum)
		}
		if got := int(f[16])<<8 | int(f[17]); got != size-14 {
			t.Errorf("size %d: total length %d, want %d", size, got, size-14)
		}
	}
}

// Frames from the generator arrive, all of them unmodified; frames that are not forwarded do not.
func TestTheSinkCountsWhatTheGeneratorSends(t *testing.T) {
	netns.NeedRoot(t)
	need.KernelThreads(t)
	for _, hook := range []cube.Hook{cube.XDP, cube.TC} {
		t.Run(hook.String(), func(t *testing.T) {
			err := With(t.Context(), func(r *Rig) error {
				w, err := r.NewWire(7)
				if err != nil {
					return err
				}
				if err := r.Sink(w, hook); err != nil {
					return err
				}
				if _, err := w.Measure(100, 0); err == nil {
					t.Error("frames arrived though nothing forwards them")
				}
				w.Machine.Run("ip", "link", "add", "br0", "type", "bridge")
				for _, dev := range []string{In, Out} {
					w.Machine.Run("ip", "link", "set", dev, "master", "br0")
				}
				w.Machine.Run("ip", "link", "set", "br0", "up")
				if err := w.Teach(7); err != nil {
					return err
				}
				cost, err := w.Measure(10_000, 0)
				if err != nil {
					return err
				}
				if cost.Lost != 0 || cost.NS <= 0 {
					t.Errorf("%+v, want nothing lost and a cost", cost)
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		})
	}
}

// Frames of a packet socket carry the addresses that the generator writes: the sink knows them.
func TestALoadIsSentAtItsRate(t *testing.T) {
	netns.NeedRoot(t)
	err := With(t.Context(), func(r *Rig) error {
		w, err := r.NewWire(300)
		if err != nil {
			return err
		}
		if err := r.Discard(w); err != nil {
			return err
		}
		sent := 0
		for length := 300 * time.Millisecond; sent == 0 && length < time.Minute; length *= 2 { // on a busy machine it may not be scheduled
			start := time.Now()
			ctx, stop := context.WithTimeout(r.Context(), length)
			sent, err = Load(ctx, w.Left, 10_000, 300)
			stop()
			if err != nil {
				return err
			}
			if most := int(time.Since(start).Seconds()*10_000) + 1; sent > most {
				t.Errorf("%d frames sent, want at most %d", sent, most)
			}
		}
		if sent == 0 {
			t.Error("no frames were sent")
		}
		netns.Eventually(t, pace.Stretch(15*time.Second), func() error {
			c, err := w.Counts()
			if err == nil && (c.Received != uint64(sent) || c.Wrong != 0) {
				err = errors.New("not all frames were counted")
			}
			return err
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestPingPongThroughABridge(t *testing.T) {
	netns.NeedRoot(t)
	err := With(t.Context(), func(r *Rig) error {
		w, err := r.NewWire(1)
		if err != nil {
			return err
		}
		if _, err := w.PingPong(r.Context(), 1); err == nil {
			t.Error("datagrams were answered though nothing forwards them")
		}
		w.Machine.Run("ip", "link", "add", "br0", "type", "bridge")
		for _, dev := range []string{In, Out} {
			w.Machine.Run("ip", "link", "set", dev, "master", "br0")
		}
		w.Machine.Run("ip", "link", "set", "br0", "up")
		times, err := w.PingPong(r.Context(), 100)
		if err != nil {
			return err
		}
		if len(times) != 100 || slices.Min(times) <= 0 {
			t.Errorf("%d times, the least %v; want 100 above 0", len(times), slices.Min(times))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestFieldsOfProc(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fdinfo")
	if err := os.WriteFile(path, []byte("pos:\t0\nmap_id:\t17\nmemlock:\t4096\nVmRSS:\t   12 kB\nname:\tx\nempty:\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := fields(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]uint64{"map_id": 17, "memlock": 4096, "VmRSS": 12, "pos": 0} {
		if n, ok := got[name]; !ok || n != want {
			t.Errorf("%s is %d, %t; want %d", name, n, ok, want)
		}
	}
	if _, ok := got["name"]; ok {
		t.Error("a word was taken for a number")
	}
	if _, err := fields(path + "-gone"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v for a file that is not there", err)
	}
}
