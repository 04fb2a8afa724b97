// SPDX-License-Identifier: Apache-2.0

// The dashboards of examples/monitoring and Grafana's own schema.

package e2e

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/grafana/grafana-foundation-sdk/go/bargauge"
	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/cog/variants"
	grafana "github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/heatmap"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/table"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

// TestDashboardsFollowGrafanasSchema: Grafana knows every field of the dashboards, of their panels, options and queries, each
// has a value of the right type, and no required field is missing.
func TestDashboardsFollowGrafanasSchema(t *testing.T) {
	t.Parallel()
	schema := cog.NewRuntime()
	for _, panel := range []variants.PanelcfgConfig{bargauge.VariantConfig(), heatmap.VariantConfig(), stat.VariantConfig(),
		table.VariantConfig(), timeseries.VariantConfig()} {
		schema.RegisterPanelcfgVariant(panel)
	}
	schema.RegisterDataqueryVariant(prometheus.VariantConfig())
	for file, ours := range dashboards(t) {
		text, err := os.ReadFile(filepath.Join(monitoring, "dashboards", file))
		if err != nil {
			t.Fatal(err)
		}
		var d grafana.Dashboard //nolint:staticcheck // only Grafana 12 and later reads the newer format

		if err := d.UnmarshalJSONStrict(text); err != nil && err.Error() != "" { // an empty list of errors is not nil
			t.Errorf("%s: %v", file, err)
		}
		if err := d.Validate(); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		// The schema skips the options of a type that is not registered.
		for _, p := range ours.Panels {
			if _, ok := schema.ConfigForPanelcfgVariant(p.Type); !ok && p.Type != "row" {
				t.Errorf("%s: register the type of panel %q, %q, for this test", file, p.Title, p.Type)
			}
		}
	}
}
