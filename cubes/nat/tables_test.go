// SPDX-License-Identifier: Apache-2.0

package nat

import (
	"testing"
	"unsafe"

	"github.com/polycube/polycube/test/bpftest"
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

func TestRulesFillTheMaps(t *testing.T) {
	l := bpftest.New(t, bpftest.Options{Hosts: 1})
	l.Create("nat", "n", `{"rule":{"snat":{"entry":[{"id":1,"internal-net":"10.0.0.0/24","external-ip":"203.0.113.1"}]}}}`)
	t.Log(l.Read("n"))
	t.Log(l.Action("n rule port-forwarding append", `{"external-ip":"203.0.113.1","external-port":80,"internal-ip":"10.0.0.1","internal-port":8080}`))
	t.Log(l.Read("n rule"))
	l.Attach("n", "veth1")
	t.Log(l.Action("n rule masquerade enable", ``))
	l.Lab.Run("ip", "addr", "add", "192.0.2.1/24", "dev", "veth1")
	for range 1000 {
		if s := l.Action("n rule masquerade enable", ``); s == `{"result":true}` {
			break
		}
	}
	t.Log(l.Read("n rule"))
	l.Restart(nil)
	t.Log(l.Read("n"))
	l.Set("DELETE", "n rule", "")
	t.Log(l.Read("n"))
}
