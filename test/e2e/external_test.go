// SPDX-License-Identifier: Apache-2.0

// External services: the test binary is the service, in a process that tests start, kill and
// replace while packets go through its cubes.

package e2e

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/polycube/polycube/api/polycube/service/v1"
	"github.com/polycube/polycube/test/executable"
	"github.com/polycube/polycube/test/extservice"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/output"
)

// asService is the variable that makes the test binary a service: its version, and where to listen.
const asService = "POLYCUBE_E2E_SERVICE"

// socketVariable is where the daemon tells a service to listen.
const socketVariable = "POLYCUBE_SERVICE_SOCKET"

// Marks that a cube of tally does not survive.
const (
	markHangs   = 13
	markDies    = 66
	markRefused = 99
)

// beService serves until it is killed.
func beService() {
	version, address, _ := strings.Cut(os.Getenv(asService), " ")
	network := "tcp"
	if path := os.Getenv(socketVariable); path != "" {
		network, address = "unix", path
	}
	l, err := net.Listen(network, address)
	if err == nil {
		s := tallyService
		if strings.HasPrefix(version, crashing) {
			s = crashingService
		}
		fmt.Println("listening")
		err = s(version).Serve(context.Background(), l)
	}
	fmt.Fprintln(os.Stderr, "the service ended:", err)
	os.Exit(1)
}

// tallyService is the service tally of upgrade_test.go, or one that is called hidden and sends packets through user
// space.
func tallyService(version string) *extservice.Server {
	s := &extservice.Server{Plan: planTally, Committed: func(c *extservice.Cube, _ uint64) error {
		os.Exit(3)
		return nil
	}}
	d := &pb.Description{Protocol: 1, Name: "tally", Model: tallyModel, MaxPorts: 2, State: true,
		Deadlines: &pb.Deadlines{Prepare: 1000}, Objects: []*pb.Object{
			{Hook: pb.Hook_HOOK_TC, Elf: tallyTC}, {Hook: pb.Hook_HOOK_XDP, Elf: tallyXDP}}}
	width := 4
	switch version {
	case tallyWide, tallyColour:
		width = 8
		d.Objects[0].Elf, d.Objects[1].Elf, d.Migrate = tallyWideTC, tallyWideXDP, true
		if version == tallyColour {
			d.Model = strings.Replace(tallyModel, "leaf colour", "leaf color", 1)
		}
		s.Translate = func(_ *pb.MigrateStart, e *pb.Entry) *pb.Entry {
			out := make([]byte, 16)
			binary.LittleEndian.PutUint64(out, uint64(binary.LittleEndian.Uint32(e.GetValue())))
			binary.LittleEndian.PutUint64(out[8:], uint64(binary.LittleEndian.Uint32(e.GetValue()[4:])))
			return &pb.Entry{Key: e.GetKey(), Value: out}
		}
	case tallyForgetful:
		d.Objects[0].Elf, d.Objects[1].Elf = tallyForgetfulTC, tallyForgetfulXDP
		d.Deadlines.Prepare = 30_000 // none of its deadlines is tested
	case tallyPicky:
		d.Objects[0].Elf, d.Objects[1].Elf = tallyPickyTC, tallyPickyXDP
	case "hidden":
		return hiddenService()
	}
	s.Description = d
	s.Read = func(c *extservice.Cube, _ []string) ([]byte, error) { return readTally(c, width) }
	return s
}

func planTally(c *extservice.Cube, r *pb.PrepareRequest) (*pb.Plan, error) {
	var conf tallyConfig
	if err := json.Unmarshal(r.GetAfter(), &conf); err != nil {
		return nil, err
	}
	switch conf.Mark {
	case markHangs:
		select {}
	case markRefused:
		return nil, status.Error(codes.InvalidArgument, "mark 99 brings bad luck")
	}
	return &pb.Plan{Commit: conf.Mark == markDies,
		Constants: map[string][]byte{"mark": binary.LittleEndian.AppendUint32(nil, conf.Mark)}}, nil
}

// readTally sums the program's counts.
func readTally(c *extservice.Cube, width int) ([]byte, error) {
	reply, err := c.Map(&pb.MapRequest{Map: "seen", Operation: &pb.MapRequest_Iterate{Iterate: &pb.MapIterate{}}})
	if err != nil {
		return nil, err
	}
	var sum uint64
	for _, e := range reply.GetEntries() {
		v := make([]byte, 8)
		copy(v, e.GetValue()[:width])
		sum += binary.LittleEndian.Uint64(v)
	}
	return fmt.Appendf(nil, `{"counted":"%d"}`, sum), nil
}

