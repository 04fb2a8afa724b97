// SPDX-License-Identifier: Apache-2.0

package external

// The daemon's side of the protocol against a service in this process that does what a test wants.

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	pb "github.com/polycube/polycube/api/polycube/service/v1"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/origins"
	"github.com/polycube/polycube/internal/topology/service"
	"github.com/polycube/polycube/test/extservice"
	"github.com/polycube/polycube/test/pace"
)

// patience bounds what a test waits for.
var patience = pace.Stretch(10 * time.Second)

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", patience, what)
		}
		<-time.After(time.Millisecond)
	}
}

// program is a compiled cube that ships.
func program(t testing.TB, h cube.Hook) []byte {
	t.Helper()
	elf, err := os.ReadFile(filepath.Join("..", "..", "cubes", "helloworld", "helloworld."+h.String()+".o"))
	if err != nil {
		t.Fatalf("%v: run make generate", err)
	}
	return elf
}

func describe(t testing.TB) *pb.Description {
	return &pb.Description{Protocol: 1, Name: "there", Model: "module there {}", Packets: true, Notifications: true, State: true,
		Actions: true, DeleteState: true, Ports: true, Parent: true, Deadlines: &pb.Deadlines{Prepare: 10_000, Commit: 10_000, State: 10_000, Action: 10_000},
		Objects: []*pb.Object{{Hook: pb.Hook_HOOK_TC, Elf: program(t, cube.TC)}, {Hook: pb.Hook_HOOK_XDP, Elf: program(t, cube.XDP)}}}
}

func ended(t testing.TB, err error) {
	if err != nil {
		t.Errorf("the service ended with %v", err)
	}
}

// listen serves until the test ends, and returns where.
func listen(t testing.TB, s pb.ServiceServer, opts ...grpc.ServerOption) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if o, ok := s.(*extservice.Server); ok && len(opts) == 0 {
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- o.Serve(ctx, l) }()
		t.Cleanup(func() { cancel(); ended(t, <-done) })
		return l.Addr().String()
	}
	g := grpc.NewServer(opts...)
	pb.RegisterServiceServer(g, s)
	done := make(chan error, 1)
	go func() { done <- g.Serve(l) }()
	t.Cleanup(func() { g.Stop(); ended(t, <-done) })
	return l.Addr().String()
}

// begin starts a life of a service.
func begin(t testing.TB, o Options, s pb.ServiceServer) (*life, error) {
	t.Helper()
	l, err := New(o).Start(context.Background(), service.Registration{Name: "there", Type: "grpc", URI: listen(t, s)}, nil)
	if err != nil {
		return nil, err
	}
	t.Cleanup(l.Close)
	return l.(*life), nil
}

// fakeEnv is the environment of a cube.
type fakeEnv struct {
	name string
	log  *slog.Logger
	maps map[string]*ebpf.Map

	mu       sync.Mutex
	sent     []cube.PacketOut
	degraded string
	programs map[cube.ProgramSlot]*cube.Program
	floods   map[uint32][]cube.FloodMember
}

func (e *fakeEnv) Name() string                      { return e.name }
func (e *fakeEnv) UUID() string                      { return "uuid of " + e.name }
func (e *fakeEnv) TakenOver() bool                   { return false }
func (e *fakeEnv) Type() cube.Type                   { return cube.TypeTC }
func (e *fakeEnv) Instance() uint16                  { return 1 }
func (e *fakeEnv) Logger() *slog.Logger              { return e.log }
func (e *fakeEnv) PortIndex(n string) (uint16, bool) { return uint16(len(n)), n != "" }
func (e *fakeEnv) PortName(uint16) (string, bool)    { return "", false }
func (e *fakeEnv) Programs() cube.Programs           { return fakePrograms{e} }
func (e *fakeEnv) Floods() cube.Floods               { return fakeFloods{e} }

func (e *fakeEnv) Do(fn func()) error { fn(); return nil }

func (e *fakeEnv) Every(time.Duration, func()) func() { return func() {} }
func (e *fakeEnv) After(time.Duration, func()) func() { return func() {} }

func (e *fakeEnv) Degrade(reason string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.degraded = reason
}

func (e *fakeEnv) Map(name string) (*ebpf.Map, error) {
	if m := e.maps[name]; m != nil {
		return m, nil
	}
	return nil, fmt.Errorf("map %s: %w", name, cube.ErrNotFound)
}

func (e *fakeEnv) Origin(string) (origins.Origin, error) { return origins.Created, nil }

func (e *fakeEnv) Inner(name string) (*ebpf.MapSpec, error) {
	if name != "sets" {
		return nil, fmt.Errorf("map %s has no inner maps: %w", name, cube.ErrInvalid)
	}
	return &ebpf.MapSpec{Type: ebpf.Hash, KeySize: 4, ValueSize: 4, MaxEntries: 2}, nil
}

func (e *fakeEnv) Send(p *cube.PacketOut) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.sent = append(e.sent, *p)
	return nil
}

type fakePrograms struct{ e *fakeEnv }

