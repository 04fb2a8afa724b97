// SPDX-License-Identifier: Apache-2.0

package haproxy

// What a running HAProxy has been told over its UNIX socket: weights, and servers in maintenance or draining (`show servers state`,
// section 9.3 of the management guide).

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

const (
	// answerTimeout is how long HAProxy may take for an answer.
	answerTimeout = 500 * time.Millisecond
	// maxAnswer is how long that may be.
	maxAnswer = 16 << 20
	// maxWeight is the largest weight of a server.
	maxWeight = 256
)

// ask sends a command to the HAProxy at a UNIX socket, and returns the answer.
func ask(ctx context.Context, socket, command string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	deadline, _ := ctx.Deadline()
	if err := conn.SetDeadline(deadline); err != nil {
		return nil, err
	}
	if _, err := io.WriteString(conn, command+"\n"); err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(conn, maxAnswer+1))
	if err == nil && len(text) > maxAnswer {
		err = fmt.Errorf("the answer is longer than %d bytes", maxAnswer)
	}
	return text, err
}

// Running is how a running HAProxy uses a server, whatever its health.
type Running struct {
	// Maintenance says that it gets no connections, Draining that it gets no new ones.
	Maintenance, Draining bool
	// Weight is from 0 to 256; 0: no new connections.
	Weight int
}

// Bits of srv_admin_state: those by which a server is in maintenance, apart from that of the configuration alone, and those by
// which it drains.
const (
	adminMaintenance = 0x01 | 0x02 | 0x20
	adminDraining    = 0x08 | 0x10
)

// ReadRunning asks the HAProxy at a UNIX socket how it uses its servers.
func ReadRunning(ctx context.Context, socket string) (map[ServerName]Running, error) {
	text, err := ask(ctx, socket, "show servers state")
	if err != nil {
		return nil, fmt.Errorf("HAProxy's servers: %w", err)
	}
	all, err := parseRunning(text)
	if err != nil {
		return nil, fmt.Errorf("HAProxy's servers: %w", err)
	}
	return all, nil
}

// errRunning does not quote what something else has answered.
var errRunning = errors.New("the answer is not HAProxy's answer to `show servers state`")

// parseRunning parses the answer: a line with the version of the format, one with the names of columns, and one for each server.
func parseRunning(text []byte) (map[ServerName]Running, error) {
	lines := bufio.NewScanner(bytes.NewReader(text))
	if !lines.Scan() || strings.TrimSpace(lines.Text()) != "1" || !lines.Scan() {
		return nil, errRunning
	}
	header, ok := strings.CutPrefix(lines.Text(), "# ")
	if !ok {
		return nil, errRunning
	}
	at := map[string]int{}
	for i, name := range strings.Fields(header) {
		at[name] = i
	}
	last := 0
	for _, name := range []string{"be_name", "srv_name", "srv_admin_state", "srv_uweight"} {
		i, ok := at[name]
		if !ok {
			return nil, errRunning
		}
		last = max(last, i)
	}
	out := map[ServerName]Running{}
	for lines.Scan() {
		record := strings.Fields(lines.Text())
		if len(record) == 0 {
			continue
		}
		if len(record) <= last {
			return nil, errRunning
		}
		admin, errAdmin := strconv.ParseUint(record[at["srv_admin_state"]], 10, 16)
		weight, errWeight := strconv.ParseUint(record[at["srv_uweight"]], 10, 16)
		if errAdmin != nil || errWeight != nil || weight > maxWeight {
			return nil, errRunning
		}
		out[ServerName{record[at["be_name"]], record[at["srv_name"]]}] = Running{
			Maintenance: admin&adminMaintenance != 0, Draining: admin&adminDraining != 0, Weight: int(weight),
		}
	}
	if lines.Err() != nil {
		return nil, errRunning
	}
	return out, nil
}