// hiddenService is transparenthelloworld with another name: packets that its programs send to user space continue.
func hiddenService() *extservice.Server {
	read := func(name string) []byte {
		data, err := os.ReadFile(filepath.Join("..", "..", "cubes", "transparenthelloworld", name))
		if err != nil {
			panic(err) // a service that has no programs is of no use
		}
		return data
	}
	values := map[string]uint32{"DROP": 0, "PASS": 1, "SLOWPATH": 2}
	return &extservice.Server{
		Description: &pb.Description{Protocol: 1, Name: "hidden", Packets: true, Parent: true,
			Model: strings.ReplaceAll(string(read("transparenthelloworld.yang")), "transparenthelloworld", "hidden"),
			Objects: []*pb.Object{{Hook: pb.Hook_HOOK_TC, Elf: read("transparenthelloworld.tc.o")},
				{Hook: pb.Hook_HOOK_XDP, Elf: read("transparenthelloworld.xdp.o")}}},
		Plan: func(_ *extservice.Cube, r *pb.PrepareRequest) (*pb.Plan, error) {
			var conf struct {
				Ingress string `json:"ingress-action"`
				Egress  string `json:"egress-action"`
			}
			if err := json.Unmarshal(r.GetAfter(), &conf); err != nil {
				return nil, err
			}
			return &pb.Plan{Constants: map[string][]byte{
				"ingress_action": binary.LittleEndian.AppendUint32(nil, values[conf.Ingress]),
				"egress_action":  binary.LittleEndian.AppendUint32(nil, values[conf.Egress])}}, nil
		},
		Packet: func(_ *extservice.Cube, p *pb.PacketIn) []*pb.PacketOut {
			return []*pb.PacketOut{{Cube: p.GetCube(), Direction: p.GetDirection(), Trip: p.GetTrip(),
				TrafficClass: p.GetTrafficClass(), Data: p.GetData()}}
		},
	}
}

// service is a process of a service of type grpc.
type service struct {
	cmd   *exec.Cmd
	ended chan struct{}
}

// Kill9 kills the service.
func (s *service) Kill9() {
	_ = s.cmd.Process.Signal(syscall.SIGKILL) // it may have ended
	<-s.ended
}

// Service starts a version of a service at a port of the machine's loopback.
func (m *machine) Service(version string, port int) *service {
	m.t.Helper()
	m.lab.Run("ip", "link", "set", "lo", "up")
	s := &service{ended: make(chan struct{})}
	s.cmd = m.lab.Command("env", fmt.Sprintf("%s=%s 127.0.0.1:%d", asService, version, port), os.Args[0])
	out := &output.Buffer{}
	s.cmd.Stdout, s.cmd.Stderr = out, out
	if err := s.cmd.Start(); err != nil {
		m.t.Fatal(err)
	}
	go func() {
		_ = s.cmd.Wait() // it is killed
		close(s.ended)
	}()
	m.t.Cleanup(func() {
		s.Kill9()
		if m.t.Failed() {
			m.t.Logf("the service said:\n%s", tail(out.String(), 40))
		}
	})
	netns.Eventually(m.t, patience, func() error {
		if !strings.Contains(out.String(), "listening") {
			return fmt.Errorf("the service does not listen yet")
		}
		return nil
	})
	return s
}

// turns waits until a cube is degraded, or is not any more.
func (d *daemon) turns(cube string, degraded bool) {
	d.t.Helper()
	netns.Eventually(d.t, patience, func() error {
		var stats struct {
			Degraded string `json:"degraded"`
		}
		code, text, err := d.Request(http.MethodGet, "/cubes/"+cube+"/stats", "")
		if code == http.StatusNotFound {
			stats.Degraded = text // it could not be restored
		} else if err == nil {
			err = json.Unmarshal([]byte(text), &stats)
		}
		if err != nil || (stats.Degraded != "") != degraded {
			return fmt.Errorf("%s is degraded: %q, want %t (%w) %s", cube, stats.Degraded, degraded, err, text)
		}
		return nil
	})
}

