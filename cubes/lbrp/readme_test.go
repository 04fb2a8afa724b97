// SPDX-License-Identifier: Apache-2.0

package lbrp

import (
	"testing"

	"github.com/polycube/polycube/test/bpftest"
)

func TestExamplesOfTheReadme(t *testing.T) { bpftest.Readme(t, "README.md") }
