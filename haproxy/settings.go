// SPDX-License-Identifier: Apache-2.0

package haproxy

// What the lines of a proxy say together: later lines replace earlier ones, and those of defaults come first.

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// bound is an address of a line `bind`.
type bound struct {
	at Position
	endpoint
}

// settings are what holds for a proxy.
type settings struct {
	mode      setting
	balance   setting
	backends  setting // default_backend
	disabled  *Position
	httpCheck *httpCheck
	checkKind string // the option that says how servers are checked; "": a connection
	binds     []bound
	servers   []serverConf
	base      serverConf
	timeouts  map[string]time.Duration
	options   map[string]Reason
	logs      []Reason
	reasons   []Reason
}

// setting is a value that the last line decides.
type setting struct {
	at    Position
	value string
}

// httpCheck is how servers are checked by HTTP.
type httpCheck struct {
	method, path, host, status string
	asked, sends, expects      bool // by arguments of option httpchk, http-check send, and http-check expect
}

// newHTTPCheck is a check with HAProxy's defaults.
func newHTTPCheck() *httpCheck { return &httpCheck{method: "OPTIONS", path: "/", status: "200-399"} }

// read returns what the lines of a section say for some sides.
func (s *section) read(want sides) *settings {
	is := &settings{mode: setting{s.at, "tcp"}, balance: setting{s.at, "roundrobin"}, base: newServerConf(), timeouts: map[string]time.Duration{}, options: map[string]Reason{}}
	for _, l := range s.effective() {
		if why := is.take(&l, want); why != "" {
			is.reasons = append(is.reasons, Reason{Position: l.at, Text: why})
		}
	}
	for _, r := range is.options {
		is.reasons = append(is.reasons, r)
	}
	is.reasons = append(is.reasons, is.logs...)
	return is
}

// take takes a line. The result says why it prevents a takeover; empty if it does not, or not by itself.
func (is *settings) take(l *line, want sides) string {
	name := l.arg(0)
	where, known := whereOf(l)
	if known && where&want == 0 {
		return "" // of the other side
	}
	if l.depends() {
		return printable(name) + ": the value depends on an environment variable"
	}
	if err := is.read(l, name); err != nil {
		return err.Error()
	}
	return ""
}

// readable are the keywords that settings.read reads, and the sides that they count in.
var readable = map[string]sides{
	"mode": both, "balance": back, "default_backend": front, "bind": front, "server": back, "default-server": back, "timeout": both, "http-check": back,
	"no": both, "default": both,
}

// whereOf returns the sides that a line counts in.
func whereOf(l *line) (sides, bool) {
	name := l.arg(0)
	if (name == "no" || name == "default") && l.arg(1) == "option" {
		return whereOfOption(l.arg(2))
	}
	if name == "option" {
		return whereOfOption(l.arg(1))
	}
	if where, ok := readable[name]; ok {
		return where, true
	}
	r, ok := keywords[name]
	return r.where, ok
}

func whereOfOption(name string) (sides, bool) {
	if name == "httpchk" || name == "tcp-check" {
		return back, true
	}
	r, ok := options[name]
	return r.where, ok
}

// read reads a line.
func (is *settings) read(l *line, name string) (err error) {
	value := l.arg(1)
	switch name {
	case "mode":
		is.mode = setting{l.at, value}
	case "balance":
		is.balance = setting{l.at, value}
	case "default_backend":
		is.backends = setting{l.at, value}
	case "disabled":
		at := l.at
		is.disabled = &at
	case "enabled":
		is.disabled = nil
	case "bind":
		err = is.bind(l)
	case "server":
		var s serverConf
		if s, err = parseServer(l, &is.base); err == nil {
			is.servers = append(is.servers, s)
		}
	case "default-server":
		err = is.base.parameters(l, 1)
	case "timeout":
		var t time.Duration
		if t, err = parseTime(l.arg(2)); err == nil {
			is.timeouts[value] = t
		}
	case "option":
		return is.option(l)
	case "http-check":
		return is.readHTTPCheck(l)
	case "no", "default":
		return is.without(l)
	default:
		return is.keyword(l, name)
	}
	if err != nil && name != "server" { // which names the server
		err = fmt.Errorf("%s: %w", name, err)
	}
	return err
}

// keyword takes a keyword that is not read.
func (is *settings) keyword(l *line, name string) error {
	r, ok := keywords[name]
	switch {
	case !ok:
		return fmt.Errorf("%s: unknown keyword", printable(name))
	case r.verdict == prevents:
		return fmt.Errorf("%s: %s", name, r.why)
	case r.verdict == lost:
		is.logs = append(is.logs, Reason{Position: l.at, Text: name + ": " + r.why, note: true})
	}
	return nil
}

// checkOptions are the options of which the last one decides how servers are checked.
var checkOptions = []string{"httpchk", "tcp-check", "ssl-hello-chk", "ldap-check", "mysql-check", "pgsql-check", "redis-check", "smtpchk", "spop-check", "external-check"}

