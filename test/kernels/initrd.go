// SPDX-License-Identifier: Apache-2.0

package kernels

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/test/kernels/guest"
)

// initrd is the initial RAM disk: the first process, and the modules that reach the disks.
func initrd(init string, modules []string) ([]byte, error) {
	var a archive
	a.add("dev", unix.S_IFDIR|0o755, nil)
	a.add("disk", unix.S_IFDIR|0o755, nil)
	// Output of the first process before it has mounted anything goes here.
	a.device("dev/console", 5, 1)
	program, err := os.ReadFile(init)
	if err != nil {
		return nil, err
	}
	a.add("init", unix.S_IFREG|0o755, program)
	var order strings.Builder
	for _, file := range modules {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		name := filepath.Base(file)
		a.add(name, unix.S_IFREG|0o644, data)
		fmt.Fprintln(&order, "/"+name)
	}
	a.add(strings.TrimPrefix(guest.EarlyModules, "/"), unix.S_IFREG|0o644, []byte(order.String()))
	return a.end(), nil
}

// archive is a cpio archive of the form that the kernel reads: "newc", Documentation/driver-api/early-userspace/buffer-format.rst.
type archive struct {
	out   bytes.Buffer
	files int
}

func (a *archive) add(name string, mode uint32, data []byte) { a.entry(name, mode, 0, 0, data) }

func (a *archive) device(name string, major, minor uint32) {
	a.entry(name, unix.S_IFCHR|0o600, major, minor, nil)
}

func (a *archive) entry(name string, mode, major, minor uint32, data []byte) {
	a.files++
	fmt.Fprintf(&a.out, "070701%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X", a.files, mode, 0, 0, 1, 0, len(data), 0, 0, major, minor, len(name)+1, 0)
	a.out.WriteString(name + "\x00")
	a.pad()
	a.out.Write(data)
	a.pad()
}

func (a *archive) pad() { a.out.Write(make([]byte, -a.out.Len()&3)) }

func (a *archive) end() []byte {
	a.entry("TRAILER!!!", 0, 0, 0, nil)
	return a.out.Bytes()
}
