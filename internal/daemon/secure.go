// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"github.com/polycube/polycube/internal/access"
	"github.com/polycube/polycube/internal/rest"
	"github.com/polycube/polycube/internal/rest/front"
)

// Access control, from the options. Unsafe options, and options without effect, are refused before anything starts,
// with an error that says what to do.

// accessOptions are the options about access to the API.
type accessOptions struct {
	// Group has full access at the Unix socket, ReadGroup has read access at a separate one.
	Group, ReadGroup string
	// ReadSocket is the read-only Unix socket, "" if there is no such group and it was not requested.
	ReadSocket   string
	RequireToken bool
	TLS          access.TLSOptions
	// AuditLog is "" when no record is kept.
	AuditLog string
	// Rate is the maximum requests per second of one client; negative is no limit.
	Rate int
}

// Defaults of the access options.
const (
	auditFile   = "audit.log"
	auditOff    = "off"
	defaultRate = 1000
	maxRate     = 1000000
)

// declare declares the options.
func (a *accessOptions) declare(f *pflag.FlagSet) {
	f.StringVar(&a.Group, "group", front.Group, "group whose members have full access at the Unix socket")
	f.StringVar(&a.ReadGroup, "read-group", front.ReadGroup, "group whose members have read access, at a separate Unix socket")
	f.StringVar(&a.ReadSocket, "read-socket", "", "path of that socket (default RUN-DIR/polycubed-read.sock)")
	f.BoolVar(&a.RequireToken, "require-token", false, "require a token for reading over loopback TCP")
	f.StringVarP(&a.TLS.Cert, "cert", "c", "", "certificate of the daemon, for mutual TLS")
	f.StringVarP(&a.TLS.Key, "key", "k", "", "private key of --cert")
	f.StringVar(&a.TLS.CACert, "cacert", "", "certificates of the authorities that sign client certificates")
	f.StringVar(&a.TLS.Admins, "cert-admins", "", "file with the names of admins (KIND:NAME lines), for --cacert")
	f.StringVar(&a.TLS.Allow, "cert-whitelist", "", "directory of client certificates, instead of --cacert: those in its directory admin are admins")
	f.StringVar(&a.TLS.Deny, "cert-blacklist", "", "directory of refused certificates and revocation lists, for --cacert")
	f.StringVar(&a.AuditLog, "audit-log", "", "file that records each change and refusal, or off (default STATE-DIR/audit.log)")
	f.IntVar(&a.Rate, "rate-limit", defaultRate, "maximum requests per second of one client; 0 is no limit")
	f.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		switch name {
		case "cert-white-list", "cert-allow-list":
			name = "cert-whitelist"
		case "cert-black-list", "cert-deny-list":
			name = "cert-blacklist"
		}
		return pflag.NormalizedName(name)
	})
}

// finishAccess checks the access options.
func (r *rawOptions) finishAccess(f *pflag.FlagSet) error {
	if err := r.TLS.Check(); err != nil {
		return err
	}
	secure := r.TLS.Given()
	r.TCP = r.TCP || secure
	switch {
	case !r.TCP && r.InsecureLoopback:
		return errors.New("insecure-loopback requires --addr or --port")
	case !r.TCP && r.RequireToken:
		return errors.New("require-token requires --addr or --port")
	case secure && r.InsecureLoopback:
		return errors.New("insecure-loopback and cert are mutually exclusive: with TLS, certificates decide; remove insecure-loopback")
	case secure && r.RequireToken:
		return errors.New("require-token is only for plain TCP on loopback: with TLS, every client needs a certificate; remove require-token")
	case r.InsecureLoopback && r.RequireToken:
		return errors.New("insecure-loopback and require-token are mutually exclusive")
	case r.Rate < 0 || r.Rate > maxRate:
		return fmt.Errorf("rate-limit %d: must be 0 to %d requests per second", r.Rate, maxRate)
	}
	if err := front.CheckAddress(r.Addr, secure); err != nil {
		return err
	}
	if r.Rate == 0 {
		r.Rate = -1
	}
	return r.finishGroups(f)
}

// finishGroups checks the groups: one that was given must exist, otherwise its members would look for the mistake
// elsewhere.
func (r *rawOptions) finishGroups(f *pflag.FlagSet) error {
	for _, name := range []string{"group", "read-group"} {
		value := f.Lookup(name).Value.String()
		if !f.Changed(name) {
			continue
		}
		if access.GroupID(value) < 0 {
			return fmt.Errorf("%s %q: no such group: create it with groupadd --system %s", name, value, value)
		}
	}
	if r.Group == r.ReadGroup {
		return fmt.Errorf("group and read-group are both %s: members of group have full access", r.Group)
	}
	return nil
}

