// SPDX-License-Identifier: Apache-2.0

// The malicious services: this test binary, started by a daemon as the executable of a service, which behaves as its
// name says. Its model and objects are in the same directory.

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"google.golang.org/grpc"

	pb "github.com/polycube/polycube/api/polycube/service/v1"
)

// serviceSocket is set for services that a daemon has started.
const serviceSocket = "POLYCUBE_SERVICE_SOCKET"

// malicious is a service. Its attack is its name: WHAT-WHERE.
type malicious struct {
	pb.UnimplementedServiceServer
	name, attack string
	session      pb.Service_SessionServer
	packets      pb.Service_PacketsServer
	answers      chan *pb.MapReply
	eaten        [][]byte
}

// beMalicious runs a service until it is ended.
func beMalicious() {
	e := &malicious{name: os.Getenv("POLYCUBE_SERVICE"), answers: make(chan *pb.MapReply, 16)}
	e.attack = strings.TrimSuffix(strings.TrimSuffix(e.name, "-tc"), "-xdp")
	e.do("start")
	listener, err := net.Listen("unix", os.Getenv(serviceSocket))
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	server := grpc.NewServer(grpc.MaxRecvMsgSize(64<<20), grpc.MaxSendMsgSize(64<<20))
	pb.RegisterServiceServer(server, e)
	fmt.Println(server.Serve(listener))
	os.Exit(1)
}

// do hangs, crashes or continues, as the attack says for a place.
func (e *malicious) do(where string) {
	switch e.attack {
	case "hang-" + where:
		select {}
	case "crash-" + where:
		fmt.Println("crashes in", where)
		os.Exit(139)
	}
}

// deadline of calls in milliseconds: short if the attack is to hang there. A busy machine must not break the others.
func (e *malicious) deadline(where ...string) uint32 {
	if slices.Contains(where, strings.TrimPrefix(e.attack, "hang-")) {
		return 400
	}
	return 10_000
}

// beside reads a file in the executable's directory.
func beside(name string) []byte {
	text, err := os.ReadFile(filepath.Join(filepath.Dir(os.Args[0]), name))
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	return text
}

// Describe lies if that is the attack.
func (e *malicious) Describe(context.Context, *pb.DescribeRequest) (*pb.Description, error) {
	e.do("describe")
	object := map[string]string{"lie-helper": "forbidden", "lie-verifier": "liar"}[e.attack]
	if object == "" {
		object = "good"
	}
	d := &pb.Description{Protocol: 1, Name: e.name, Model: string(bytes.ReplaceAll(beside("model.yang"), []byte("NAME"), []byte(e.name))),
		State: true, DeleteState: true, Actions: true, Packets: true, Notifications: true, Ports: true, Parent: true,
		Objects:   []*pb.Object{{Hook: pb.Hook_HOOK_TC, Elf: beside(object + ".tc.o")}, {Hook: pb.Hook_HOOK_XDP, Elf: beside(object + ".xdp.o")}},
		Deadlines: &pb.Deadlines{Prepare: e.deadline("open", "prepare"), Commit: e.deadline("commit"), State: e.deadline("state"), Action: e.deadline("action")}}
	switch e.attack {
	case "lie-elf":
		d.Objects[0].Elf = bytes.Repeat([]byte("\x7fELF"), 1000)
	case "lie-hook":
		d.Objects[0].Elf = d.Objects[1].GetElf()
	case "lie-twice":
		d.Objects = append(d.Objects, d.Objects[0])
	case "lie-model":
		d.Model = "module " + e.name + " { oops"
	case "lie-name":
		d.Name = "helloworld"
	case "lie-kernel":
		d.MinKernel = "99.0"
	case "lie-protocol":
		d.Protocol = 99
	case "lie-size":
		d.Model += strings.Repeat("// filler\n", 4<<20)
	case "lie-empty":
		return &pb.Description{}, nil
	}
	return d, nil
}

// Session answers pings, and floods where that is the attack.
func (e *malicious) Session(stream pb.Service_SessionServer) error {
	e.do("session")
	if e.attack == "lie-session" {
		_ = stream.Send(&pb.ToDaemon{Message: &pb.ToDaemon_Pong{Pong: &pb.Pong{Number: 1}}})
	} else if err := stream.Send(&pb.ToDaemon{Message: &pb.ToDaemon_Ready{Ready: &pb.Ready{}}}); err != nil {
		return err
	}
	e.session = stream
	for {
		m, err := stream.Recv()
		if err != nil {
			return err
		}
		if m.GetMap() != nil {
			select {
			case e.answers <- m.GetMap():
			default:
			}
		}
		if p := m.GetPing(); p != nil && !strings.HasPrefix(e.attack, "flood") {
			_ = stream.Send(&pb.ToDaemon{Message: &pb.ToDaemon_Pong{Pong: &pb.Pong{Number: p.GetNumber()}}})
		}
	}
}

