// SPDX-License-Identifier: Apache-2.0

package elb_test

import (
	"testing"

	"github.com/polycube/polycube/test/bpftest"
)

func TestExamplesOfTheReadme(t *testing.T) { bpftest.Readme(t, "README.md") }
