// SPDX-License-Identifier: Apache-2.0

package efw

// Fingerprints of state whose changes are not notified, cheap to compare. The tables of iptables-legacy are read as iptables does,
// without their counters.

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"os"
	"runtime"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// slowFingerprint is about connection tracking: whether there are any connections, and its settings.
func slowFingerprint() string {
	return fmt.Sprint(connections() > 0, " ", setting(netfilter, "", accounting), " ", setting(netfilter, "", udpTimeout))
}

// legacyFamily says where the tables of a family are.
type legacyFamily struct {
	names         string // file with the names of tables
	domain, level int
	// Offsets in an entry: of the next entry's offset and of the counters; and its length.
	next, counters, entry int
}

var legacyFamilies = [len(families)]legacyFamily{
	{"/proc/thread-self/net/ip_tables_names", unix.AF_INET, unix.SOL_IP, 90, 96, 112},
	{"/proc/thread-self/net/ip6_tables_names", unix.AF_INET6, unix.SOL_IPV6, 142, 152, 168},
}

// The socket options for reading tables: IPT_SO_GET_INFO and IPT_SO_GET_ENTRIES.
const (
	getInfo    = 64
	getEntries = 65
	maxEntries = 64 << 20
	maxNames   = 4096
)

var seed = maphash.MakeSeed()

// tables returns the names of the iptables-legacy tables; none if there never was one.
func (l *legacyFamily) tables() []string {
	text, err := os.ReadFile(l.names)
	if err != nil {
		return nil
	}
	return strings.Fields(string(text))
}

// legacyReader polls the tables of a namespace. The files and sockets that it opened belong to this namespace, wherever it is called.
type legacyReader struct {
	// visit calls functions in the namespace.
	visit    func(func() error) error
	families [len(families)]familyReader
}

// familyReader is that of one family.
type familyReader struct {
	*legacyFamily
	socket int // -1: the host does not have the family
	names  int // file with the names, -1: there were no tables yet
	buffer []byte
	text   string // what is in the file, and the tables that it names
	tables []legacyTable
}

// legacyTable is what was last seen of a table.
type legacyTable struct {
	name string
	// image has the bytes as the kernel last wrote them: struct ipt_get_entries, whose size fits. The kernel does not write what
	// is behind a name, which stays as it was.
	image []byte
	sum   uint64
	err   string
}

