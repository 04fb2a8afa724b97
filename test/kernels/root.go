// SPDX-License-Identifier: Apache-2.0

package kernels

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// rootPackages are in the root in addition to Debian's essential ones: programs that the product and its tests run, of
// those that scripts/deps.sh installs.
var rootPackages = strings.Fields(`kmod iproute2 ethtool iputils-ping procps tcpdump iperf3 jq nftables
	libyang2 libyang2-tools libbpf1 bpftool util-linux socat curl openssl bird2 openvswitch-switch frr dnsmasq-base
	isc-dhcp-client xz-utils`)

// users are the users that the packages' scripts would have created.
var users = []string{"frr:x:900:900::/nonexistent:/usr/sbin/nologin", "_lldpd:x:901:901::/nonexistent:/usr/sbin/nologin",
	"tcpdump:x:903:903::/nonexistent:/usr/sbin/nologin"}

var groups = []string{"frr:x:900:", "frrvty:x:902:frr", "_lldpd:x:901:", "tcpdump:x:903:"}

// rootSize is the size of the disk. It is sparse: unused space takes no space here.
const rootSize = "3G"

// Root returns the image of the root file system for an architecture, which it creates if it is not in the cache. The
// root with more packages is another one.
func (c *Cache) Root(ctx context.Context, more ...string) (string, error) {
	codename, err := codename()
	if err != nil {
		return "", err
	}
	const recipe = "2" // increase it when the creation of the root changes
	packages := slices.Concat(rootPackages, more)
	key := sha256.Sum256([]byte(strings.Join(slices.Concat([]string{recipe, codename, c.arch, rootSize}, packages, users, groups), "\n")))
	return c.once(fmt.Sprintf("root-%s-%x", c.arch, key[:6]), func(dir string) error { return c.makeRoot(ctx, dir, packages) }, "root.img")
}

func (c *Cache) makeRoot(ctx context.Context, dir string, packages []string) error {
	a, err := c.packages(ctx)
	if err != nil {
		return err
	}
	c.say("fetching the packages of the root (%s)", c.arch)
	debs, err := a.fetch(ctx, append([]string{"?essential"}, packages...)...)
	if err != nil {
		return err
	}
	root := filepath.Join(dir, "root")
	if err := skeleton(root); err != nil {
		return err
	}
	c.say("unpacking %d packages", len(debs))
	for _, deb := range debs {
		if err := unpack(ctx, deb, root); err != nil {
			return err
		}
	}
	if err := finish(root); err != nil {
		return err
	}
	if err := makeDisk(ctx, root, filepath.Join(dir, "root.img"), rootSize); err != nil {
		return err
	}
	return os.RemoveAll(root)
}

// merged are the directories that are links into /usr.
var merged = []string{"bin", "sbin", "lib", "lib64"}

// skeleton contains files that must exist before the first package.
func skeleton(root string) error {
	for _, name := range merged {
		if err := os.MkdirAll(filepath.Join(root, "usr", name), 0o755); err != nil {
			return err
		}
		if err := os.Symlink("usr/"+name, filepath.Join(root, name)); err != nil {
			return err
		}
	}
	for _, name := range []string{"work", "dev", "proc", "sys", "run", "tmp", "root", "etc", "usr/lib/modules", "var/lib/openvswitch", "etc/openvswitch"} {
		if err := os.MkdirAll(filepath.Join(root, name), 0o755); err != nil {
			return err
		}
	}
	return nil
}

// finish does what the scripts of the packages would have done, as far as it is needed here.
func finish(root string) error {
	for name, more := range map[string][]string{"passwd": users, "group": groups} {
		master, err := os.ReadFile(filepath.Join(root, "usr/share/base-passwd", name+".master"))
		if err != nil {
			return err
		}
		text := string(master) + strings.Join(more, "\n") + "\n"
		if err := os.WriteFile(filepath.Join(root, "etc", name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	for name, text := range map[string]string{
		"hosts": "127.0.0.1 localhost polycube\n::1 localhost\n", "hostname": "polycube\n",
		"nsswitch.conf": "passwd: files\ngroup: files\nshadow: files\nhosts: files\n", "resolv.conf": "",
		"machine-id": strings.Repeat("0123456789abcdef", 2) + "\n",
		// FRR's shell uses PAM, and Debian's own files include some that only a package's script creates.
		"pam.d/frr": "auth sufficient pam_rootok.so\naccount sufficient pam_permit.so\n", "pam.d/other": "auth required pam_deny.so\naccount required pam_deny.so\n",
	} {
		if err := os.WriteFile(filepath.Join(root, "etc", name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	awk := filepath.Join(root, "usr/bin/awk")
	if err := os.Remove(awk); err != nil && !os.IsNotExist(err) {
		return err
	}
	return os.Symlink("mawk", awk)
}
