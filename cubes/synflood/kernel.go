// SPDX-License-Identifier: Apache-2.0

package synflood

// What the kernel does with TCP in the namespace of the daemon, which is that of its netdevs. The files are opened when the
// cube is created, so what they show does not depend on the thread that reads them.

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/bits"
	"os"
	"strconv"
	"strings"
)

// Settings of the kernel, below /proc/sys/net.
const (
	sysctlCookies    = "ipv4/tcp_syncookies"
	sysctlTimestamps = "ipv4/tcp_timestamps"
	sysctlSACK       = "ipv4/tcp_sack"
	sysctlScaling    = "ipv4/tcp_window_scaling"
	sysctlBuffer     = "ipv4/tcp_rmem"
	sysctlLargest    = "core/rmem_max" // of the whole machine: older kernels show it in the first namespace alone
)

var sysctls = []string{sysctlCookies, sysctlTimestamps, sysctlSACK, sysctlScaling, sysctlBuffer, sysctlLargest}

const snmpFile = "/proc/thread-self/net/snmp"

// kernel are the open files.
type kernel struct {
	sysctl map[string]*os.File
	snmp   *os.File
}

// openKernel opens them. A setting that the kernel lacks is not there.
func openKernel() (*kernel, error) {
	k := &kernel{sysctl: map[string]*os.File{}}
	for _, name := range sysctls {
		f, err := os.Open("/proc/sys/net/" + name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("open the kernel's settings: %w", err), k.close())
		}
		k.sysctl[name] = f
	}
	var err error
	if k.snmp, err = os.Open(snmpFile); err != nil {
		return nil, errors.Join(fmt.Errorf("open the kernel's counters: %w", err), k.close())
	}
	return k, nil
}

func (k *kernel) close() error {
	var errs []error
	for _, f := range k.sysctl {
		errs = append(errs, f.Close())
	}
	if k.snmp != nil {
		errs = append(errs, k.snmp.Close())
	}
	return errors.Join(errs...)
}

// read returns the content of a file of /proc.
func read(f *os.File) ([]byte, error) {
	return io.ReadAll(io.NewSectionReader(f, 0, 1<<20))
}

// facts are the settings; -1 for one that the kernel lacks.
type facts struct {
	Cookies, Timestamps, SACK, Scaling int
	Buffer                             [3]int // bytes: smallest, initial and largest receive buffer of a connection
	Largest                            int    // receive buffer that a program may set
}

// facts reads the settings.
func (k *kernel) facts() facts {
	f := facts{Cookies: -1, Timestamps: -1, SACK: -1, Scaling: -1}
	for name, into := range map[string][]*int{
		sysctlCookies: {&f.Cookies}, sysctlTimestamps: {&f.Timestamps}, sysctlSACK: {&f.SACK}, sysctlScaling: {&f.Scaling},
		sysctlBuffer: {&f.Buffer[0], &f.Buffer[1], &f.Buffer[2]}, sysctlLargest: {&f.Largest},
	} {
		file := k.sysctl[name]
		if file == nil {
			continue
		}
		text, err := read(file)
		if err != nil {
			continue
		}
		for i, word := range strings.Fields(string(text)) {
			if n, err := strconv.Atoi(word); err == nil && i < len(into) {
				*into[i] = n
			}
		}
	}
	return f
}

// unavailable says why the kernel does not accept cookies of the programs; "" if it does.
func (f facts) unavailable() string {
	switch f.Cookies {
	case 2:
		return ""
	case -1:
		return "the kernel has no SYN cookies (CONFIG_SYN_COOKIES)"
	}
	return fmt.Sprintf("net.ipv4.tcp_syncookies is %d: set it to 2 (sysctl -w net.ipv4.tcp_syncookies=2)", f.Cookies)
}

// options are the bits of settings.Options. With 1, the kernel adds a secret number of the two addresses to timestamps,
// and would find other options in what the client returns.
func (f facts) options() uint8 {
	if f.Timestamps != 2 {
		return 0
	}
	set := uint8(allowTimestamps)
	if f.SACK == 1 {
		set |= allowSACK
	}
	if f.Scaling == 1 {
		set |= allowScaling
	}
	return set
}

// maxScale is the largest window scale (RFC 7323).
const maxScale = 14

// windowScale is the window scale that the kernel gives a connection whose receive buffer it sizes itself: the one that
// reaches the largest buffer with 16 bits.
func (f facts) windowScale() uint8 {
	return uint8(min(max(bits.Len(uint(max(f.Buffer[2], f.Largest, 1)))-16, 0), maxScale))
}

// window is the first window, which is never scaled: the part of the initial buffer that is for data, by the kernel's
// measure.
func (f facts) window() uint16 {
	if f.Buffer[1] <= 0 {
		return 65535
	}
	return uint16(min(f.Buffer[1]/2, 65535))
}

// counters reads the counters of IP and TCP, by their names: IpInReceives.
func (k *kernel) counters() (map[string]uint64, error) {
	text, err := read(k.snmp)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", snmpFile, err)
	}
	return parseSNMP(text)
}

// parseSNMP reads pairs of lines, one with names and one with numbers, both after the name of the protocol.
func parseSNMP(text []byte) (map[string]uint64, error) {
	out := map[string]uint64{}
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	for i := 0; i+1 < len(lines); i += 2 {
		names, values := strings.Fields(string(lines[i])), strings.Fields(string(lines[i+1]))
		if len(names) == 0 || len(names) != len(values) || names[0] != values[0] {
			return nil, fmt.Errorf("line %d of %s does not match the line before", i+2, snmpFile)
		}
		protocol := strings.TrimSuffix(names[0], ":")
		for j := 1; j < len(names); j++ {
			if n, err := strconv.ParseUint(values[j], 10, 64); err == nil { // MaxConn is -1
				out[protocol+names[j]] = n
			}
		}
	}
	for _, name := range []string{ipReceived, ipDelivered, tcpReceived, tcpSent, tcpFailed, tcpResets} {
		if _, ok := out[name]; !ok {
			return nil, fmt.Errorf("%s has no counter %s", snmpFile, name)
		}
	}
	return out, nil
}
