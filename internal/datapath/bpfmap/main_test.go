// SPDX-License-Identifier: Apache-2.0

package bpfmap

import (
	"os"
	"testing"

	"github.com/polycube/polycube/test/netns"
)

func TestMain(m *testing.M) { os.Exit(netns.CheckLeaks(m)) }
