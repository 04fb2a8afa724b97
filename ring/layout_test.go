// SPDX-License-Identifier: Apache-2.0

package ring_test

import (
	_ "embed"
	"testing"

	"github.com/polycube/polycube/ring"
	"github.com/polycube/polycube/test/bpftest"
)

//go:embed testdata/ring.tc.o
var object []byte

func TestTheLayoutsAreThoseOfThePrograms(t *testing.T) {
	bpftest.Layout(t, object, "copies"+ring.ReaderSuffix, ring.Page{})
	bpftest.Layout(t, object, "copies"+ring.CountsSuffix, ring.Counts{})
}
