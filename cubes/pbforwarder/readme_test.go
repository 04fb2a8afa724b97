// SPDX-License-Identifier: Apache-2.0

package pbforwarder_test

import (
	"testing"

	"github.com/polycube/polycube/test/bpftest"
	_ "github.com/polycube/polycube/test/bpftest/cubes" // sets that rules match
)

func TestExamplesOfTheReadme(t *testing.T) { bpftest.Readme(t, "README.md") }