// refuses checks that a command is refused with a sentence.
func (d *daemon) refuses(line, says string) {
	d.t.Helper()
	if r := d.CLI(strings.Fields(line)...); r.code == 0 || !strings.Contains(r.both(), says) {
		d.t.Errorf("%s: exit %d, %s\nwant %q", line, r.code, r.both(), says)
	}
}

func (r result) both() string { return r.stdout + r.stderr }

// twoHosts links two hosts by a cube of tally and a bridge.
func (d *daemon) twoHosts(kind string) [3]*netns.Node {
	d.t.Helper()
	hosts := threeHosts(d.machine, v4)
	d.Must(http.StatusCreated, "POST", "/tally/t1", fmt.Sprintf(`{"type":%q,"mark":7,"colour":"red","ports":[{"name":"a","peer":"veth1"},{"name":"b"}]}`, kind))
	d.Must(http.StatusCreated, "POST", "/simplebridge/br1", fmt.Sprintf(`{"type":%q,"ports":[{"name":"t"},{"name":"z","peer":"veth3"}]}`, kind))
	d.Do("connect t1:b br1:t")
	reaches(d.t, hosts[0], "10.0.0.3")
	return hosts
}

func TestServicesThatComeAndGoUnderTraffic(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"TC", "XDP_DRV"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			d := start(t)
			d.refuses("services add type=grpc uri=127.0.0.1:7001 name=br1x", "")
			s := d.Service(tallyFirst, 7001)
			d.Do("services add type=grpc uri=127.0.0.1:7001 name=tally")
			d.refuses("services add type=grpc uri=127.0.0.1:7001 name=tally", "the name is in use by another service")
			hosts := d.twoHosts(kind)
			d.refuses("services del tally", "delete them first: t1")
			stream := startStream(t, hosts[0], hosts[2])
			stream.Flowing(400)
			last := d.counted()
			grown := func(when string) {
				t.Helper()
				stream.Flowing(200)
				now := d.counted()
				if now <= last {
					t.Errorf("%s the cube has counted %d packets, before %d", when, now, last)
				}
				last = now
			}

			d.refuses("t1 set mark=99", "mark 99 brings bad luck")
			d.refuses("t1 set mark=13", "did not answer Prepare within 1s")
			d.turns("t1", false)
			d.Do("t1 set mark=8")
			grown("after it had not answered,")

			d.refuses("t1 set mark=66", "service tally was lost during Commit")
			d.turns("t1", true)
			<-s.ended
			stream.Flowing(200)
			d.refuses("t1 set mark=9", "its service takes it over again")
			s = d.Service(tallyFirst, 7001)
			d.turns("t1", false)
			grown("after it died in Commit,")
			if mark := strings.TrimSpace(d.Do("t1 show mark")); mark != "8" {
				t.Errorf("mark is %s after changes that failed, want 8", mark)
			}

			s.Kill9()
			d.turns("t1", true)
			d.Do("br1 fdb set aging-time=77") // its neighbours can be changed
			stream.Flowing(200)
			d.Kill9()
			nobody := d.machine.Start()
			stream.Flowing(200)
			d = nobody
			s = d.Service(tallyFirst, 7001)
			d.turns("t1", false)
			grown("after a start of the daemon without it,")
			d.Do("t1 set mark=10")

			d.Kill9()
			d = d.machine.Start()
			d.turns("t1", false)
			grown("after a start of the daemon with it,")
			stream.Stop()
			_ = s
		})
	}
}

func TestUpdatesOfAServiceThatRuns(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"TC", "XDP_DRV"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			d := start(t)
			d.Service(tallyFirst, 7001)
			d.Service(tallyWide, 7002)
			d.Service(tallyColour, 7003)
			d.Do("services add type=grpc uri=127.0.0.1:7001 name=tally")
			hosts := d.twoHosts(kind)
			stream := startStream(t, hosts[0], hosts[2])
			stream.Flowing(400)
			last := d.counted()

			d.refuses("services update tally uri=127.0.0.1:7003", "colour")
			d.refuses("services update tally uri=127.0.0.1:7009", "connection refused")
			if now := d.counted(); now <= last {
				t.Errorf("the old version has counted %d packets, before %d", now, last)
			}
			d.Do("services update tally uri=127.0.0.1:7002")
			stream.Flowing(200)
			if now := d.counted(); now <= last {
				t.Errorf("the new version has counted %d packets, the old one %d", now, last)
			}
			if shown := d.Do("services show tally"); !strings.Contains(shown, "127.0.0.1:7002") {
				t.Errorf("the service is shown as\n%s", shown)
			}
			if got := strings.TrimSpace(d.Do("t1 show colour")) + strings.TrimSpace(d.Do("t1 show mark")); got != "red7" {
				t.Errorf("its configuration is %s", got)
			}
			d.Do("t1 set mark=3")
			last = d.counted()
			d.Kill9()
			d = d.machine.Start()
			stream.Flowing(200)
			if now := d.counted(); now <= last {
				t.Errorf("after a restart %d packets are counted, before %d", now, last)
			}
			stream.Stop()
			d.Do("t1 del")
			d.Do("services del tally")
			d.refuses("services update tally", `no service is named "tally"`)
			if list := d.Do("services show"); strings.Contains(list, "tally") {
				t.Errorf("a service that was removed is listed:\n%s", list)
			}
		})
	}
}

