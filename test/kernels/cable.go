// SPDX-License-Identifier: Apache-2.0

// Cables between two machines.

package kernels

import (
	"fmt"
	"path/filepath"
)

// cable is one end of a cable: a netdev of virtio whose frames are datagrams between two sockets. Frames are lost until
// the other machine has its socket.
type cable struct {
	local, remote, mac string
}

// cables are the ends that one of the two machines of a kernel has. They are crossed: with two cables, eth0 of each machine
// leads to eth1 of the other.
func cables(dir string, kernel, machine, n int) []cable {
	socket := func(machine, end int) string {
		return filepath.Join(dir, fmt.Sprintf("cable%d.%d.%d", kernel, machine, end))
	}
	out := make([]cable, n)
	for end := range out {
		out[end] = cable{socket(machine, end), socket(1-machine, n-1-end), fmt.Sprintf("02:00:00:00:%02x:%02x", machine+1, end)}
	}
	return out
}

// args are the emulator's. The netdev gets whole frames with checksums, no larger than its MTU: native XDP needs that.
func (c cable) args(n int) []string {
	id := fmt.Sprintf("cable%d", n)
	return []string{
		"-netdev", "dgram,id=" + id + ",local.type=unix,local.path=" + c.local + ",remote.type=unix,remote.path=" + c.remote,
		"-device", "virtio-net-pci,netdev=" + id + ",mac=" + c.mac + ",romfile=,guest_csum=off,guest_tso4=off,guest_tso6=off,guest_ecn=off,guest_ufo=off",
	}
}
