// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
)

// hello is the ClientHello that crypto/tls sends for a name.
func hello(t testing.TB, name string) []byte {
	t.Helper()
	client, server := net.Pipe()
	go func() {
		_ = tls.Client(client, &tls.Config{ServerName: name, InsecureSkipVerify: name == "", MinVersion: tls.VersionTLS12}).Handshake()
		_ = client.Close()
	}()
	defer server.Close()
	head := make([]byte, 5)
	if _, err := io.ReadFull(server, head); err != nil {
		t.Fatal(err)
	}
	body := make([]byte, int(head[3])<<8|int(head[4]))
	if _, err := io.ReadFull(server, body); err != nil {
		t.Fatal(err)
	}
	return slices.Concat(head, body)
}

// split puts the handshake of a record into two records.
func split(record []byte, at int) []byte {
	body := record[5:]
	out := append([]byte{22, 3, 1, byte(at >> 8), byte(at)}, body[:at]...)
	rest := len(body) - at
	return append(append(out, 22, 3, 1, byte(rest>>8), byte(rest)), body[at:]...)
}

func TestTheNameIsFound(t *testing.T) {
	for _, c := range []struct {
		what string
		sent []byte
		name string
		is   found
	}{
		{"TLS", hello(t, "www.example.com"), "www.example.com", named},
		{"TLS in two records", split(hello(t, "www.example.com"), 30), "www.example.com", named},
		{"TLS and more", append(hello(t, "a.example"), 20, 3, 3, 0, 1, 1), "a.example", named},
		{"TLS without a name", hello(t, ""), "", none},
		{"HTTP", []byte("GET / HTTP/1.1\r\nUser-Agent: x\r\nHost: Www.Example.COM\r\n\r\n"), "www.example.com", named},
		{"HTTP with a port", []byte("GET / HTTP/1.1\r\nhost:example.com:8080\r\n"), "example.com", named},
		{"HTTP with an IPv6 address", []byte("GET / HTTP/1.1\r\nHost: [2001:db8::1]:80\r\n"), "[2001:db8::1]", named},
		{"HTTP with a dot at the end", []byte("GET / HTTP/1.1\r\nHost: example.com.\r\n"), "example.com", named},
		{"HTTP without a host", []byte("GET / HTTP/1.0\r\nAccept: */*\r\n\r\n"), "", none},
		{"a name that cannot be", []byte("GET / HTTP/1.1\r\nHost: a b\x1b[31m\r\n"), "", none},
		{"an empty name", []byte("GET / HTTP/1.1\r\nHost: \r\n"), "", none},
		{"SSH", []byte("SSH-2.0-OpenSSH_9.2\r\n"), "", none},
		{"another protocol", []byte{0, 1, 2}, "", none},
		{"another record", []byte{23, 3, 3, 0, 1, 1}, "", none},
		{"another handshake", []byte{22, 3, 3, 0, 4, 2, 0, 0, 0}, "", none},
		{"a huge ClientHello", []byte{22, 3, 1, 0, 4, 1, 0xff, 0xff, 0xff}, "", none},
		{"nothing", nil, "", more},
		{"a long request", []byte("GET /" + strings.Repeat("x", most)), "", none},
	} {
		if name, is := hostName(c.sent); name != c.name || is != c.is {
			t.Errorf("%s: %q, %d, want %q, %d", c.what, name, is, c.name, c.is)
		}
	}
}

func TestTheNameIsFoundInPieces(t *testing.T) {
	for what, whole := range map[string][]byte{
		"TLS":  hello(t, "www.example.com"),
		"HTTP": []byte("GET / HTTP/1.1\r\nHost: www.example.com\r\n"),
	} {
		for n := range whole {
			name, is := hostName(whole[:n])
			// The extension with the name may be complete before the ClientHello is.
			if is != more && (is != named || name != "www.example.com") {
				t.Fatalf("%s: %q, %d after %d of %d bytes", what, name, is, n, len(whole))
			}
		}
	}
}

func TestNamesMatch(t *testing.T) {
	set := map[string]bool{"example.com": true, "*.example.org": true, "*.net": true}
	for name, want := range map[string]bool{
		"example.com": true, "www.example.com": false, "example.org": false, "www.example.org": true, "a.b.example.org": true,
		"x.net": true, "net": false, "anexample.com": false, "": false,
	} {
		if got := matches(set, name); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func FuzzName(f *testing.F) {
	f.Add(hello(f, "www.example.com"))
	f.Add([]byte("GET / HTTP/1.1\r\nHost: www.example.com\r\n"))
	f.Fuzz(func(t *testing.T, sent []byte) {
		before := bytes.Clone(sent)
		name, is := hostName(sent)
		if (is == named) != (name != "") || is == named && !isName(name) || is == more && len(sent) >= most {
			t.Errorf("%q, %d", name, is)
		}
		if !bytes.Equal(before, sent) {
			t.Error("it changed what it read")
		}
	})
}
