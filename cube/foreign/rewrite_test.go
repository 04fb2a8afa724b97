// SPDX-License-Identifier: Apache-2.0

package foreign

import (
	"bytes"
	"debug/elf"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/polycube/polycube/cube"
)

// both is an object with two maps, two programs and a constant.
func both(t testing.TB) []byte {
	t.Helper()
	object, err := os.ReadFile("../../cubes/dynmon/testdata/both.tc.o")
	if err != nil {
		t.Fatalf("%v (run make generate)", err)
	}
	return object
}

func parsed(t *testing.T, object []byte) *ebpf.CollectionSpec {
	t.Helper()
	if err := Check(map[cube.Hook][]byte{cube.TC: object}); err != nil {
		t.Fatal(err)
	}
	spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(object))
	if err != nil {
		t.Fatal(err)
	}
	return spec
}

func TestMapsFunctionsAndConstantsOfAnObjectAreChanged(t *testing.T) {
	t.Parallel()
	object := both(t)
	original := bytes.Clone(object)
	secret := bytes.Repeat([]byte{7}, 24)
	out, err := Rewrite(object, Changes{Maps: map[string]string{"passed": "passed.i0123456789abcdef", "absent": "x"},
		Functions: map[string]string{"pcn_ingress": "another_function_name"}, Constants: map[string][]byte{"pcn_monitor_secret": secret}})
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(object, original) {
		t.Error("the original has changed")
	}
	before, after := parsed(t, object), parsed(t, out)
	was, is := before.Maps["passed"], after.Maps["passed.i0123456789abcdef"]
	if is == nil || after.Maps["passed"] != nil || after.Maps["all"] == nil || is.MaxEntries != was.MaxEntries || is.Type != was.Type || is.Value == nil {
		t.Errorf("the maps are %v", after.Maps)
	}
	if after.Programs["another_function_name"] == nil || after.Programs["pcn_egress"] == nil || after.Programs["pcn_ingress"] != nil {
		t.Errorf("the programs are %v", after.Programs)
	}
	refers := 0
	for _, ins := range after.Programs["another_function_name"].Instructions {
		if ins.IsLoadFromMap() && ins.Reference() == "passed.i0123456789abcdef" {
			refers++
		}
	}
	if refers == 0 {
		t.Error("the program does not refer to the map by its new name")
	}
	var value []byte
	if v := after.Variables["pcn_monitor_secret"]; v != nil {
		value = v.Value
	}
	if !bytes.Equal(value, secret) {
		t.Errorf("the constant is %x", value)
	}
	f, err := elf.NewFile(bytes.NewReader(out))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range f.Sections {
		if strings.HasPrefix(s.Name, ".debug") && s.Size > 0 {
			t.Errorf("section %s is still there", s.Name)
		}
	}
	twice, err := Rewrite(out, Changes{Maps: map[string]string{"passed.i0123456789abcdef": "passed"}})
	if err != nil || parsed(t, twice).Maps["passed"] == nil {
		t.Errorf("a changed object cannot be changed again: %v", err)
	}
}

func TestWhatCannotBeChanged(t *testing.T) {
	t.Parallel()
	object := both(t)
	noBTF := bytes.ReplaceAll(object, []byte(".BTF\x00"), []byte(".XTF\x00"))
	for name, tt := range map[string]struct {
		object []byte
		c      Changes
		says   string
	}{
		"nothing":               {nil, Changes{}, ""},
		"text":                  {[]byte("hello"), Changes{}, ""},
		"half":                  {object[:len(object)/2], Changes{}, ""},
		"another size":          {object, Changes{Constants: map[string][]byte{"pcn_monitor_secret": {1}}}, "has 24 bytes, not 1"},
		"an object without BTF": {noBTF, Changes{}, "no BTF"},
	} {
		_, err := Rewrite(tt.object, tt.c)
		if !errors.Is(err, ErrRewrite) || !errors.Is(err, cube.ErrInvalid) || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v, want %q", name, err, tt.says)
		}
	}
}

func FuzzRewriteWithoutHarm(f *testing.F) {
	f.Add(both(f))
	f.Fuzz(func(_ *testing.T, object []byte) {
		_, _ = Rewrite(object, Changes{Maps: map[string]string{"passed": "other"}}) // it may refuse, but must return
	})
}