func (p fakePrograms) Reload(slot cube.ProgramSlot, program cube.Program) error {
	return p.ReloadAll(map[cube.ProgramSlot]*cube.Program{slot: &program})
}

func (p fakePrograms) ReloadAll(by map[cube.ProgramSlot]*cube.Program) error {
	p.e.mu.Lock()
	defer p.e.mu.Unlock()
	p.e.programs = by
	return nil
}

func (p fakePrograms) AddProgram(d cube.Direction, program cube.Program) (int, error) {
	return 7, p.Reload(cube.ProgramSlot{Direction: d, Index: 7}, program)
}

func (p fakePrograms) DelProgram(cube.ProgramSlot) error       { return cube.ErrNotFound }
func (p fakePrograms) List() map[cube.ProgramSlot]cube.Program { return nil }
func newEnv(t testing.TB, name string, maps map[string]*ebpf.Map) *fakeEnv {
	return &fakeEnv{name: name, maps: maps, log: slog.New(slog.NewTextHandler(t.Output(), nil))}
}

// open makes a cube of a life and configures it.
func open(t testing.TB, l *life, env *fakeEnv) *instance {
	t.Helper()
	i, err := instanceOf(l, env)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := i.Prepare(t.Context(), cube.Change{New: json.RawMessage(`{"ports":[{"name":"p1"},{"name":"p22"}]}`)}); err != nil {
		t.Fatal(err)
	}
	return i
}

func TestServicesThatDescribeThemselvesWronglyAreRefused(t *testing.T) {
	for what, c := range map[string]struct {
		change func(*pb.Description)
		want   error
		says   string
	}{
		"another version": {func(d *pb.Description) { d.Protocol = 2 }, cube.ErrUnsupported, "uses version 2 of the protocol"},
		"no version":      {func(d *pb.Description) { d.Protocol = 0 }, cube.ErrUnsupported, "uses version 0"},
		"another name":    {func(d *pb.Description) { d.Name = "elsewhere" }, cube.ErrInvalid, `it is the service "elsewhere"`},
		"no programs":     {func(d *pb.Description) { d.Objects = nil }, cube.ErrInvalid, "it has no programs"},
		"two for a hook":  {func(d *pb.Description) { d.Objects[1].Hook = d.Objects[0].Hook }, nil, "two objects are for tc"},
		"no hook":         {func(d *pb.Description) { d.Objects[0].Hook = 9 }, nil, "for an unknown hook"},
		"no ELF":          {func(d *pb.Description) { d.Objects[0].Elf = []byte("text") }, nil, ""},
		"a new kernel":    {func(d *pb.Description) { d.MinKernel = "99.0" }, cube.ErrUnsupported, "requires kernel 99.0 or newer"},
		"a huge model":    {func(d *pb.Description) { d.Model = strings.Repeat("x", 5<<20) }, cube.ErrInvalid, "its model has"},
		"many ports":      {func(d *pb.Description) { d.MaxPorts = 1 << 20 }, cube.ErrInvalid, "ports"},
	} {
		d := describe(t)
		c.change(d)
		_, err := begin(t, Options{}, &extservice.Server{Description: d})
		if err == nil || c.want != nil && !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %v with %q", what, err, c.want, c.says)
		}
	}
}

// mute is a service that does not say what it should.
type mute struct {
	pb.UnimplementedServiceServer
	d *pb.Description
	// first is what it sends in its session; it reads nothing.
	first []*pb.ToDaemon
	again *pb.ToDaemon
}

func (m *mute) Describe(context.Context, *pb.DescribeRequest) (*pb.Description, error) {
	if m.d == nil {
		return nil, status.Error(codes.Internal, "no idea\nwhat I am")
	}
	return m.d, nil
}

func (m *mute) Session(s grpc.BidiStreamingServer[pb.ToService, pb.ToDaemon]) error {
	for _, x := range m.first {
		if err := s.Send(x); err != nil {
			return err
		}
	}
	for m.again != nil {
		if err := s.Send(m.again); err != nil {
			return err
		}
	}
	<-s.Context().Done()
	return nil
}

func (m *mute) Packets(s grpc.BidiStreamingServer[pb.PacketsIn, pb.PacketsOut]) error {
	<-s.Context().Done()
	return nil
}

var ready = &pb.ToDaemon{Message: &pb.ToDaemon_Ready{Ready: &pb.Ready{}}}

func TestServicesThatDoNotSpeakAreGivenUp(t *testing.T) {
	pong := &pb.ToDaemon{Message: &pb.ToDaemon_Pong{Pong: &pb.Pong{}}}
	for what, c := range map[string]struct {
		service *mute
		says    string // at the start
	}{
		"an error":  {&mute{}, "no idea what I am"},
		"not ready": {&mute{d: describe(t), first: []*pb.ToDaemon{pong}}, "its first message is not Ready"},
	} {
		_, err := begin(t, Options{}, c.service)
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", what, err, c.says)
		}
	}
	l, err := begin(t, Options{Beat: 20 * time.Millisecond, Silence: 50 * time.Millisecond}, &mute{d: describe(t), first: []*pb.ToDaemon{ready}})
	if err == nil { // it may end before it is there
		select {
		case <-l.Done():
			err = l.Err()
		case <-time.After(patience):
			t.Fatal("a service that is silent is not given up")
		}
	}
	if !strings.Contains(err.Error(), "no message from it for") {
		t.Errorf("it ended with %v", err)
	}
}

