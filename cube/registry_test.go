// SPDX-License-Identifier: Apache-2.0

package cube_test

import (
	"errors"
	"testing"
	"testing/fstest"

	"github.com/polycube/polycube/cube"
)

func TestAServiceIsReadFromItsFiles(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	s, err := cube.Service{MaxPorts: 2, Files: fstest.MapFS{"a.yang": file("model"), "a.tc.o": file("tc"), "a.xdp.o": file("xdp"), "b.tc.o": file("other")}}.Read()
	if err != nil || s.Model != "model" || string(s.Objects[cube.TC]) != "tc" || string(s.Objects[cube.XDP]) != "xdp" || len(s.Objects) != 2 || s.MaxPorts != 2 || s.Files != nil {
		t.Errorf("%+v, %v", s, err)
	}
	if s, err = (cube.Service{Files: fstest.MapFS{"a.yang": file("model"), "a.xdp.o": file("xdp")}}).Read(); err != nil || len(s.Objects) != 1 {
		t.Errorf("with one hook: %+v, %v", s, err)
	}
	if s, err = (cube.Service{Model: "model"}).Read(); err != nil || s.Model != "model" {
		t.Errorf("without files: %+v, %v", s, err)
	}
	for what, c := range map[string]struct {
		files fstest.MapFS
		want  error
	}{
		"no model":   {fstest.MapFS{"a.tc.o": file("tc")}, cube.ErrInvalid},
		"two models": {fstest.MapFS{"a.yang": file("model"), "b.yang": file("model"), "a.tc.o": file("tc")}, cube.ErrInvalid},
		"no objects": {fstest.MapFS{"a.yang": file("model"), "b.tc.o": file("tc")}, cube.ErrNotFound},
	} {
		if _, err := (cube.Service{Files: c.files}).Read(); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", what, err, c.want)
		}
	}
}
