// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/polycube/polycube/test/pki"
)

// TestCompletionGoesWhereCommandsGo: over mutual TLS, too, and silently nowhere without the
// right certificate.
func TestCompletionGoesWhereCommandsGo(t *testing.T) {
	root := pki.Authority(t, "root")
	server := root.Server(t)
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodOptions || r.URL.Query().Get("prefix") != "lo" || r.TLS.PeerCertificates[0].Subject.CommonName != "alice" {
			http.Error(w, "not what completion asks", http.StatusBadRequest)
			return
		}
		reply(200, `["loglevel="]`)(w, r)
	}))
	srv.TLS = &tls.Config{Certificates: []tls.Certificate{server.TLS()}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: root.Pool()}
	srv.StartTLS()
	t.Cleanup(srv.Close)
	dir := t.TempDir()
	cert, key := root.Client(t, "alice").Write(t, dir, "alice")
	ca := "cacert: " + pki.Place(t, dir+"/ca.pem", root.PEM()) + "\n"
	for file, want := range map[string]string{ca + "cert: " + cert + "\nkey: " + key + "\n": "loglevel=\n", ca: ""} {
		r := runWith(withHome(t, file, map[string]string{"POLYCUBECTL_URL": srv.URL}), nil, completeCommand, "polycubectl r1 set lo")
		if r.code != ExitOK || r.out != want || r.err != "" {
			t.Errorf("with %q: exit %d, stdout %q, stderr %q, want %q", file, r.code, r.out, r.err, want)
		}
	}
}