// TestPacketsThroughAServiceOfAnotherProcess has packets go up to the service and down again.
func TestPacketsThroughAServiceOfAnotherProcess(t *testing.T) {
	t.Parallel()
	for _, kind := range types {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			d := start(t)
			d.Service("hidden", 7001)
			d.Do("services add type=grpc uri=127.0.0.1:7001 name=hidden")
			hosts := threeHosts(d.machine, v4)
			d.twoBridges(kind)
			d.Do("hidden add h1 type=" + kind + " ingress-action=SLOWPATH egress-action=SLOWPATH")
			d.Do("attach h1 br1:p1")
			reaches(t, hosts[0], "10.0.0.3")
			transfer(t, hosts[0], hosts[2], 1<<20)
			if up := d.Stats("h1").Fate(t, "slowpath"); up < 10 {
				t.Errorf("%d packets went up", up)
			}
			d.Do("h1 set ingress-action=DROP")
			if err := hosts[0].Ping("10.0.0.3", netns.Brief); err == nil {
				t.Error("packets pass a cube that drops them")
			}
		})
	}
}

// TestExecutablesAreStartedAndKeptRunning kills an executable that the daemon has started.
func TestExecutablesAreStartedAndKeptRunning(t *testing.T) {
	t.Parallel()
	d := start(t)
	dir, err := os.MkdirTemp("/var/lib", "polycube-e2e-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(dir, "service")
	if err := executable.CopySelf(binary); err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(dir, "tally")
	text := "#!/bin/sh\n" + asService + "=first exec " + binary + "\n"
	if err := executable.Write(script, []byte(text)); err != nil {
		t.Fatal(err)
	}
	d.refuses("services add type=lib uri=tally name=tally", "the absolute path")
	d.Do("services add type=lib uri=" + script + " name=tally")
	hosts := d.twoHosts("TC")
	stream := startStream(t, hosts[0], hosts[2])
	stream.Flowing(400)
	last := d.counted()
	for range 2 {
		for _, pid := range processesOf(binary) {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
		}
		d.turns("t1", true)
		d.turns("t1", false)
		stream.Flowing(200)
		if now := d.counted(); now <= last {
			t.Errorf("after it was killed %d packets are counted, before %d", now, last)
		}
	}
	if err := executable.Write(script, []byte(strings.Replace(text, "=first", "="+tallyWide, 1))); err != nil {
		t.Fatal(err)
	}
	d.Do("services update tally")
	stream.Flowing(200)
	if now := d.counted(); now <= last {
		t.Errorf("after the update %d packets are counted, before %d", now, last)
	}
	stream.Stop()
	if shown := d.Do("services show tally"); !strings.Contains(shown, "restarts: 2") || !strings.Contains(shown, "running") {
		t.Errorf("the service is shown as\n%s", shown)
	}
	d.Do("t1 del")
	d.Do("services del tally")
	netns.Eventually(t, patience, func() error {
		if left := processesOf(binary); len(left) > 0 {
			return fmt.Errorf("processes of the service are left: %v", left)
		}
		return nil
	})
}

// processesOf finds the processes that run a program.
func processesOf(path string) []int {
	var list []int
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline") // the pattern is right
	for _, name := range lines {
		text, err := os.ReadFile(name)
		first, _, _ := strings.Cut(string(text), "\x00")
		if pid, bad := strconv.Atoi(filepath.Base(filepath.Dir(name))); err == nil && bad == nil && first == path {
			list = append(list, pid)
		}
	}
	return list
}