// option takes a line `option`.
func (is *settings) option(l *line) error {
	name := l.arg(1)
	if slices.Contains(checkOptions, name) {
		for _, c := range checkOptions {
			delete(is.options, c)
		}
		is.checkKind = name
	}
	switch name {
	case "httpchk":
		return is.httpchk(l)
	case "tcp-check":
		return nil
	}
	r, ok := options[name]
	switch {
	case !ok:
		return fmt.Errorf("option %s: unknown option", printable(name))
	case r.verdict == prevents || r.verdict == lost:
		is.options[name] = Reason{Position: l.at, Text: "option " + name + ": " + r.why, note: r.verdict == lost}
	}
	return nil
}

// without takes a line that begins with `no` or `default`.
func (is *settings) without(l *line) error {
	name := l.arg(2)
	switch {
	case l.arg(1) == "log":
		is.logs = slices.DeleteFunc(is.logs, func(r Reason) bool { return strings.HasPrefix(r.Text, "log:") })
		return nil
	case l.arg(1) != "option":
		return fmt.Errorf("%s %s: only options and log can be negated", l.arg(0), printable(l.arg(1)))
	}
	if _, known := whereOfOption(name); !known {
		return fmt.Errorf("option %s: unknown option", printable(name))
	}
	delete(is.options, name)
	if is.checkKind == name {
		is.checkKind = ""
	}
	return nil
}

// bind takes the addresses of a line `bind`.
func (is *settings) bind(l *line) error {
	if len(l.words) < 2 {
		return fmt.Errorf("an address is missing")
	}
	for text := range strings.SplitSeq(l.arg(1), ",") {
		e, err := parseEndpoint(text)
		switch {
		case err != nil:
			return err
		case !e.addr.IsValid():
			return fmt.Errorf("%q is every address of the host: a load balancer needs the address that clients connect to", printable(text))
		case e.relative:
			return fmt.Errorf("%q has no port", printable(text))
		}
		is.binds = append(is.binds, bound{l.at, e})
	}
	for n := 2; n < len(l.words); n++ {
		name := l.arg(n)
		p, ok := bindParams[name]
		switch {
		case !ok:
			return fmt.Errorf("%s: unknown parameter", printable(name))
		case p.verdict == prevents:
			return fmt.Errorf("%s: %s", name, p.why)
		case n+p.values >= len(l.words):
			return fmt.Errorf("%s needs a value", name)
		case p.verdict == lost:
			is.logs = append(is.logs, Reason{Position: l.at, Text: "bind " + name + ": " + p.why, note: true})
		}
		n += p.values
	}
	return nil
}

// methods are those that checks of the load balancer can have.
var methods = []string{"GET", "HEAD", "OPTIONS", "POST"}

// httpchk takes `option httpchk`.
func (is *settings) httpchk(l *line) error {
	c := is.httpCheck
	if c == nil {
		c = newHTTPCheck()
		is.httpCheck = c
	}
	args := l.words[2:]
	switch {
	case len(args) == 0:
		return nil
	case c.sends:
		return errTwice
	case len(args) == 1:
		c.path = args[0].text
	case len(args) > 3, len(args) == 3 && args[2].text != "HTTP/1.0" && args[2].text != "HTTP/1.1":
		return fmt.Errorf("option httpchk: headers after the version are not supported")
	default:
		c.method, c.path = args[0].text, args[1].text
	}
	c.asked = true
	return c.valid()
}

// errTwice refuses what HAProxy would do one after the other.
var errTwice = errors.New("http-check: only one request and one expected status are supported, and this is a second one")

func (c *httpCheck) valid() error {
	switch {
	case !slices.Contains(methods, c.method):
		return fmt.Errorf("option httpchk: method %s is not supported", printable(c.method))
	case !strings.HasPrefix(c.path, "/") || strings.ContainsFunc(c.path, func(r rune) bool { return r <= ' ' || r > '~' }):
		return fmt.Errorf("option httpchk: %q is not a path", printable(c.path))
	}
	return nil
}

// statuses are what `http-check expect status` may have.
var statuses = regexp.MustCompile(`^[1-5][0-9]{2}(-[1-5][0-9]{2})?(,[1-5][0-9]{2}(-[1-5][0-9]{2})?)*$`)

// readHTTPCheck takes `http-check`, which counts with option httpchk.
func (is *settings) readHTTPCheck(l *line) error {
	c := is.httpCheck
	if c == nil {
		c = newHTTPCheck()
		is.httpCheck = c
	}
	switch {
	case l.arg(1) == "expect" && c.expects, l.arg(1) == "send" && (c.sends || c.asked):
		return errTwice
	case l.arg(1) == "expect" && l.arg(2) == "status" && len(l.words) == 4 && statuses.MatchString(l.arg(3)):
		c.status, c.expects = l.arg(3), true
		return nil
	case l.arg(1) == "send":
		c.sends = true
		return c.send(l)
	}
	return fmt.Errorf("http-check %s: only an expected status and a method, path and host to send are supported", printable(l.arg(1)))
}

// send takes `http-check send`.
func (c *httpCheck) send(l *line) error {
	for n := 2; n < len(l.words); n++ {
		switch word := l.arg(n); {
		case word == "meth":
			c.method = l.arg(n + 1)
		case word == "uri":
			c.path = l.arg(n + 1)
		case word == "ver":
		case word == "hdr" && strings.EqualFold(l.arg(n+1), "host"):
			n++
			c.host = l.arg(n + 1)
		default:
			return fmt.Errorf("http-check send: %s is not supported", printable(word))
		}
		n++
	}
	return c.valid()
}
