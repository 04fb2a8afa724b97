// SPDX-License-Identifier: Apache-2.0

package access

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/asn1"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
)

// Certificates and revocation lists in files: PEM with any number of blocks, or a single one in DER.

// fingerprint identifies a certificate: the SHA-256 of its DER form, as `openssl x509 -fingerprint -sha256` prints it.
type fingerprint [sha256.Size]byte

func fingerprintOf(c *x509.Certificate) fingerprint { return sha256.Sum256(c.Raw) }

func (f fingerprint) String() string { return hex.EncodeToString(f[:]) }

// content is the content of one file.
type content struct {
	certs []*x509.Certificate
	lists []*x509.RevocationList
}

// parseCertificates parses a file, which must not be empty.
func parseCertificates(text []byte) (content, error) {
	var out content
	if !bytes.Contains(text, []byte("-----BEGIN ")) {
		if c, err := x509.ParseCertificate(text); err == nil {
			return content{certs: []*x509.Certificate{c}}, nil
		}
		if l, err := parseList(text); err == nil {
			return content{lists: []*x509.RevocationList{l}}, nil
		} else if errors.Is(err, errVersion1) {
			return out, err
		}
		return out, errors.New("contains no certificate in PEM or DER form")
	}
	for rest := text; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if err := out.add(block); err != nil {
			return content{}, err
		}
	}
	if len(out.certs)+len(out.lists) == 0 {
		return out, errors.New("contains no complete certificate")
	}
	return out, nil
}

func (c *content) add(block *pem.Block) error {
	switch block.Type {
	case "CERTIFICATE", "X509 CERTIFICATE":
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return fmt.Errorf("certificate %d of the file: %w", len(c.certs)+1, err)
		}
		c.certs = append(c.certs, cert)
	case "X509 CRL":
		list, err := parseList(block.Bytes)
		if err != nil {
			return fmt.Errorf("revocation list %d of the file: %w", len(c.lists)+1, err)
		}
		c.lists = append(c.lists, list)
	case "PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY", "ENCRYPTED PRIVATE KEY":
		return errors.New("contains a private key: only certificates are allowed here")
	}
	return nil
}

// errVersion1 is for a list from `openssl ca -gencrl` with the default configuration.
var errVersion1 = errors.New("is of version 1, which has no extensions: create one of version 2, " +
	"with a line `crlnumber = FILE` in the configuration of openssl ca, and `echo 01 > FILE` once")

func parseList(der []byte) (*x509.RevocationList, error) {
	l, err := x509.ParseRevocationList(der)
	if err != nil && isVersion1(der) {
		return nil, errVersion1
	}
	return l, err
}

// isVersion1 reports whether bytes look like a revocation list of version 1, which has no version field (RFC 5280,
// 5.1.2.1): the signature algorithm comes first.
func isVersion1(der []byte) bool {
	var list, signed, first asn1.RawValue
	for _, step := range []struct {
		in  *[]byte
		out *asn1.RawValue
	}{{&der, &list}, {&list.Bytes, &signed}, {&signed.Bytes, &first}} {
		if _, err := asn1.Unmarshal(*step.in, step.out); err != nil || step.out.Tag != asn1.TagSequence {
			return false
		}
	}
	return true
}

// serial identifies a certificate in a revocation list.
type serial struct{ issuer, number string }

// denied are the refused certificates.
type denied struct {
	prints  map[fingerprint]bool
	serials map[serial]bool
}

func (d *denied) has(c *x509.Certificate) bool {
	return d.prints[fingerprintOf(c)] || d.serials[serial{string(c.RawIssuer), c.SerialNumber.String()}]
}

// add adds the content of a file. A revocation list counts if one of the authorities signed it.
func (d *denied) add(c content, cas []*x509.Certificate) error {
	for _, l := range c.lists {
		if err := checkList(l, cas); err != nil {
			return err
		}
	}
	for _, cert := range c.certs {
		d.prints[fingerprintOf(cert)] = true
	}
	for _, l := range c.lists {
		for _, e := range l.RevokedCertificateEntries {
			d.serials[serial{string(l.RawIssuer), e.SerialNumber.String()}] = true
		}
	}
	return nil
}

// checkList reports whether one of the authorities signed a revocation list.
func checkList(l *x509.RevocationList, cas []*x509.Certificate) error {
	for _, ca := range cas {
		if bytes.Equal(ca.RawSubject, l.RawIssuer) && l.CheckSignatureFrom(ca) == nil {
			return nil
		}
	}
	return fmt.Errorf("the revocation list of %q is not signed by an authority of --cacert", clip(l.Issuer.String()))
}

// subject is the name of a certificate's holder for messages: the subject, or else an alternative name.
func subject(c *x509.Certificate) string {
	if s := c.Subject.String(); s != "" {
		return clip(s)
	}
	switch {
	case len(c.URIs) > 0:
		return clip("URI:" + c.URIs[0].String())
	case len(c.DNSNames) > 0:
		return clip("DNS:" + c.DNSNames[0])
	case len(c.EmailAddresses) > 0:
		return clip("EMAIL:" + c.EmailAddresses[0])
	}
	return "serial " + clip(c.SerialNumber.String())
}