// accessPaths derives the paths that were not given.
func (r *rawOptions) accessPaths() error {
	if r.ReadSocket == "" && access.GroupID(r.ReadGroup) >= 0 {
		r.ReadSocket = filepath.Join(r.RunDir, "polycubed-read.sock")
	}
	if strings.EqualFold(r.AuditLog, auditOff) {
		r.AuditLog = ""
	} else if r.AuditLog == "" {
		r.AuditLog = filepath.Join(r.StateDir, auditFile)
	}
	paths := []*string{&r.ReadSocket, &r.AuditLog, &r.TLS.Cert, &r.TLS.Key, &r.TLS.CACert, &r.TLS.Admins, &r.TLS.Allow, &r.TLS.Deny}
	for _, p := range paths {
		if *p == "" {
			continue
		}
		var err error
		if *p, err = filepath.Abs(*p); err != nil {
			return fmt.Errorf("path %q: %w", *p, err)
		}
	}
	if r.ReadSocket == r.Socket {
		return fmt.Errorf("socket and read-socket are both %s", r.Socket)
	}
	return nil
}

// openAccess opens access control. It comes early: a daemon that cannot be reached safely does not touch the network.
func (d *daemon) openAccess(context.Context) (err error) {
	if d.tokens, err = access.OpenTokens(d.opts.RunDir, access.GroupID(d.opts.Group), access.GroupID(d.opts.ReadGroup)); err != nil {
		return err
	}
	if d.opts.AuditLog != "" {
		if d.audit, err = access.OpenAudit(d.opts.AuditLog, d.log); err != nil {
			return err
		}
		d.undo = append(d.undo, d.audit.Close)
	}
	if d.opts.TLS.Given() {
		d.tls, err = access.NewTLS(d.opts.TLS, d.log)
	}
	return err
}

// checkCertificates reports whether a daemon could start with the TLS files.
func checkCertificates(o Options) error {
	if !o.TLS.Given() {
		return nil
	}
	_, err := access.NewTLS(o.TLS, slog.New(slog.DiscardHandler))
	return err
}

// apiOptions are the API's options about access.
func (d *daemon) apiOptions() rest.Options {
	return rest.Options{
		Tokens: d.tokens, Audit: d.audit, TLS: d.tls, Rate: d.opts.Rate, Group: d.opts.Group, ReadGroup: d.opts.ReadGroup,
		InsecureLoopback: d.opts.InsecureLoopback, RequireToken: d.opts.RequireToken,
	}
}

// watchAccess reloads certificates when their files change, and ends connections whose rights are gone.
func (d *daemon) watchAccess() {
	d.undo = append(d.undo, background(func(ctx context.Context) { access.Watch(ctx, d.tls, d.server.Sweep) }))
}

// reloadAccess reloads everything about access.
func (d *daemon) reloadAccess() {
	if d.tokens != nil {
		if err := d.tokens.Renew(); err != nil {
			d.log.Error("create tokens", "err", err)
		}
	}
	if err := d.audit.Reopen(); err != nil {
		d.log.Error("reopen the audit log", "err", err)
	}
	if d.tls != nil {
		d.tls.Reload()
		d.server.Sweep()
	}
}

// listen opens the Unix sockets and, if requested, TCP: all or none.
func (d *daemon) listen() (out []net.Listener, err error) {
	defer func() {
		if err != nil {
			for _, l := range out {
				err = errors.Join(err, l.Close())
			}
		}
	}()
	open := func(l net.Listener, err error) error {
		if err == nil {
			out = append(out, l)
		}
		return err
	}
	if err := open(front.ListenGroup(d.opts.Socket, d.opts.Group, false)); err != nil {
		return out, err
	}
	if d.opts.ReadSocket != "" {
		if err := open(front.ListenGroup(d.opts.ReadSocket, d.opts.ReadGroup, true)); err != nil {
			return out, err
		}
	}
	switch {
	case !d.opts.TCP:
		return out, nil
	case d.tls != nil:
		return out, open(front.ListenTLS(d.opts.Addr, d.opts.Port, d.tls))
	case d.opts.InsecureLoopback:
		d.log.Warn("every local user can change the configuration over TCP (--insecure-loopback)")
	}
	return out, open(front.ListenTCP(d.opts.Addr, d.opts.Port))
}
