// SPDX-License-Identifier: Apache-2.0

// Offloads of a device are switched by ioctls: a few have separate commands; all have a name, whose position in a list
// is the position of a bit in blocks of 32. The running kernel determines the length of list and blocks.

package netdev

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// errFixed is an active offload that the device does not allow switching.
var errFixed = errors.New("the device does not allow switching it off")

const (
	// featureSet is ETH_SS_FEATURES, the number of the list of names.
	featureSet = 4
	// featureName is ETH_GSTRING_LEN, the size of each name.
	featureName = 32
	// maxFeatures limits the lengths accepted from the kernel.
	maxFeatures = 4096
)

// featureBlock is struct ethtool_get_features_block: 32 offloads.
type featureBlock struct{ Available, Requested, Active, NeverChanged uint32 }

// featureWish is struct ethtool_set_features_block.
type featureWish struct{ Valid, Requested uint32 }

// features are the offloads of a device at one moment.
type features struct {
	names  []string
	blocks []featureBlock
}

// switchOff switches off the named offloads that are on, and returns them. A name that this kernel does not have is
// off. If one is on and fixed, the error is errFixed; the others are switched anyway.
func switchOff(dev string, names []string) (changed []string, err error) {
	f, err := readFeatures(dev)
	if err != nil {
		return nil, err
	}
	wishes, wanted, err := f.off(names)
	if len(wanted) == 0 {
		return nil, prefixed(dev, err)
	}
	if err := writeFeatures(dev, wishes); err != nil {
		return nil, err
	}
	// The kernel may accept a request that the device then ignores.
	now, readErr := readFeatures(dev)
	if readErr != nil {
		return nil, errors.Join(prefixed(dev, err), readErr)
	}
	for _, name := range wanted {
		if now.active(name) {
			err = errors.Join(err, fmt.Errorf("%s is still on after it was switched off", name))
			continue
		}
		changed = append(changed, name)
	}
	return changed, prefixed(dev, err)
}

// switchOn switches on the named offloads that are off and that the device has.
func switchOn(dev string, names []string) error {
	if len(names) == 0 {
		return nil
	}
	f, err := readFeatures(dev)
	if err != nil {
		return err
	}
	wishes := make([]featureWish, len(f.blocks))
	for _, name := range names {
		block, bit, ok := f.find(name)
		if !ok || f.blocks[block].Active&bit != 0 {
			continue
		}
		wishes[block].Valid |= bit
		wishes[block].Requested |= bit
	}
	return writeFeatures(dev, wishes)
}

func prefixed(dev string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", dev, err)
}

// off builds the request that switches off the named offloads, and returns which of them are on and can be switched.
func (f features) off(names []string) (wishes []featureWish, wanted []string, err error) {
	wishes = make([]featureWish, len(f.blocks))
	for _, name := range names {
		block, bit, ok := f.find(name)
		if !ok || f.blocks[block].Active&bit == 0 {
			continue
		}
		if b := f.blocks[block]; b.Available&bit == 0 || b.NeverChanged&bit != 0 {
			err = errors.Join(err, fmt.Errorf("%s: %w", name, errFixed))
			continue
		}
		wishes[block].Valid |= bit
		wanted = append(wanted, name)
	}
	return wishes, wanted, err
}

// find returns the position of an offload's bit.
func (f features) find(name string) (block int, bit uint32, ok bool) {
	i := slices.Index(f.names, name)
	if i < 0 || i/32 >= len(f.blocks) {
		return 0, 0, false
	}
	return i / 32, 1 << (i % 32), true
}

func (f features) active(name string) bool {
	block, bit, ok := f.find(name)
	return ok && f.blocks[block].Active&bit != 0
}

func readFeatures(dev string) (features, error) {
	names, err := featureNames(dev)
	if err != nil {
		return features{}, err
	}
	n := (len(names) + 31) / 32
	// struct ethtool_gfeatures: the command, the number of blocks, the blocks.
	buf := make([]byte, 8+n*int(unsafe.Sizeof(featureBlock{})))
	binary.NativeEndian.PutUint32(buf[4:], uint32(n))
	if err := ethtoolBytes(dev, unix.ETHTOOL_GFEATURES, buf); err != nil {
		return features{}, err
	}
	f := features{names: names, blocks: make([]featureBlock, n)}
	if _, err := binary.Decode(buf[8:], binary.NativeEndian, f.blocks); err != nil {
		return features{}, fmt.Errorf("%s: offloads: %w", dev, err)
	}
	return f, nil
}

