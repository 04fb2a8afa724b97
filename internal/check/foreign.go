// SPDX-License-Identifier: Apache-2.0

package check

// A service that is not part of the daemon is checked before it is added, as its author builds it.

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath"
	"github.com/polycube/polycube/internal/yang"
)

// Foreign is a service that is not part of the daemon.
type Foreign struct {
	// Model is the text of the YANG module.
	Model string
	// Objects are the compiled programs by hook.
	Objects map[cube.Hook][]byte
	// Allowed checks what the programs do against the allow-list.
	Allowed func(map[cube.Hook][]byte) error
}

// Service says whether a daemon on this machine accepts a service: the model, what the programs do, and, with the rights
// to load programs, whether the kernel accepts them. A finding that is Refused means that it does not.
func Service(ctx context.Context, m Machine, f Foreign, all bool) Report {
	schema, err := yang.Load(f.Model)
	if err != nil {
		return one("model", Refused, firstLine(err), "")
	}
	defer schema.Close()
	info := schema.Service()
	report := Report(one("model", OK, "service "+info.Name, ""))
	if err := f.Allowed(f.Objects); err != nil {
		return append(report, Finding{"programs", Refused, firstLine(err), ""})
	}
	report = append(report, Finding{"programs", OK, "they do only what services may do", ""})
	for _, h := range []cube.Hook{cube.TC, cube.XDP} {
		if f.Objects[h] == nil {
			continue
		}
		t := datapath.Trial{Service: info.Name, Objects: f.Objects, Transparent: info.Transparent, External: true, Brief: !all, Hooks: []cube.Hook{h}}
		report = append(report, tried(ctx, m, h, t))
	}
	return report
}

// tried loads the programs of a hook.
func tried(ctx context.Context, m Machine, h cube.Hook, t datapath.Trial) Finding {
	what := upper(h) + " programs"
	if has, err := m.Capabilities(); err == nil && has&(1<<unix.CAP_BPF|1<<unix.CAP_SYS_ADMIN) == 0 {
		return Finding{what, Unknown, "no permission to load them", "run it as root"}
	}
	report, err := m.Try(ctx, t)
	var r *datapath.TrialError
	switch {
	case errors.As(err, &r):
		return Finding{what, Refused, strings.TrimSpace(err.Error()), ""}
	case errors.Is(err, cube.ErrInvalid), errors.Is(err, cube.ErrUnsupported), errors.Is(err, cube.ErrFull):
		return Finding{what, Refused, firstLine(err), ""}
	case err != nil:
		return Finding{what, Unknown, firstLine(err), ""}
	}
	most := 0
	for _, l := range report.Loads {
		most = max(most, l.Verified)
	}
	return Finding{what, OK, fmt.Sprintf("the kernel accepts them; at most %d instructions verified in one", most), ""}
}
