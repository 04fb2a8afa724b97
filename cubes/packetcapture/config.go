// SPDX-License-Identifier: Apache-2.0

package packetcapture

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/polycube/polycube/cube"
)

// Config is the decoded configuration.
type Config struct {
	Capture     Capture    `json:"capture"`
	Anonimize   bool       `json:"anonimize"`
	Dump        string     `json:"dump"`
	NetworkMode bool       `json:"networkmode"`
	SnapLen     uint32     `json:"snaplen"`
	Filter      string     `json:"filter"`
	Timestamps  Timestamps `json:"timestamps"`
	Rotation    Rotation   `json:"rotation"`
}

// Rotation is the container `rotation`; 0 means no limit.
type Rotation struct {
	// Size is in bytes, Seconds the time between the first packet of a file and of the next one.
	Size    uint64 `json:"size"`
	Seconds uint32 `json:"seconds"`
	// Files is the number of files that are kept.
	Files uint16 `json:"files"`
}

// Capture is the leaf `capture`.
type Capture uint32

// Values of Capture.
const (
	Ingress Capture = iota
	Egress
	Bidirectional
	Off
)

// UnmarshalText parses the model's value.
func (c *Capture) UnmarshalText(text []byte) (err error) {
	*c, err = cube.Enum[Capture]("capture", text, "INGRESS", "EGRESS", "BIDIRECTIONAL", "OFF")
	return err
}

// of reports whether packets of a direction are captured.
func (c Capture) of(d cube.Direction) bool {
	return c == Bidirectional || c == Ingress && d == cube.Ingress || c == Egress && d == cube.Egress
}

// Timestamps is the leaf `timestamps`.
type Timestamps uint32

// Values of Timestamps.
const (
	Microseconds Timestamps = iota
	Nanoseconds
)

// UnmarshalText parses the model's value.
func (t *Timestamps) UnmarshalText(text []byte) (err error) {
	*t, err = cube.Enum[Timestamps]("timestamps", text, "MICROSECONDS", "NANOSECONDS")
	return err
}

// maxSnap is the largest snap length that programs which read files accept.
const maxSnap = 262144

// snap is the snap length.
func (c *Config) snap() uint32 { return min(cmp.Or(c.SnapLen, maxSnap), maxSnap) }

// captures reports whether any packet is captured.
func (c *Config) captures() bool { return c.Capture != Off && c.Filter != "" }

// suffix is that of capture files.
const suffix = ".pcap"

// base is the path of the first file without its suffix; "" if a name is made up.
func (c *Config) base() string {
	if c.Dump == "" {
		return ""
	}
	path := strings.TrimSuffix(c.Dump, suffix)
	if !filepath.IsAbs(path) {
		path = filepath.Join(defaultDir(), path)
	}
	return filepath.Clean(path)
}

// defaultDir is the directory of files whose path is not given.
func defaultDir() string { return os.TempDir() }

// check refuses a path that cannot be one. Whether a directory exists is checked only when the path is set: when a daemon
// restores the cube, its disk may not be mounted yet.
func (c *Config) check(old *Config) error {
	if c.Dump == "" || old == nil || old.Dump == c.Dump {
		return c.checkName()
	}
	if err := c.checkName(); err != nil {
		return err
	}
	dir, err := openParent(c.base())
	if err != nil {
		return fmt.Errorf("dump %q: %w: create the directory, or choose a different one: %w", c.Dump, err, cube.ErrInvalid)
	}
	return dir.Close()
}

func (c *Config) checkName() error {
	name := filepath.Base(strings.TrimSuffix(c.Dump, suffix))
	if c.Dump != "" && (strings.HasSuffix(c.Dump, "/") || name == "." || name == "..") {
		return fmt.Errorf("dump %q: it is a directory: append a file name: %w", c.Dump, cube.ErrInvalid)
	}
	if strings.ContainsRune(c.Dump, 0) {
		return fmt.Errorf("dump %q: contains a NUL character: %w", c.Dump, cube.ErrInvalid)
	}
	if len(name) > maxName {
		return fmt.Errorf("dump %q: the file name has %d characters, but at most %d are allowed: %w", c.Dump, len(name), maxName, cube.ErrInvalid)
	}
	return nil
}

// maxName leaves room for a number and the suffix in the 255 bytes of a name.
const maxName = 230
