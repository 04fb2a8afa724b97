// SPDX-License-Identifier: Apache-2.0

package upf

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/wmnsk/go-pfcp/ie"

	"github.com/polycube/polycube/internal/n4"
	"github.com/polycube/polycube/internal/n4/rules"
	"github.com/polycube/polycube/internal/sidecar"
	"github.com/polycube/polycube/pdusession"
	"github.com/polycube/polycube/test/pace"
	"github.com/polycube/polycube/test/smf"
)

// nothing is a data plane for sessions without packets.
type nothing struct{}

func (nothing) Begin() n4.Batch                                        { return nothing{} }
func (nothing) Counts(uint32) (pdusession.Counts, error)               { return pdusession.Counts{}, nil }
func (nothing) Arm(uint32, pdusession.Volume, pdusession.Volume) error { return nil }
func (nothing) Seen(*pdusession.Rows) (time.Duration, error)           { return 0, nil }
func (nothing) EndMarker(rules.EndMarker) error                        { return nil }
func (nothing) Locals() rules.Locals {
	return rules.Locals{{Address: netip.MustParseAddr("192.0.2.1")}}
}
func (nothing) Remove(*pdusession.Rows) error                 { return nil }
func (nothing) Commit() (map[uint32]pdusession.Counts, error) { return nil, nil }
func (nothing) Put(_ *pdusession.Rows, s *pdusession.Session) (*pdusession.Rows, error) {
	return &pdusession.Rows{Size: uint32(len(s.Rules)), Usages: map[uint32]uint32{1: 1}}, nil
}

// serving returns a program that serves one session, with a guaranteed rate.
func serving(t *testing.T) *program {
	t.Helper()
	server, err := n4.New(n4.Config{Address: netip.MustParseAddrPort("127.0.0.1:0"), Store: filepath.Join(t.TempDir(), "sessions.db"),
		Pools: []n4.Pool{{Prefix: netip.MustParsePrefix("10.1.0.0/16")}}, Heartbeat: time.Hour}, nothing{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- server.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	core, err := smf.New(netip.MustParseAddrPort("127.0.0.1:0"), server.Addr(), "smf.example")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = core.Close() })
	limit, end := context.WithTimeout(t.Context(), pace.Stretch(patience))
	defer end()
	if _, err := core.Associate(limit); err != nil {
		t.Fatal(err)
	}
	if _, err := core.Establish(limit, 7, append(smf.Device(netip.MustParseAddr("10.1.0.1"), netip.MustParseAddr("192.0.2.10"), 1025),
		smf.QER(3, 8, 16, 0, ie.NewGBR(8, 16)))...); err != nil {
		t.Fatal(err)
	}
	p := &program{log: slog.New(slog.DiscardHandler)}
	p.serves(server)
	return p
}

