// SPDX-License-Identifier: Apache-2.0

package haproxy

// The statistics of a running HAProxy, from its UNIX socket (`show stat`, section 9.1 of the management guide).

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// ServerName identifies a server of HAProxy.
type ServerName struct{ Backend, Server string }

// ServerStatistics are totals of a server since HAProxy was started.
type ServerStatistics struct {
	// Sessions are connections to the server; Sent and Received are bytes of data to and from it.
	Sessions, Sent, Received uint64
}

// Statistics are those of all servers.
type Statistics map[ServerName]ServerStatistics

// ReadStatistics asks the HAProxy at a UNIX socket.
func ReadStatistics(ctx context.Context, socket string) (Statistics, error) {
	text, err := ask(ctx, socket, "show stat -1 4 -1")
	if err != nil {
		return nil, fmt.Errorf("HAProxy's statistics: %w", err)
	}
	s, err := parseStatistics(text)
	if err != nil {
		return nil, fmt.Errorf("HAProxy's statistics: %w", err)
	}
	return s, nil
}

// errStatistics does not quote what something else has answered.
var errStatistics = errors.New("the answer is not HAProxy's answer to `show stat`")

// parseStatistics parses the CSV of `show stat`, whose first line has the names of its columns.
func parseStatistics(text []byte) (Statistics, error) {
	header, ok := strings.CutPrefix(string(text), "# ")
	if !ok {
		return nil, errStatistics
	}
	r := csv.NewReader(strings.NewReader(header))
	r.ReuseRecord, r.FieldsPerRecord = true, -1
	names, err := r.Read()
	if err != nil {
		return nil, errStatistics
	}
	at := map[string]int{}
	for i, name := range names {
		at[name] = i
	}
	for _, name := range []string{"pxname", "svname", "stot", "bin", "bout"} {
		if _, ok := at[name]; !ok {
			return nil, errStatistics
		}
	}
	out := Statistics{}
	for {
		record, err := r.Read()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, errStatistics
		}
		field := func(name string) string {
			if i := at[name]; i < len(record) {
				return record[i]
			}
			return ""
		}
		number := func(name string) uint64 {
			n, _ := strconv.ParseUint(field(name), 10, 64) // empty: there is none
			return n
		}
		if field("pxname") == "" || field("svname") == "FRONTEND" || field("svname") == "BACKEND" {
			continue
		}
		out[ServerName{strings.Clone(field("pxname")), strings.Clone(field("svname"))}] =
			ServerStatistics{Sessions: number("stot"), Sent: number("bin"), Received: number("bout")}
	}
}
