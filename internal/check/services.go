// SPDX-License-Identifier: Apache-2.0

package check

// The programs of every service are linked and loaded like those of a cube, and discarded. Nothing else shows whether
// the verifier accepts them.

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath"
	"github.com/polycube/polycube/internal/datapath/link"
	"github.com/polycube/polycube/internal/yang"
)

// services tries each service at each hook for which it has programs; before are the findings so far.
func services(ctx context.Context, m Machine, all bool, before Report) (out []Finding) {
	list, err := m.Services()
	if err != nil {
		return one("services", Unknown, err.Error(), "")
	}
	for _, h := range []cube.Hook{cube.TC, cube.XDP} {
		if slices.ContainsFunc(before, func(f Finding) bool { return f.What == helpersOf(h) && f.Grade == Missing }) {
			continue // already reported, and the reason for refusing every service
		}
		out = append(out, servicesAt(ctx, m, h, list, all)...)
	}
	return out
}

// servicesAt says in one line which services load, and has a finding for each that does not.
func servicesAt(ctx context.Context, m Machine, h cube.Hook, list []datapath.Trial, all bool) (out []Finding) {
	var loaded []string
	for _, t := range list {
		if t.Objects[h] == nil {
			continue
		}
		t.Hooks, t.Brief = []cube.Hook{h}, !all
		report, err := m.Try(ctx, t)
		if errors.Is(err, unix.EPERM) {
			return one(upper(h)+" services", Unknown, "no permission to query the kernel", "run it as root")
		}
		if err != nil {
			out = append(out, refused(h, t.Service, err))
			continue
		}
		most := 0
		for _, l := range report.Loads {
			most = max(most, l.Verified)
		}
		loaded = append(loaded, fmt.Sprintf("%s %d", t.Service, most))
		if report.Untried > 0 {
			out = append(out, Finding{upper(h) + " " + t.Service, Note,
				fmt.Sprintf("%d pairs of constant values were not tried", report.Untried), ""})
		}
	}
	if len(loaded) > 0 {
		first := Finding{upper(h) + " services", OK,
			fmt.Sprintf("%d load; instructions verified: %s", len(loaded), strings.Join(loaded, ", ")), ""}
		out = slices.Insert(out, 0, first)
	}
	return out
}

// refused is the finding for a service that cannot be loaded.
func refused(h cube.Hook, service string, err error) Finding {
	what := upper(h) + " " + service
	var r *datapath.TrialError
	if !errors.As(err, &r) {
		return Finding{what, Unknown, firstLine(err), ""}
	}
	at := "as " + r.At
	if r.Constants != "" {
		at += ", with " + r.Constants
	}
	if r.Mode == link.Inline {
		return Finding{what, Slower, fmt.Sprintf("the kernel refuses it inlined (%s): %s", at, firstLine(r.Err)),
			"none needed: its cubes stay functions, about 10 ns slower each"}
	}
	return Finding{what, Missing, fmt.Sprintf("the kernel refuses it (%s): %s", at, firstLine(r.Err)), newerKernel + "; if it also fails there, report it"}
}

// firstLine is an error without the log that follows.
func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// builtIn are the built-in services.
func builtIn() ([]datapath.Trial, error) {
	var out []datapath.Trial
	for _, s := range cube.Services() {
		schema, err := yang.Load(s.Model)
		if err != nil {
			return nil, fmt.Errorf("the model of a service: %w", err)
		}
		info := schema.Service()
		schema.Close()
		out = append(out, datapath.Trial{Service: info.Name, Objects: s.Objects, Transparent: info.Transparent})
	}
	return out, nil
}
