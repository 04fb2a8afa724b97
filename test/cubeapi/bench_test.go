// SPDX-License-Identifier: Apache-2.0

package cubeapi

import (
	"testing"

	"github.com/polycube/polycube/cube"
)

// One program of twelve is replaced: linking, verifying and swapping the whole cube.
func BenchmarkReload(b *testing.B) {
	for _, o := range everywhere {
		b.Run(o.name, func(b *testing.B) {
			l := newBench(b, o.Options)
			p := l.env.Programs()
			functions := []string{"other3", "stage3"}
			for i := 0; b.Loop(); i++ {
				if err := p.Reload(in(3), cube.Program{Function: functions[i%2]}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
