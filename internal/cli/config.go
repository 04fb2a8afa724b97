// SPDX-License-Identifier: Apache-2.0

// Settings come from the user's file, then the environment, then the command line. The client must also work without
// any of them, and without a writable home directory.

package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"go.yaml.in/yaml/v3"
)

const (
	defaultTimeout = 60 * time.Second
	maxConfig      = 1 << 20
	envPrefix      = "POLYCUBECTL_"
)

// configTemplate is written on the first run: every key is listed but none is set, so that old files do not freeze old
// defaults.
const configTemplate = `# Settings of polycubectl. Without "url", it uses the daemon's Unix socket.
# Environment variables (POLYCUBECTL_URL, ...) override this file.
#debug: false
#expert: true
#url: http://localhost:9000/polycube/v1/
#instance: NAME
#socket: /path/polycubed.sock
#singleparameterworkaround: true
#cacert: /path/ca.pem
#cert: /path/client.pem
#key: /path/client-key.pem
#tokenfile: /path/token
#timeout: 60s
#logfile: /path/polycubectl.log
`

// config is the combination of file, environment and command line.
type config struct {
	debug, expert bool
	singleParam   bool
	url           string
	socket        string
	instance      string
	origin        string // origin of url, socket or instance, for messages
	cacert        string
	cert, key     string
	token         string
	tokenFile     string
	timeout       time.Duration
	logFile       string
	warnings      []string
}

func defaultConfig() config {
	return config{expert: true, singleParam: true, timeout: defaultTimeout}
}

// configPath is empty when the user has no home directory.
func configPath(getenv func(string) string) string {
	home := getenv("HOME")
	if !filepath.IsAbs(home) {
		return ""
	}
	return filepath.Join(home, ".config", "polycube", "polycubectl_config.yaml")
}

// loadConfig reads file and environment; instance is the value of --instance.
func loadConfig(getenv func(string) string, instance string) (config, error) {
	c := defaultConfig()
	if path := configPath(getenv); path != "" {
		if err := c.readFile(path); err != nil {
			return c, fmt.Errorf("configuration file %s: %w", path, err)
		}
	}
	if err := c.applyEnv(getenv); err != nil {
		return c, err
	}
	if instance != "" {
		c.url, c.socket, c.instance, c.origin = "", "", instance, "--instance"
	}
	if c.instance != "" && !validInstance(c.instance) {
		return c, fmt.Errorf("%s: %q is not the name of an instance", c.origin, c.instance)
	}
	return c, nil
}

// validInstance keeps a name from escaping the directory of sockets.
var validInstance = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`).MatchString

func (c *config) readFile(path string) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.ENOTDIR) {
		return nil
	}
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() || info.Size() > maxConfig {
		return errors.New("not a regular file, or too large")
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var settings map[string]yaml.Node
	if err := yaml.Unmarshal(data, &settings); err != nil {
		return err
	}
	for key, node := range settings {
		if node.Kind != yaml.ScalarNode {
			return fmt.Errorf("%s: expected one value", key)
		}
		text := node.Value
		if node.ShortTag() == "!!null" {
			text = ""
		}
		if err := c.set(strings.ToLower(key), text, path); err != nil {
			return err
		}
	}
	return nil
}

// set applies one setting; an empty value leaves the default.
func (c *config) set(key, text, origin string) error {
	targets := map[string]any{
		"debug": &c.debug, "expert": &c.expert, "singleparameterworkaround": &c.singleParam,
		"url": &c.url, "instance": &c.instance, "socket": &c.socket,
		"cacert": &c.cacert, "cert": &c.cert, "key": &c.key,
		"token": &c.token, "tokenfile": &c.tokenFile, "logfile": &c.logFile, "timeout": &c.timeout,
	}
	if text == "" {
		return nil
	}
	if key == "token" && !strings.HasPrefix(origin, envPrefix) {
		return errors.New("token: put the token in a separate file and set tokenfile to its path")
	}
	var err error
	switch target := targets[key].(type) {
	case *bool:
		*target, err = strconv.ParseBool(text)
	case *time.Duration:
		*target, err = time.ParseDuration(text)
		if err == nil && *target <= 0 {
			err = errors.New("not a positive duration")
		}
	case *string:
		*target = text
	default:
		c.warnings = append(c.warnings, fmt.Sprintf("%s: unknown key %q", origin, key))
	}
	if err != nil {
		return fmt.Errorf("%s: %q is not valid: %w", key, text, err)
	}
	switch key {
	case "url", "instance", "socket":
		c.origin = origin
	}
	return nil
}

// applyEnv lets the environment override the file. If it says how to reach the daemon, it replaces everything that the
// file says about that.
func (c *config) applyEnv(getenv func(string) string) error {
	if getenv("POLYCUBECTL_URL")+getenv("POLYCUBECTL_SOCKET")+getenv("POLYCUBECTL_INSTANCE") != "" {
		c.url, c.socket, c.instance = "", "", ""
	}
	for _, key := range []string{"debug", "expert", "cacert", "cert", "key", "token", "tokenfile",
		"timeout", "logfile", "singleparameterworkaround", "instance", "socket", "url"} {
		name := envPrefix + strings.ToUpper(key)
		if err := c.set(key, getenv(name), name); err != nil {
			return fmt.Errorf("environment %s: %w", name, err)
		}
	}
	return nil
}

// createConfig writes a commented file for the user to find. It is a courtesy, so an error is ignored. A home
// directory of another user (sudo that keeps HOME) is left alone.
func createConfig(getenv func(string) string) {
	path := configPath(getenv)
	if path == "" {
		return
	}
	info, err := os.Stat(getenv("HOME"))
	if err != nil {
		return
	}
	if st, ok := info.Sys().(*syscall.Stat_t); !ok || int(st.Uid) != os.Geteuid() {
		return
	}
	if os.MkdirAll(filepath.Dir(path), 0o700) != nil {
		return
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return
	}
	_, err = f.WriteString(configTemplate)
	if errors.Join(err, f.Close()) != nil {
		_ = os.Remove(path)
	}
}
