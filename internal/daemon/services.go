// SPDX-License-Identifier: Apache-2.0

package daemon

// External services: whether they are allowed, and how they are run and contacted.

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"

	"github.com/spf13/pflag"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/confine"
	"github.com/polycube/polycube/internal/external"
	"github.com/polycube/polycube/internal/netdev"
	"github.com/polycube/polycube/internal/topology/service"
)

// serviceOptions are about external services.
type serviceOptions struct {
	// Services is off, or on: services can be added at run time.
	Services string
	// ServicesCA, ServicesCert and ServicesKey are files in PEM for mutual TLS with services of type grpc.
	ServicesCA, ServicesCert, ServicesKey string
}

// declareServices declares the options.
func (o *serviceOptions) declareServices(f *pflag.FlagSet) {
	f.StringVar(&o.Services, "services", "on", "on: external services can be added while the daemon runs; off: only built-in services")
	f.StringVar(&o.ServicesCA, "services-cacert", "", "authorities (PEM) that must have signed the certificates of grpc services")
	f.StringVar(&o.ServicesCert, "services-cert", "", "certificate (PEM) that the daemon presents to grpc services")
	f.StringVar(&o.ServicesKey, "services-key", "", "private key (PEM) of --services-cert")
}

// finishServices checks the options.
func (o *serviceOptions) finishServices() error {
	if o.Services != "on" && o.Services != "off" {
		return fmt.Errorf("services %q: must be on or off", o.Services)
	}
	given := 0
	for _, file := range []string{o.ServicesCA, o.ServicesCert, o.ServicesKey} {
		if file != "" {
			given++
		}
	}
	if given != 0 && given != 3 {
		return errors.New("services-cacert, services-cert and services-key must be set together")
	}
	return nil
}

// serviceHost creates the host of external services, nil if they are off.
func (d *daemon) serviceHost() (service.Host, error) {
	if d.opts.Services != "on" {
		return nil, nil
	}
	config, err := d.opts.serviceTLS()
	if err != nil {
		return nil, err
	}
	hidden := []string{d.opts.StateDir, d.opts.RunDir, d.opts.BPFFS}
	open := func(service, path string) (external.Executable, error) {
		file, err := confine.Open(path)
		if err != nil {
			return nil, fmt.Errorf("uri %.200s: %w", path, err)
		}
		return confined{file, confine.Config{Name: service, Executable: file, RunDir: d.opts.RunDir, Hidden: hidden,
			Log: d.log.With(slog.String("service", service))}}, nil
	}
	return external.New(external.Options{Open: open, TLS: config, Route: route, Logger: d.log, Version: Version}), nil
}

// confined is an executable that runs as package confine specifies. The file is closed when it is no longer
// referenced.
type confined struct {
	file   *confine.Executable
	config confine.Config
}

// Start implements external.Executable.
func (c confined) Start(ctx context.Context) (external.Process, error) {
	p, err := confine.Start(ctx, c.config)
	if err != nil {
		return nil, err
	}
	return p, nil
}

// serviceTLS reads the files for mutual TLS with services; nil if there are none.
func (o *serviceOptions) serviceTLS() (*tls.Config, error) {
	if o.ServicesCert == "" {
		return nil, nil
	}
	pair, err := tls.LoadX509KeyPair(o.ServicesCert, o.ServicesKey)
	if err != nil {
		return nil, fmt.Errorf("services-cert: %w", err)
	}
	pem, err := os.ReadFile(o.ServicesCA)
	if err != nil {
		return nil, fmt.Errorf("services-cacert: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("services-cacert %s: contains no certificate", o.ServicesCA)
	}
	return &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{pair}, RootCAs: pool}, nil
}

// route looks up a route for a service.
func route(to netip.Addr) (external.Route, error) {
	r, err := netdev.RouteTo(to)
	if errors.Is(err, netdev.ErrNoRoute) {
		err = fmt.Errorf("%w: %w", err, cube.ErrNotFound)
	}
	return external.Route(r), err
}