// newLegacyReader opens the sockets of the namespace.
func newLegacyReader(visit func(func() error) error) (*legacyReader, error) {
	r := &legacyReader{visit: visit}
	for f := range r.families {
		r.families[f] = familyReader{legacyFamily: &legacyFamilies[f], socket: -1, names: -1, buffer: make([]byte, maxNames)}
	}
	err := visit(func() error {
		for f := range r.families {
			fd, err := unix.Socket(r.families[f].domain, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
			if errors.Is(err, unix.EAFNOSUPPORT) {
				continue
			}
			if err != nil {
				return fmt.Errorf("open a socket to read tables: %w", err)
			}
			r.families[f].socket = fd
		}
		return nil
	})
	if err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

// close releases the namespace.
func (r *legacyReader) close() {
	for f := range r.families {
		r.families[f].forget()
		if r.families[f].socket >= 0 {
			unix.Close(r.families[f].socket)
		}
	}
}

// look reports whether a table of any family has changed since it was last asked.
func (r *legacyReader) look() (changed bool) {
	for f := range r.families {
		if r.families[f].socket >= 0 && r.families[f].look(r.visit) {
			changed = true
		}
	}
	return changed
}

func (f *familyReader) look(visit func(func() error) error) bool {
	changed := f.list(visit)
	for i := range f.tables {
		t := &f.tables[i]
		sum, err := f.sum(t)
		is := ""
		if err != nil {
			is = err.Error()
		}
		if sum != t.sum || is != t.err {
			t.sum, t.err, changed = sum, is, true
		}
	}
	return changed
}

// list updates the list of tables, and reports whether it has changed. Opening the file each time would take ten times as long as
// all the rest.
func (f *familyReader) list(visit func(func() error) error) (changed bool) {
	if f.names < 0 {
		// The kernel refuses to write nothing. Without support for tables, such as a module that is not loaded, it knows no such option.
		if err := getsockopt(f.socket, f.level, getEntries, nil); errors.Is(err, unix.ENOPROTOOPT) {
			return false
		}
		_ = visit(func() (err error) {
			f.names, err = unix.Open(f.legacyFamily.names, unix.O_RDONLY|unix.O_CLOEXEC, 0)
			return err
		})
		if f.names < 0 {
			return false
		}
	}
	n, err := pread(f.names, f.buffer)
	if err != nil { // the module is gone
		changed = f.text != ""
		f.forget()
		return changed
	}
	if string(f.buffer[:n]) == f.text {
		return false
	}
	f.text = string(f.buffer[:n])
	f.tables = nil
	for _, name := range strings.Fields(f.text) {
		f.tables = append(f.tables, legacyTable{name: name})
	}
	return true
}

// forget closes the file with the names.
func (f *familyReader) forget() {
	if f.names >= 0 {
		unix.Close(f.names)
	}
	f.names, f.text, f.tables = -1, "", nil
}

// sum returns the hash of a table. The kernel's copy takes half a microsecond per rule, all the rest together a few.
func (f *familyReader) sum(t *legacyTable) (uint64, error) {
	err := f.read(t)
	if errors.Is(err, unix.EAGAIN) { // its size has changed
		if err = f.size(t); err == nil {
			err = f.read(t)
		}
	}
	if err != nil {
		return 0, err
	}
	for rest := t.image[headBytes:]; len(rest) >= f.entry; {
		clear(rest[f.counters : f.counters+16])
		next := int(binary.NativeEndian.Uint16(rest[f.next:]))
		if next < f.entry || next > len(rest) {
			break
		}
		rest = rest[next:]
	}
	return maphash.Bytes(seed, t.image), nil
}

// headBytes is the length of struct ipt_get_entries without entries.
const headBytes = 40

// size queries the size of a table. The kernel creates a table that does not exist, so only those that it has listed are queried.
func (f *familyReader) size(t *legacyTable) error {
	var info [84]byte // struct ipt_getinfo
	copy(info[:31], t.name)
	if err := getsockopt(f.socket, f.level, getInfo, info[:]); err != nil {
		return err
	}
	size := binary.NativeEndian.Uint32(info[80:])
	if size > maxEntries {
		return fmt.Errorf("table %s is too large: %d bytes", t.name, size)
	}
	if len(t.image) != int(headBytes+size) {
		t.image = make([]byte, headBytes+size)
	}
	return nil
}

// read reads a table: EAGAIN if its size has changed.
func (f *familyReader) read(t *legacyTable) error {
	if t.image == nil {
		return unix.EAGAIN
	}
	clear(t.image[:headBytes])
	copy(t.image[:31], t.name)
	binary.NativeEndian.PutUint32(t.image[32:], uint32(len(t.image)-headBytes))
	return getsockopt(f.socket, f.level, getEntries, t.image)
}

// shortRead is the size of an image that the kernel writes in less time than the scheduler of Go takes to note that a thread is in the
// kernel, for which it wakes up another one.
const shortRead = 32 << 10

// getsockopt reads an option of any length.
func getsockopt(fd, level, option int, into []byte) error {
	length := uint32(len(into))
	call := unix.Syscall6
	if length <= shortRead {
		call = unix.RawSyscall6
	}
	_, _, errno := call(unix.SYS_GETSOCKOPT, uintptr(fd), uintptr(level), uintptr(option),
		uintptr(unsafe.Pointer(unsafe.SliceData(into))), uintptr(unsafe.Pointer(&length)), 0)
	runtime.KeepAlive(into)
	if errno != 0 {
		return fmt.Errorf("read a table: %w", errno)
	}
	return nil
}

// pread reads the beginning of a short file of the kernel.
func pread(fd int, into []byte) (int, error) {
	n, _, errno := unix.RawSyscall6(unix.SYS_PREAD64, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(into))), uintptr(len(into)), 0, 0, 0)
	runtime.KeepAlive(into)
	if errno != 0 {
		return 0, fmt.Errorf("read the table names: %w", errno)
	}
	return int(n), nil
}
