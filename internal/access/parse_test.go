// SPDX-License-Identifier: Apache-2.0

package access

import (
	"strings"
	"testing"

	"github.com/polycube/polycube/test/pki"
)

// TestNames: lines that are names, and lines that are mistakes.
func TestNames(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "\n # nothing\n": "", "CN:alice": "", "cn : alice # she": "", "DNS:a.example.\nIP:10.0.0.1\nIP:::1\nEMAIL:a@b\nURI:spiffe://a/b\nOU:x\nO:y": "",
		"alice": "not of the form", "CN:": "not of the form", "CN:a\n\nX:y": "line 3", "IP:alice": "is not an IP address", ":x": "is not one of CN", "DNS:.": "is not a host name", "URI:spiffe://a/b#c": "", "CN:#x": "", "CN: #x": "not of the form",
		strings.Repeat("x", 5000): "not of the form",
	} {
		_, err := parseNames(text)
		if (want == "") != (err == nil) || err != nil && (!strings.Contains(err.Error(), want) || len(err.Error()) > 200) {
			t.Errorf("%.40q: error %v, want %q", text, err, want)
		}
	}
}

// FuzzNames: no text of a file of names is fatal, and what is accepted is accepted again
// when it is written out.
func FuzzNames(f *testing.F) {
	f.Add("CN:alice\n# x\nDNS:a.example")
	f.Add("IP:::ffff:10.0.0.1\nURI:spiffe://a/b")
	f.Fuzz(func(t *testing.T, text string) {
		names, err := parseNames(text)
		if err != nil {
			return
		}
		var b strings.Builder
		for _, n := range names {
			b.WriteString(n.kind + ":" + n.value + "\n")
		}
		again, err := parseNames(b.String())
		if err != nil || len(again) != len(names) {
			t.Errorf("%q was accepted, and what it says, %q, is not: %v", text, b.String(), err)
		}
	})
}

// FuzzCertificates: no text of a file of certificates is fatal, and what is accepted holds
// something.
func FuzzCertificates(f *testing.F) {
	root := pki.Authority(f, "root")
	f.Add(root.PEM())
	f.Add(root.Cert.Raw)
	f.Add(root.Revoke(f, root))
	f.Add([]byte("-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := parseCertificates(text)
		if (err == nil) != (len(c.certs)+len(c.lists) > 0) {
			t.Errorf("%d certificates, %d lists, %v", len(c.certs), len(c.lists), err)
		}
	})
}