// writeFeatures requests changes. It is not an error if the device ignores one: the resulting state decides.
func writeFeatures(dev string, wishes []featureWish) error {
	buf := make([]byte, 8, 8+len(wishes)*int(unsafe.Sizeof(featureWish{})))
	binary.NativeEndian.PutUint32(buf[4:], uint32(len(wishes)))
	buf, err := binary.Append(buf, binary.NativeEndian, wishes)
	if err != nil {
		return fmt.Errorf("%s: offloads: %w", dev, err)
	}
	return ethtoolBytes(dev, unix.ETHTOOL_SFEATURES, buf)
}

// featureNames are the names of all offloads, in the order of their bits; unused bits have an empty one.
func featureNames(dev string) ([]string, error) {
	// struct ethtool_sset_info: the command, padding, a mask of the requested lists, and the length of each.
	info := make([]byte, 20)
	binary.NativeEndian.PutUint64(info[8:], 1<<featureSet)
	if err := ethtoolBytes(dev, unix.ETHTOOL_GSSET_INFO, info); err != nil {
		return nil, err
	}
	n := binary.NativeEndian.Uint32(info[16:])
	if binary.NativeEndian.Uint64(info[8:]) != 1<<featureSet || n == 0 || n > maxFeatures {
		return nil, fmt.Errorf("%s: the kernel reports %d names of offloads", dev, n)
	}
	// struct ethtool_gstrings: the command, the list, its length, the names. The kernel writes as many as it has.
	buf := make([]byte, 12+int(n)*featureName)
	binary.NativeEndian.PutUint32(buf[4:], featureSet)
	binary.NativeEndian.PutUint32(buf[8:], n)
	if err := ethtoolBytes(dev, unix.ETHTOOL_GSTRINGS, buf); err != nil {
		return nil, err
	}
	names := make([]string, n)
	for i := range names {
		name, _, _ := bytes.Cut(buf[12+i*featureName:][:featureName], []byte{0})
		names[i] = string(name)
	}
	return names, nil
}

// setFeature switches an offload that has a separate command and reads it back, because the kernel may accept a
// request that the device then ignores.
func setFeature(dev string, set, get uint32, on bool) error {
	value := uint32(0)
	if on {
		value = 1
	}
	if _, err := ethtool(dev, set, value); err != nil {
		return err
	}
	is, err := feature(dev, get)
	if err == nil && is != on {
		err = fmt.Errorf("%s: ethtool command %#x has no effect", dev, set)
	}
	return err
}

func feature(dev string, get uint32) (bool, error) {
	v, err := ethtool(dev, get, 0)
	return v != 0, err
}

// ethtool runs a command with one number as input and output, struct ethtool_value.
func ethtool(dev string, cmd, data uint32) (uint32, error) {
	value := make([]byte, 8)
	binary.NativeEndian.PutUint32(value[4:], data)
	err := ethtoolBytes(dev, cmd, value)
	return binary.NativeEndian.Uint32(value[4:]), err
}

// ethtoolBytes runs a command on a struct that starts with the command's number.
func ethtoolBytes(dev string, cmd uint32, value []byte) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("socket: %w", err)
	}
	defer func() { _ = unix.Close(fd) }() // nothing was written
	binary.NativeEndian.PutUint32(value, cmd)
	ifreq := struct {
		name [unix.IFNAMSIZ]byte
		data unsafe.Pointer
		_    [16]byte
	}{data: unsafe.Pointer(&value[0])}
	copy(ifreq.name[:unix.IFNAMSIZ-1], dev)
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&ifreq)))
	runtime.KeepAlive(value)
	if errno != 0 {
		return fmt.Errorf("%s: ethtool command %#x: %w", dev, cmd, os.NewSyscallError("ioctl", errno))
	}
	return nil
}
