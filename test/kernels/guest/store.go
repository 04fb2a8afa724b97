// SPDX-License-Identifier: Apache-2.0

package guest

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/internal/store"
	"github.com/polycube/polycube/test/kernels/powercut"
)

// ReportPort is the second serial port, to which a machine with a store reports.
const ReportPort = "/dev/ttyS1"

const (
	dataDisk = "/dev/vda"
	// snapshotEvery makes a generation of the store short, so that many power cuts happen at the end of one and the
	// beginning of the next.
	snapshotEvery = 25
)

// Store is the first process of a machine whose power is cut: it opens the store on the only disk, an ext4 file system
// mounted with the given options, reports its contents and commits continuously. It returns only with an error.
func Store(options string) error {
	if err := mountAll("", []mount{{"devtmpfs", "/dev", "devtmpfs", 0, ""}}); err != nil {
		return err
	}
	port, err := openRaw(ReportPort)
	if err != nil {
		return err
	}
	defer port.Close()
	out := &reporter{port: port}
	if err := errors.Join(commitWithoutEnd(options, out), out.err); err != nil {
		out.say(powercut.Report{Error: err.Error()})
		return err
	}
	return nil
}

// openRaw opens a serial port that is a pipe for bytes and nothing else.
func openRaw(port string) (*os.File, error) {
	f, err := os.OpenFile(port, os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	t, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	if err == nil {
		t.Oflag &^= unix.OPOST
		t.Lflag &^= unix.ECHO | unix.ICANON | unix.ISIG
		err = unix.IoctlSetTermios(int(f.Fd()), unix.TCSETS, t)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", port, err), f.Close())
	}
	return f, nil
}

// reporter writes reports, from several goroutines.
type reporter struct {
	mu   sync.Mutex
	port *os.File
	err  error
}

// say returns when the report has left the machine: the disk may keep a writer's next transaction, and the host must
// know the previous ones by then.
func (r *reporter) say(report powercut.Report) {
	r.mu.Lock()
	defer r.mu.Unlock()
	const drain = 1 // tcdrain(3)
	err := json.NewEncoder(r.port).Encode(report)
	r.err = errors.Join(r.err, err, unix.IoctlSetInt(int(r.port.Fd()), unix.TCSBRK, drain))
}

func commitWithoutEnd(options string, out *reporter) error {
	if err := loadEarly(EarlyModules); err != nil {
		return err
	}
	if err := appears(dataDisk); err != nil {
		return err
	}
	if err := mountAll("", []mount{{dataDisk, disk, "ext4", 0, options}}); err != nil {
		return err
	}
	s, state, err := store.Open(store.Options{Dir: disk + "/state", SnapshotEvery: snapshotEvery})
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }() // the machine is powered off anyway
	last, damage := powercut.Read(state.Records)
	opened := powercut.Report{Opened: &last}
	if damage != nil {
		opened.Damage = damage.Error()
	}
	out.say(opened)
	failed := make(chan error)
	for w, n := range last {
		go func() {
			for {
				n++
				if err := s.Commit(powercut.Transaction(w, n)); err != nil {
					failed <- err
					return
				}
				out.say(powercut.Report{Writer: w, Acked: n})
			}
		}()
	}
	return <-failed
}
