// SPDX-License-Identifier: Apache-2.0

// Mobile emulates the mobile network around a UPF, for demonstrations between network namespaces of one machine: the N4
// side of an SMF, base stations, and phones with a TUN device each. One process serves; others tell it what to do:
//
//	mobile serve            until it is told to end
//	mobile associate        set up the association with the UPF
//	mobile attach P N KBIT  establish the session of phone P, in namespace N, limited to a rate in each direction
//	mobile handover P S     hand phone P over to base station S
//	mobile idle P           let phone P sleep: it is paged when a packet waits
//	mobile usage            ask for usage reports, and print a table of all
//	mobile detach P         delete the session of phone P
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/signal"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

func main() {
	control := flag.String("control", os.Getenv("MOBILE_CONTROL"), "Unix socket of the process that serves (MOBILE_CONTROL)")
	var o options
	flag.TextVar(&o.smf, "smf", netip.MustParseAddr("127.0.0.2"), "address of the SMF")
	flag.TextVar(&o.upf, "upf", netip.MustParseAddr("127.0.0.1"), "address of the UPF's end of N4")
	flag.TextVar(&o.n3, "n3", netip.MustParseAddr("192.0.2.1"), "address of the UPF's end of tunnels")
	flag.StringVar(&o.namespace, "ran", "", "network namespace of the base stations")
	stations := flag.String("stations", "192.0.2.10,192.0.2.20", "addresses of the base stations")
	flag.DurationVar(&o.paging, "paging", time.Second, "how long it takes to page a phone")
	flag.Parse()
	for text := range strings.SplitSeq(*stations, ",") {
		a, err := netip.ParseAddr(text)
		if err != nil {
			fatal(err)
		}
		o.stations = append(o.stations, a)
	}
	var err error
	if flag.Arg(0) == "serve" {
		err = serve(*control, o)
	} else {
		err = tell(*control, flag.Args())
	}
	if err != nil {
		fatal(err)
	}
}

func fatal(err error) {
	fmt.Fprintln(os.Stderr, "mobile:", err)
	os.Exit(1)
}

// serve is the network until a signal.
func serve(control string, o options) error {
	n, err := newNetwork(o)
	if err != nil {
		return err
	}
	defer n.close()
	l, err := net.Listen("unix", control)
	if err != nil {
		return err
	}
	server := http.Server{ReadHeaderTimeout: patience, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		words, err := io.ReadAll(io.LimitReader(r.Body, 4096))
		var text string
		if err == nil {
			text, err = n.do(strings.Fields(string(words)))
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusUnprocessableEntity)
			return
		}
		_, _ = io.WriteString(w, text) // the client may have gone
	})}
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM, unix.SIGINT)
	defer stop()
	context.AfterFunc(ctx, func() { _ = server.Close() })
	if err := server.Serve(l); ctx.Err() == nil {
		return err
	}
	return nil
}

// tell has the process that serves carry a command out, and prints what it says.
func tell(control string, words []string) error {
	client := http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", control)
	}}}
	r, err := http.NewRequestWithContext(context.Background(), http.MethodPost, "http://localhost/", strings.NewReader(strings.Join(words, " ")))
	if err != nil {
		return err
	}
	answer, err := client.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s", strings.TrimSpace(string(text)))
	}
	if err != nil {
		return err
	}
	_, err = os.Stdout.Write(text)
	return err
}
