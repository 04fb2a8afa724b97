// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/vishvananda/netlink"
)

// Quiet keeps the host's stack from sending on a helper netdev: no IPv6, no ARP. On a kernel without IPv6 there is
// nothing to switch off.
func Quiet(name string) error {
	if err := CheckName(name); err != nil {
		return err
	}
	for file, value := range map[string]string{"addr_gen_mode": "1", "disable_ipv6": "1"} {
		err := os.WriteFile(filepath.Join("/proc/sys/net/ipv6/conf", name, file), []byte(value), 0)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("netdev %s: %w", name, err)
		}
	}
	link, err := netlink.LinkByName(name)
	if err != nil {
		return fmt.Errorf("netdev %s: %w", name, err)
	}
	if err := netlink.LinkSetARPOff(link); err != nil {
		return fmt.Errorf("netdev %s: ARP off: %w", name, err)
	}
	return nil
}