// TestTheStatusIsShown: as a table and as JSON, by the program that serves.
func TestTheStatusIsShown(t *testing.T) {
	t.Parallel()
	p := serving(t)
	p.options.Control = filepath.Join(t.TempDir(), "made", "c")
	end, err := p.observed().Serve(p.options.Control, "")
	if err != nil {
		t.Fatal(err)
	}
	defer end()
	show := func(asJSON bool, to io.Writer) error {
		return sidecar.Show(t.Context(), "polycube-upf", p.options.Control, asJSON, to, table)
	}
	var text, raw bytes.Buffer
	if err := show(false, &text); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{`address +127\.0\.0\.1:\d+`, "sessions +1", "device addresses +1", "guaranteed kbit/s +8 up, 16 down", "malformed messages +0", "strangers' messages +0",
		"association +address +state +sessions +since", `smf\.example +127\.0\.0\.1 +UP +1 +\d{4}-.*`} {
		if !regexp.MustCompile("(?m)^" + line + "$").Match(text.Bytes()) {
			t.Errorf("no line %q in\n%s", line, &text)
		}
	}
	if err := show(true, &raw); err != nil {
		t.Fatal(err)
	}
	var is n4.Status
	if err := json.Unmarshal(raw.Bytes(), &is); err != nil || is.Sessions != 1 || len(is.Peers) != 1 || is.Peers[0].Node != "smf.example" || !is.Peers[0].Up {
		t.Errorf("%v: %s", err, &raw)
	}
	if err := sidecar.Command(t.Context(), "polycube-upf", p.options.Control, "arrive"); err == nil || !strings.Contains(err.Error(), "not found") {
		t.Errorf("a command that there is not: %v", err)
	}
	if err := sidecar.Command(t.Context(), "polycube-upf", p.options.Control, commandLeave); err != nil {
		t.Error(err)
	}
	late, err := smf.New(netip.MustParseAddrPort("127.0.0.1:0"), p.serving().Addr(), "late.example")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = late.Close() }()
	limit, stop := context.WithTimeout(t.Context(), pace.Stretch(patience))
	defer stop()
	var refused *smf.RefusedError
	if _, err := late.Associate(limit); !errors.As(err, &refused) || refused.Cause != ie.CauseRequestRejected {
		t.Errorf("an association with a UPF that leaves: %v", err)
	}
	if _, err := p.observed().Serve(p.options.Control, ""); err == nil || !strings.Contains(err.Error(), "another process listens there") {
		t.Errorf("a second program: %v", err)
	}
	p.serves(nil)
	if err := show(true, &raw); err == nil || !strings.Contains(err.Error(), errAway.Error()) {
		t.Errorf("without a cube: %v", err)
	}
	if err := sidecar.Command(t.Context(), "polycube-upf", p.options.Control, commandLeave); err == nil || !strings.Contains(err.Error(), errAway.Error()) {
		t.Errorf("leave without a cube: %v", err)
	}
}

// scrape returns the metrics of a program.
func scrape(t *testing.T, p *program) string {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(p.observed().Collector()); err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	defer s.Close()
	answer, err := http.Get(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("%v, %s: %s", err, answer.Status, text)
	}
	return string(text)
}

// TestMetrics have the values of the status, and names as Prometheus wants them. While nothing is served there are none.
func TestMetrics(t *testing.T) {
	t.Parallel()
	p := serving(t)
	text := scrape(t, p)
	for _, line := range []string{
		"polycube_upf_sessions 1", "polycube_upf_addresses 1", `polycube_upf_guaranteed_bytes_per_second{direction="up"} 1000`, `polycube_upf_guaranteed_bytes_per_second{direction="down"} 2000`,
		`polycube_upf_association_up{node="smf.example"} 1`, `polycube_upf_association_sessions{node="smf.example"} 1`,
		`polycube_upf_requests_total{cause="1",message="association-setup"} 1`, `polycube_upf_requests_total{cause="1",message="session-establishment"} 1`,
		`polycube_upf_messages_total{outcome="malformed"} 0`, `polycube_upf_messages_total{outcome="stranger"} 0`,
	} {
		if !strings.Contains(text, "\n"+line+"\n") {
			t.Errorf("no line %s in\n%s", line, text)
		}
	}
	found, err := promlint.New(strings.NewReader(text)).Lint()
	if err != nil || len(found) > 0 {
		t.Errorf("%v: %v", found, err)
	}
	p.serves(nil)
	if text := scrape(t, p); text != "" {
		t.Errorf("while nothing is served: %s", text)
	}
}

// TestOneProgramWritesTheSessions.
func TestOneProgramWritesTheSessions(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "state")
	unlock, err := lock(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lock(dir); err == nil || !strings.Contains(err.Error(), "another polycube-upf is using") {
		t.Errorf("a second one: %v", err)
	}
	unlock()
	again, err := lock(dir)
	if err != nil {
		t.Fatal(err)
	}
	again()
}

// TestAProgramThatWaits has no status.
func TestAProgramThatWaits(t *testing.T) {
	t.Parallel()
	if _, err := (&program{}).status(); !errors.Is(err, errAway) {
		t.Error(err)
	}
}
