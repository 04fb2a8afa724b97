// SPDX-License-Identifier: Apache-2.0

package nat

import (
	"testing"
	"unsafe"
)

func sameSize[A, B any]() bool {
	var a A
	var b B
	return unsafe.Sizeof(a) == unsafe.Sizeof(b)
}

// TestKeysAreThoseOfTheTables: the tables open with the Go types of their keys, which have the offsets of the C structs.
func TestKeysAreThoseOfTheTables(t *testing.T) {
	for name, k := range map[string]struct{ got, want []uintptr }{
		"sourceKey":  {[]uintptr{unsafe.Offsetof(sourceKey{}.Addr), unsafe.Sizeof(sourceKey{})}, []uintptr{4, 20}},
		"forwardKey": {[]uintptr{unsafe.Offsetof(forwardKey{}.Proto), unsafe.Offsetof(forwardKey{}.Port), unsafe.Sizeof(forwardKey{})}, []uintptr{20, 22, 24}},
		"key4":       {[]uintptr{unsafe.Offsetof(key4{}.LocalPort), unsafe.Offsetof(key4{}.Proto), unsafe.Sizeof(key4{})}, []uintptr{8, 12, 16}},
		"key6":       {[]uintptr{unsafe.Offsetof(key6{}.LocalPort), unsafe.Offsetof(key6{}.Proto), unsafe.Sizeof(key6{})}, []uintptr{32, 36, 40}},
	} {
		for i := range k.got {
			if k.got[i] != k.want[i] {
				t.Errorf("%s: offset or size %d is %d, want %d", name, i, k.got[i], k.want[i])
			}
		}
	}
}
