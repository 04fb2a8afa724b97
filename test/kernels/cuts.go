// SPDX-License-Identifier: Apache-2.0

package kernels

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/polycube/polycube/test/kernels/powercut"
)

// PowerCuts is a run in which a machine with a store loses its power again and again.
type PowerCuts struct {
	Checkout, Scratch string
	Kernel            Kernel
	// Cuts is the number of power cuts, for each way to mount the file system.
	Cuts int
	// Seed repeats the random choices of a run: the number of requests before a power cut, and which blocks of the
	// disk's cache are lost. The speed of the machine depends on the host, so two runs with one seed are similar,
	// not identical.
	Seed     uint64
	Progress io.Writer
}

// journaling are the ext4 mount options that differ in the order of writes.
var journaling = []string{"data=ordered", "data=writeback", "data=journal"}

// dataSize is the size of the disk with the store, in bytes.
const dataSize = 64 << 20

// CutPower boots a machine that commits to a store on ext4 continuously, and cuts its power at some point; then boots
// it again with the remaining disk contents. An error says which acknowledged change is lost, or is incomplete.
func (c *Cache) CutPower(ctx context.Context, o PowerCuts) (err error) {
	if c.arch != "amd64" {
		return errors.New("power cuts: only machines of amd64 have a second serial port")
	}
	files, err := c.files(ctx, o.Kernel)
	if err != nil {
		return err
	}
	scratch, err := os.MkdirTemp(o.Scratch, "cuts-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	init := filepath.Join(scratch, "guest")
	if err := buildInit(ctx, o.Checkout, init, nil); err != nil {
		return err
	}
	ram, err := initrd(init, files.early)
	if err != nil {
		return err
	}
	b := &cutting{PowerCuts: o, dir: scratch, files: files, r: rand.New(rand.NewPCG(o.Seed, 0))} //nolint:gosec // a test's choices
	if err := os.WriteFile(b.path("initrd"), ram, 0o644); err != nil {
		return err
	}
	if err := b.liar(ctx); err != nil {
		return err
	}
	for _, options := range journaling {
		if err := b.series(ctx, options); err != nil {
			return fmt.Errorf("linux %s, ext4 with %s, seed %d: %w", o.Kernel.Release, options, o.Seed, err)
		}
	}
	return nil
}

// cutting is such a run in progress.
type cutting struct {
	PowerCuts
	dir   string
	files kernelFiles
	r     *rand.Rand
}

func (b *cutting) path(name string) string { return filepath.Join(b.dir, name) }

// newDisk creates a disk with an empty file system.
func (b *cutting) newDisk(ctx context.Context) (*powercut.Disk, error) {
	image := b.path("data.img")
	if err := os.WriteFile(image, make([]byte, dataSize), 0o644); err != nil {
		return nil, err
	}
	if _, err := output(exec.CommandContext(ctx, "mkfs.ext4", "-q", "-F", "-b", fmt.Sprint(powercut.BlockSize), "-E", "lazy_itable_init=0,lazy_journal_init=0", image)); err != nil {
		return nil, err
	}
	data, err := os.ReadFile(image)
	if err != nil {
		return nil, err
	}
	return powercut.NewDisk(data)
}

// liar is the test of the test: data lost by a disk that ignores flushes must be reported as missing.
func (b *cutting) liar(ctx context.Context) error {
	disk, err := b.newDisk(ctx)
	if err != nil {
		return err
	}
	disk.Lies = true
	var l powercut.Ledger
	if err := b.boot(ctx, disk, journaling[0], 400, &l); err != nil {
		return fmt.Errorf("a disk that does not flush: %w", err)
	}
	if l.Total == 0 {
		return errors.New("a disk that does not flush: nothing was acknowledged before the power went")
	}
	disk.Cut(b.r, 0)
	err = b.boot(ctx, disk, journaling[0], untilOpened, &l)
	var lost *lostError
	if !errors.As(err, &lost) {
		return fmt.Errorf("a disk that does not flush lost %d transactions, and nobody noticed: %w", l.Total, err)
	}
	b.say("a disk that does not flush is found out: %v", lost)
	return nil
}

// series cuts the power of one machine again and again.
func (b *cutting) series(ctx context.Context, options string) error {
	disk, err := b.newDisk(ctx)
	if err != nil {
		return err
	}
	var l powercut.Ledger
	start, kept, lost := time.Now(), 0, 0
	for n := range b.Cuts {
		// From the mount of the file system to several generations of the store.
		after := 1 + b.r.IntN(60)
		if b.r.IntN(3) > 0 {
			after = 60 + b.r.IntN(900)
		}
		if err := b.boot(ctx, disk, options, after, &l); err != nil {
			return fmt.Errorf("boot %d, after %d transactions: %w", n, l.Total, err)
		}
		k, d := disk.Cut(b.r, []float64{0, 0.5, 0.9, 1}[b.r.IntN(4)])
		kept, lost = kept+k, lost+d
		if (n+1)%5 == 0 {
			b.say("Linux %s, %s: %d power cuts, %d transactions kept", b.Kernel.Release, options, n+1, l.Total)
		}
	}
	if err := b.boot(ctx, disk, options, untilOpened, &l); err != nil {
		return fmt.Errorf("the last boot, after %d transactions: %w", l.Total, err)
	}
	if l.Total < b.Cuts || lost == 0 {
		return fmt.Errorf("only %d transactions in %d boots, and %d blocks lost: this shows nothing", l.Total, b.Cuts, lost)
	}
	b.say("Linux %s, %s: all of %d acknowledged transactions outlived %d power cuts, and %d more that were under way; of what was not flushed, %d blocks were lost and %d kept; %.0f s",
		b.Kernel.Release, options, l.Total, b.Cuts, l.Extra, lost, kept, time.Since(start).Seconds())
	return nil
}

func (b *cutting) say(format string, args ...any) {
	fmt.Fprintf(b.Progress, "kernels: "+format+"\n", args...)
}

const (
	// untilOpened, instead of a number of requests, has a boot end when the store is open.
	untilOpened = -1
	// cutWithin is the maximum time from boot to the power cut.
	cutWithin = 5 * time.Minute
)

// lostError says that a machine's data differs from what it had acknowledged.
type lostError struct{ error }

// boot boots the machine and kills it when its disk has answered a number of writes and flushes.
func (b *cutting) boot(ctx context.Context, disk *powercut.Disk, options string, after int, l *powercut.Ledger) (err error) {
	ctx, kill := context.WithTimeoutCause(ctx, cutWithin, fmt.Errorf("no power cut within %v", cutWithin))
	defer kill()
	data, err := net.Listen("unix", b.path("disk"))
	if err != nil {
		return err
	}
	defer data.Close()
	reports, err := net.Listen("unix", b.path("reports"))
	if err != nil {
		return err
	}
	defer reports.Close()
	off := disk.CutAfter(after)
	served, ended, said := make(chan error, 1), make(chan error, 1), make(chan error, 1)
	go func() { served <- accepted(data, disk.Serve) }()
	go func() {
		said <- accepted(reports, func(conn net.Conn) error { return b.judge(conn, l, after == untilOpened) })
	}()
	go func() {
		_, err := emulate(ctx, b.dir, b.args(options))
		ended <- err
	}()
	// The machine ends by itself only on an error, which is on its console.
	var endErr error
	gone := false
	select {
	case <-off:
	case err = <-said:
		said <- nil
		if gone = err == nil && after != untilOpened; gone {
			endErr = <-ended
		}
	case err = <-served: // the disk is never let go
		served <- nil
		err = fmt.Errorf("the emulator let go of the disk: %w", cmp.Or(err, io.EOF))
	case endErr = <-ended:
		gone = true
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	kill()
	if !gone {
		endErr = <-ended // killed
	}
	data.Close()
	reports.Close()
	if serveErr := <-served; gone { // otherwise its client was killed
		err = errors.Join(err, serveErr)
	}
	err = errors.Join(err, <-said)
	return b.verdict(err, gone, endErr)
}

// accepted serves the first connection. If the listener is closed before, that is no error: the emulator says why.
func accepted(l net.Listener, serve func(net.Conn) error) error {
	conn, err := l.Accept()
	if err != nil {
		return nil
	}
	defer conn.Close()
	return serve(conn)
}

// judge reads a machine's frames until it is off, or has reported its data.
func (b *cutting) judge(conn net.Conn, l *powercut.Ledger, untilOpened bool) error {
	lines := bufio.NewScanner(conn)
	for lines.Scan() {
		var r powercut.Report
		switch err := json.Unmarshal(lines.Bytes(), &r); {
		case err != nil:
			continue // cut short by the power; the numbers show whether one is missing before the end
		case r.Error != "":
			return errors.New(r.Error)
		case r.Opened != nil && r.Damage != "":
			return &lostError{errors.New(r.Damage)}
		case r.Opened != nil:
			if err := l.Opened(*r.Opened); err != nil {
				return &lostError{err}
			}
			if untilOpened {
				return nil
			}
		default:
			if err := l.Acked(r.Writer, r.Acked); err != nil {
				return err
			}
		}
	}
	return nil
}

// args is the emulator's command line. The disk's blocks are written whole, as those of real disks are.
func (b *cutting) args(options string) []string {
	block := fmt.Sprint(powercut.BlockSize)
	return append(emulator("amd64", b.files, b.path("initrd")), "-smp", "1", "-m", "256",
		"-blockdev", "driver=nbd,node-name=data,server.type=unix,server.path="+b.path("disk"),
		"-device", "virtio-blk-pci,drive=data,write-cache=on,logical_block_size="+block+",physical_block_size="+block,
		"-serial", "file:"+b.path("console"), "-chardev", "socket,id=reports,path="+b.path("reports"), "-serial", "chardev:reports",
		"-append", commandLine("amd64")+" -- store "+options)
}

// verdict adds the end of the console to an error, and finds complaints of the kernel.
func (b *cutting) verdict(err error, gone bool, endErr error) error {
	data, readErr := os.ReadFile(b.path("console"))
	text := strings.ReplaceAll(string(data), "\r", "")
	switch {
	case readErr != nil:
		return errors.Join(err, endErr, readErr)
	case err == nil && gone:
		err = errors.Join(errors.New("the machine went off by itself"), endErr)
	case err == nil && (complaints.MatchString(text) || strings.Contains(text, "EXT4-fs error")):
		err = errors.New("its kernel complains")
	case err == nil:
		return nil
	}
	return fmt.Errorf("%w; the end of its console:\n%s", err, lastLines(text, 20))
}
