// SPDX-License-Identifier: Apache-2.0

package efw

// What announces no changes, in a form that is cheap to compare. The tables of iptables-legacy are read as iptables does, without
// their counters.

import (
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"os"
	"runtime"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// fingerprints are those of the host at a time.
type fingerprints struct{ legacy, slow string }

// slowFingerprint is about the tracking of connections: whether there are any, and its settings.
func slowFingerprint() string {
	return fmt.Sprint(connections() > 0, " ", setting(netfilter, "", accounting), " ", setting(netfilter, "", udpTimeout))
}

// legacyFamily is where the tables of a family are.
type legacyFamily struct {
	names         string // file with the names of tables
	domain, level int
	// The places in an entry: of the offset of the next one, of the counters, and the length.
	next, counters, entry int
}

var legacyFamilies = [len(families)]legacyFamily{
	{"/proc/thread-self/net/ip_tables_names", unix.AF_INET, unix.SOL_IP, 90, 96, 112},
	{"/proc/thread-self/net/ip6_tables_names", unix.AF_INET6, unix.SOL_IPV6, 142, 152, 168},
}

// The options of sockets that tables are read by: IPT_SO_GET_INFO and IPT_SO_GET_ENTRIES.
const (
	getInfo    = 64
	getEntries = 65
	maxEntries = 64 << 20
)

var seed = maphash.MakeSeed()

// tables returns the names of the tables of iptables-legacy; none if there was never one.
func (l *legacyFamily) tables() []string {
	text, err := os.ReadFile(l.names)
	if err != nil {
		return nil
	}
	return strings.Fields(string(text))
}

// legacyFingerprint is another one after each change of rules of iptables-legacy.
func legacyFingerprint() string {
	var out strings.Builder
	for i := range legacyFamilies {
		l := &legacyFamilies[i]
		for _, table := range l.tables() {
			sum, err := l.sum(table)
			fmt.Fprint(&out, i, " ", table, " ", sum, " ", err, "\n")
		}
	}
	return out.String()
}

// sum returns the hash of a table.
func (l *legacyFamily) sum(table string) (uint64, error) {
	fd, err := unix.Socket(l.domain, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, fmt.Errorf("open a socket to read tables: %w", err)
	}
	defer unix.Close(fd)
	var info [84]byte // struct ipt_getinfo
	copy(info[:31], table)
	if err := getsockopt(fd, l.level, getInfo, info[:]); err != nil {
		return 0, err
	}
	size := binary.NativeEndian.Uint32(info[80:])
	if size > maxEntries {
		return 0, fmt.Errorf("the table %s has %d bytes", table, size)
	}
	all := make([]byte, 40+size) // struct ipt_get_entries
	copy(all[:31], table)
	binary.NativeEndian.PutUint32(all[32:], size)
	if err := getsockopt(fd, l.level, getEntries, all); err != nil {
		return 0, err
	}
	for rest := all[40:]; len(rest) >= l.entry; {
		clear(rest[l.counters : l.counters+16])
		next := int(binary.NativeEndian.Uint16(rest[l.next:]))
		if next < l.entry || next > len(rest) {
			break
		}
		rest = rest[next:]
	}
	return maphash.Bytes(seed, all), nil
}

// getsockopt reads an option of any length.
func getsockopt(fd, level, option int, into []byte) error {
	length := uint32(len(into))
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), uintptr(level), uintptr(option),
		uintptr(unsafe.Pointer(&into[0])), uintptr(unsafe.Pointer(&length)), 0)
	runtime.KeepAlive(into)
	if errno != 0 {
		return fmt.Errorf("read a table: %w", errno)
	}
	return nil
}