// flood sends the attack's messages without end. A stream has one sender at a time, so it does not answer pings.
func (e *malicious) flood(cube uint64) {
	long := strings.Repeat("x", 120)
	for n := uint64(1); ; n++ {
		m := &pb.ToDaemon{}
		switch e.attack {
		case "flood-logs":
			m.Message = &pb.ToDaemon_Log{Log: &pb.Log{Cube: cube, Level: "ERR", Message: fmt.Sprint(n, long)}}
		case "flood-metrics":
			many := &pb.Metrics{Cube: cube}
			for i := range 1000 {
				many.Metrics = append(many.Metrics, &pb.Metric{Name: fmt.Sprintf("m%d_%d", n, i), Help: long, Labels: map[string]string{"x": long}})
			}
			m.Message = &pb.ToDaemon_Metrics{Metrics: many}
		case "flood-maps":
			m.Message = &pb.ToDaemon_Map{Map: &pb.MapRequest{Id: n, Cube: cube, Map: long[:1+n%100], Operation: &pb.MapRequest_Info{Info: &pb.MapInfoRequest{}}}}
		case "flood-programs":
			m.Message = &pb.ToDaemon_Programs{Programs: &pb.ProgramsRequest{Id: n, Cube: cube, Changes: []*pb.ProgramChange{
				{Direction: pb.Direction_DIRECTION_INGRESS, Index: uint32(n % 40), Function: "nonsense"}}}}
		default:
			return
		}
		if e.session.Send(m) != nil {
			return
		}
	}
}

// Packets floods where that is the attack.
func (e *malicious) Packets(stream pb.Service_PacketsServer) error {
	e.do("packets")
	e.packets = stream
	for {
		if _, err := stream.Recv(); err != nil {
			return err
		}
	}
}

// floodPackets sends frames as fast as they are accepted.
func (e *malicious) floodPackets(cube uint64) {
	batch := &pb.PacketsOut{}
	for range 64 {
		batch.Packets = append(batch.Packets, &pb.PacketOut{Cube: cube, Direction: pb.Direction_DIRECTION_EGRESS, Data: bytes.Repeat([]byte{2}, 200)})
	}
	for e.packets != nil && e.packets.Send(batch) == nil {
	}
}

// eat uses up resources.
func (e *malicious) eat() {
	for n := 0; e.attack == "eat-memory"; n++ {
		e.eaten = append(e.eaten, bytes.Repeat([]byte{1}, 10<<20))
	}
	for e.attack == "eat-processes" {
		if err := exec.Command("/bin/sleep", "1000").Start(); err != nil {
			fmt.Println(err)
			return
		}
	}
}

// Open creates a cube.
func (e *malicious) Open(context.Context, *pb.OpenRequest) (*pb.OpenResponse, error) {
	e.do("open")
	return &pb.OpenResponse{}, nil
}

// Prepare plans nonsense where that is the attack.
func (e *malicious) Prepare(_ context.Context, r *pb.PrepareRequest) (*pb.Plan, error) {
	e.do("prepare")
	plan := &pb.Plan{Commit: true}
	switch e.attack {
	case "lie-verifier":
		plan.Constants = map[string][]byte{"what": {2, 0, 0, 0}} // writes beyond the end of the metadata
	case "lie-constant":
		plan.Constants = map[string][]byte{"nonsense": {1}}
	case "lie-constants":
		plan.Constants = map[string][]byte{"ingress_action": bytes.Repeat([]byte{1}, 1000)}
	case "lie-program":
		plan.Programs = []*pb.ProgramChange{{Direction: pb.Direction_DIRECTION_INGRESS, Function: "nonsense"}}
	case "lie-more":
		plan.Programs = []*pb.ProgramChange{{Direction: pb.Direction_DIRECTION_INGRESS, Index: 1, Function: "redirects",
			Objects: []*pb.Object{{Hook: pb.Hook_HOOK_TC, Elf: beside("forbidden.tc.o")}}}}
	case "lie-map":
		plan.Writes = []*pb.MapWrite{{Map: "pcn_entries", Entries: []*pb.Entry{{Key: make([]byte, 4), Value: make([]byte, 4)}}}}
	case "lie-maps":
		plan.MapSizes = map[string]uint32{"nonsense": 1 << 31}
	}
	switch {
	case e.attack == "flood-packets":
		go e.floodPackets(r.GetCube())
	case strings.HasPrefix(e.attack, "flood-"):
		go e.flood(r.GetCube())
	case e.attack == "eat-processes":
		go e.eat()
	}
	return plan, nil
}

// Commit does what the attack says.
func (e *malicious) Commit(context.Context, *pb.PlanRequest) (*pb.PlanResponse, error) {
	e.do("commit")
	return &pb.PlanResponse{}, nil
}

// State returns invalid data if that is the attack.
func (e *malicious) State(context.Context, *pb.StateRequest) (*pb.StateResponse, error) {
	e.do("state")
	if e.attack == "eat-memory" { // once its cube exists: before that, it might not be created
		go e.eat()
	}
	return &pb.StateResponse{State: []byte(map[string]string{
		"lie-json":  `{"loglevel":`,
		"lie-array": `[1,2,3]`,
		"lie-type":  `{"uuid":{"no":"uuid"},"nothing":7,"ingress-action":["DROP"]}`,
		"lie-deep":  strings.Repeat(`{"a":`, 100_000) + "1" + strings.Repeat("}", 100_000),
		"lie-long":  `{"x":"` + strings.Repeat("y", 9<<20) + `"}`,
		"lie-bytes": "\xff\xfe{}",
	}[e.attack])}, nil
}

// Action does what the attack says.
func (e *malicious) Action(context.Context, *pb.ActionRequest) (*pb.ActionResponse, error) {
	e.do("action")
	if e.attack == "lie-output" {
		return &pb.ActionResponse{Output: []byte(`{"done":"perhaps"}`)}, nil
	}
	return &pb.ActionResponse{Output: []byte(`{"done":true}`), Edits: []*pb.Edit{{Path: []string{"no", "such", "leaf"}, Value: []byte("1")}}}, nil
}

// Close ends a cube.
func (e *malicious) Close(context.Context, *pb.CloseRequest) (*pb.CloseResponse, error) {
	e.do("close")
	return &pb.CloseResponse{}, nil
}