func TestOnlyLoopbackIsSpokenToInTheClear(t *testing.T) {
	for uri, says := range map[string]string{
		"192.0.2.1:1":           "requires mutual TLS",
		"service.example.org:1": "requires mutual TLS",
		"[2001:db8::1]:1":       "requires mutual TLS",
		"127.0.0.1":             "must be HOST:PORT",
		":7":                    "must be HOST:PORT",
		"":                      "must be HOST:PORT",
	} {
		_, err := New(Options{}).Start(context.Background(), service.Registration{Name: "there", Type: "grpc", URI: uri}, nil)
		if !errors.Is(err, cube.ErrInvalid) || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %q", uri, err, says)
		}
	}
	for _, reg := range []service.Registration{{Type: "lib", URI: "/bin/true"}, {Type: "thread", URI: "x"}} {
		if _, err := New(Options{}).Start(context.Background(), reg, nil); err == nil {
			t.Errorf("%v is started", reg)
		}
	}
}

// authority signs certificates for 127.0.0.1.
type authority struct {
	t    testing.TB
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	a := &authority{t: t, pool: x509.NewCertPool()}
	pair := a.sign(&x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	var err error
	if a.cert, err = x509.ParseCertificate(pair.Certificate[0]); err != nil {
		t.Fatal(err)
	}
	a.key = pair.PrivateKey.(*ecdsa.PrivateKey)
	a.pool.AddCert(a.cert)
	return a
}

func (a *authority) sign(c *x509.Certificate) tls.Certificate {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	c.SerialNumber, c.Subject = big.NewInt(time.Now().UnixNano()), pkix.Name{CommonName: "test"}
	c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer)
	if err != nil {
		a.t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func (a *authority) leaf() tls.Certificate {
	return a.sign(&x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}})
}

func TestTLSIsMutual(t *testing.T) {
	good, evil := newAuthority(t), newAuthority(t)
	for what, c := range map[string]struct {
		server, client tls.Certificate
		trusts         *authority // the client
		ok             bool
	}{
		"both are known":     {good.leaf(), good.leaf(), good, true},
		"a server of nobody": {evil.leaf(), good.leaf(), good, false},
		"a client of nobody": {good.leaf(), evil.leaf(), good, false},
		"a client without":   {good.leaf(), tls.Certificate{}, good, false},
		"another authority":  {good.leaf(), good.leaf(), evil, false},
	} {
		creds := credentials.NewTLS(&tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{c.server},
			ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: good.pool})
		uri := listen(t, &mute{d: describe(t), first: []*pb.ToDaemon{ready}}, grpc.Creds(creds))
		config := &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: c.trusts.pool}
		if c.client.Certificate != nil {
			config.Certificates = []tls.Certificate{c.client}
		}
		l, err := New(Options{TLS: config}).Start(context.Background(), service.Registration{Name: "there", Type: "grpc", URI: uri}, nil)
		if (err == nil) != c.ok {
			t.Errorf("%s: %v, want success %t", what, err, c.ok)
		}
		if err == nil {
			l.Close()
		}
	}
}

func TestAFloodIsBoundedAndCounted(t *testing.T) {
	var out bytes.Buffer
	start := time.Now()
	line := &pb.ToDaemon{Message: &pb.ToDaemon_Log{Log: &pb.Log{Level: "INFO", Message: strings.Repeat("x", 5000) + "\x1b[2J\n"}}}
	l, err := begin(t, Options{Logger: slog.New(slog.NewTextHandler(&out, nil))}, &mute{d: describe(t), first: []*pb.ToDaemon{ready}, again: line})
	if err != nil {
		t.Fatal(err)
	}
	dropped := uint64(0)
	eventually(t, "lines are dropped", func() bool { dropped += l.lines.excess(); return dropped > 500 })
	// A service that reads no packets loses them, and nobody waits for it.
	env := newEnv(t, "c1", nil)
	i, err := instanceOf(l, env)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	for range 50_000 {
		i.PacketIn(&cube.PacketIn{Data: make([]byte, 1500)})
	}
	if took := time.Since(began); took > patience/2 {
		t.Errorf("50000 packets for a service that reads none took %v", took)
	}
	if in, _ := l.Drops(); in < 20_000 {
		t.Errorf("%d packets were dropped", in)
	}
	l.Close()
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if most := logLines * (3 + int(time.Since(start).Seconds())); len(lines) > most {
		t.Errorf("%d lines were written, at most %d may be", len(lines), most)
	}
	for _, text := range lines {
		if len(text) > 2*maxSentence || strings.ContainsRune(text, '\x1b') {
			t.Fatalf("a line has %d bytes: %.100q", len(text), text)
		}
	}
}
