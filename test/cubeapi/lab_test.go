// SPDX-License-Identifier: Apache-2.0

package cubeapi

import (
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath"
	"github.com/polycube/polycube/test/bpftest"
)

// everywhere are the hooks and modes of linking.
var everywhere = []struct {
	name string
	bpftest.Options
}{
	{"tc,call", bpftest.Options{Type: cube.TypeTC, Mode: datapath.ModeCall}},
	{"tc,inline", bpftest.Options{Type: cube.TypeTC, Mode: datapath.ModeInline}},
	{"xdp,call", bpftest.Options{Type: cube.TypeXDPDRV, Mode: datapath.ModeCall}},
	{"xdp,inline", bpftest.Options{Type: cube.TypeXDPDRV, Mode: datapath.ModeInline}},
}
