// SPDX-License-Identifier: Apache-2.0

package access

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/time/rate"

	"github.com/polycube/polycube/internal/nofollow"
)

// The audit log has one line of JSON for each change, and for each refused attempt: who, from where, what, and the
// result. It has no bodies, headers or tokens. A client that is refused all the time can neither fill the disk nor
// displace the records of others: such lines are rate-limited, and omitted ones are counted.

const (
	// auditBytes is the size at which the log is rotated.
	auditBytes = 8 << 20
	// auditKept is the number of rotated logs.
	auditKept = 4
	// Recorded refusals per second, and the burst.
	refusedRate  = 5
	refusedBurst = 100
	// maxAuditPath limits the length of a client's URL in a line.
	maxAuditPath = 1024
)

// Record is one line of the audit log.
type Record struct {
	Time time.Time `json:"time"`
	// Who is the user, the certificate's subject or the token's role.
	Who  string `json:"who"`
	Role string `json:"role"`
	// From is the address, or the process at the Unix socket.
	From string `json:"from"`
	// Certificate is the SHA-256 of the client's certificate, if it presented one.
	Certificate string `json:"certificate,omitempty"`
	Method      string `json:"method,omitempty"`
	Path        string `json:"path,omitempty"`
	// Bytes is how much of the body was read.
	Bytes int64 `json:"bytes"`
	// Status is that of the response; 0 if the connection was refused.
	Status int `json:"status"`
	// Milliseconds is the duration of the request.
	Milliseconds float64 `json:"ms"`
	// Refused is why a client or its request was refused.
	Refused string `json:"refused,omitempty"`
	// Omitted is the number of refusals before this line that were not recorded.
	Omitted int `json:"omitted,omitempty"`
}

// Audit is an open audit log. A nil Audit keeps nothing.
type Audit struct {
	path string
	log  *slog.Logger
	most int64

	mu      sync.Mutex
	file    *os.File
	size    int64
	refused *rate.Limiter
	// latest is the time of the latest refusal. They do not arrive in order of time, and a limiter whose clock goes
	// back grants tokens for the same time twice.
	latest  time.Time
	omitted int
	broken  bool
}

// OpenAudit opens the log, and appends to it.
func OpenAudit(path string, log *slog.Logger) (*Audit, error) {
	a := &Audit{path: path, log: log, most: auditBytes, refused: rate.NewLimiter(refusedRate, refusedBurst)}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("create the audit log's directory: %w", err)
	}
	if err := a.open(); err != nil {
		return nil, err
	}
	return a, nil
}

// open opens a regular file of the daemon that is not a link, and keeps it private.
func (a *Audit) open() error {
	f, err := nofollow.Open(a.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return fmt.Errorf("open the audit log: %w", err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return errors.Join(fmt.Errorf("open the audit log: %w", err), f.Close())
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Nlink != 1 || int(st.Uid) != os.Geteuid() {
		return errors.Join(fmt.Errorf("open the audit log: %s is not a private file of the daemon", a.path), f.Close())
	}
	if st.Mode&0o027 != 0 {
		if err := f.Chmod(0o600); err != nil {
			return errors.Join(fmt.Errorf("make the audit log private: %w", err), f.Close())
		}
	}
	if a.file != nil {
		err = a.file.Close()
	}
	a.file, a.size = f, st.Size
	return err
}

// Reopen opens the file again by its name, after logrotate moved it.
func (a *Audit) Reopen() error {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.open()
}

// Write appends a record. An error is logged in the daemon's log, once until it is over: a full disk must not keep
// anyone from repairing the network.
func (a *Audit) Write(r Record) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if r.Refused != "" {
		if r.Time.After(a.latest) {
			a.latest = r.Time
		}
		if !a.refused.AllowN(a.latest, 1) {
			a.omitted++
			return
		}
	}
	r.Time, r.Omitted = r.Time.UTC().Truncate(time.Microsecond), a.omitted
	if len(r.Path) > maxAuditPath {
		r.Path = clipTo(r.Path, maxAuditPath)
	}
	err := a.append(r)
	switch {
	case err != nil && !a.broken:
		a.log.Error("changes are no longer recorded in the audit log", "err", err)
	case err == nil && a.broken:
		a.log.Info("changes are recorded in the audit log again", "file", a.path)
	}
	if a.broken = err != nil; !a.broken {
		a.omitted = 0
	}
}

func (a *Audit) append(r Record) error {
	line, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("write the audit log: %w", err)
	}
	line = append(line, '\n')
	if a.size > 0 && a.size+int64(len(line)) > a.most {
		if err := a.rotate(); err != nil {
			return err
		}
	}
	n, err := a.file.Write(line)
	a.size += int64(n)
	if err != nil {
		return fmt.Errorf("write the audit log: %w", err)
	}
	return nil
}

// rotate renames the log to .1, that to .2, and so on. Renaming follows no link.
func (a *Audit) rotate() error {
	for i := auditKept; i > 0; i-- {
		from := a.path
		if i > 1 {
			from = fmt.Sprintf("%s.%d", a.path, i-1)
		}
		if err := os.Rename(from, fmt.Sprintf("%s.%d", a.path, i)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("rotate the audit log: %w", err)
		}
	}
	return a.open()
}

// Close closes the log; later records are lost.
func (a *Audit) Close() error {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.file.Close()
}
