// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/polycube/polycube/internal/datapath"
	"github.com/polycube/polycube/internal/topology/unit"
)

// TestLevelOfACube: whatever writes about a cube obeys its level: its code, its programs, and the framework.
func TestLevelOfACube(t *testing.T) {
	tests := []struct {
		level string
		want  string
	}{
		{"TRACE", "trace debug info warn err critical"}, {"DEBUG", "debug info warn err critical"}, {"INFO", "info warn err critical"},
		{"WARN", "warn err critical"}, {"ERR", "err critical"}, {"CRITICAL", "critical"}, {"OFF", ""},
	}
	names := []struct {
		name string
		slow slog.Level
		fast datapath.LogLevel
	}{
		{"trace", unit.LevelTrace, datapath.LogTrace}, {"debug", slog.LevelDebug, datapath.LogDebug}, {"info", slog.LevelInfo, datapath.LogInfo},
		{"warn", slog.LevelWarn, datapath.LogWarn}, {"err", slog.LevelError, datapath.LogErr}, {"critical", unit.LevelCritical, datapath.LogCritical},
	}
	for _, tt := range tests {
		t.Run(tt.level, func(t *testing.T) {
			var out bytes.Buffer
			l := newLoggingLab(t, slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.Level(-100)}))
			l.must(`create toybridge br <<< ` + fmt.Sprintf(`{"loglevel":%q}`, tt.level))
			u := l.view.Load().Units["br"]
			for from, write := range map[string]func(i int){
				"the cube's code":    func(i int) { u.Env().Logger().Log(context.Background(), names[i].slow, "m="+names[i].name+".") },
				"the cube's program": func(i int) { l.DatapathLog(u.ID, names[i].fast, "m="+names[i].name+".") },
				"the framework":      func(i int) { u.Log.Log(context.Background(), names[i].slow, "m="+names[i].name+".") },
			} {
				out.Reset()
				var got []string
				for i := range names {
					write(i)
					if strings.Contains(out.String(), "m="+names[i].name+".") {
						got = append(got, names[i].name)
					}
				}
				if strings.Join(got, " ") != tt.want {
					t.Errorf("%s: %v is logged, want %q", from, got, tt.want)
				}
			}
		})
	}
}
