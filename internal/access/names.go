// SPDX-License-Identifier: Apache-2.0

package access

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Names of admins among the holders of certificates: a file with one name per line, each with its kind, so that a
// common name is not taken for a DNS name.

// name is one line.
type name struct{ kind, value string }

// maxNames is the number of lines.
const maxNames = 10000

// withoutComment removes a # that starts a line or follows a space, because a URI may contain one.
func withoutComment(line string) string {
	for i := range len(line) {
		if line[i] == '#' && (i == 0 || line[i-1] == ' ' || line[i-1] == '\t') {
			return line[:i]
		}
	}
	return line
}

// parseNames parses lines "KIND:value", with blank lines and comments from #.
func parseNames(text string) ([]name, error) {
	var out []name
	for i, line := range strings.Split(text, "\n") {
		if line = strings.TrimSpace(withoutComment(line)); line == "" {
			continue
		}
		kind, value, ok := strings.Cut(line, ":")
		n := name{strings.ToUpper(strings.TrimSpace(kind)), strings.TrimSpace(value)}
		if !ok || n.value == "" {
			return nil, fmt.Errorf("line %d: %q is not of the form KIND:value, as in CN:alice", i+1, clip(line))
		}
		if err := n.canonical(); err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
		if out = append(out, n); len(out) > maxNames {
			return nil, fmt.Errorf("more than %d names", maxNames)
		}
	}
	return out, nil
}

// canonical checks the kind, and normalises the value for comparison with certificates.
func (n *name) canonical() error {
	switch n.kind {
	case "CN", "O", "OU", "URI", "EMAIL":
	case "DNS":
		if n.value = strings.ToLower(strings.TrimSuffix(n.value, ".")); n.value == "" {
			return errors.New("the DNS root is not a host name")
		}
	case "IP":
		addr, err := netip.ParseAddr(n.value)
		if err != nil {
			return fmt.Errorf("%q is not an IP address", clip(n.value))
		}
		n.value = addr.Unmap().String()
	default:
		return fmt.Errorf("%q is not one of CN, O, OU, DNS, URI, EMAIL and IP", clip(n.kind))
	}
	return nil
}

// matches reports whether one of the names is in a certificate.
func matches(names []name, c *x509.Certificate) bool {
	return slices.ContainsFunc(names, func(n name) bool {
		switch n.kind {
		case "CN":
			return c.Subject.CommonName == n.value
		case "O":
			return slices.Contains(c.Subject.Organization, n.value)
		case "OU":
			return slices.Contains(c.Subject.OrganizationalUnit, n.value)
		case "EMAIL":
			return slices.Contains(c.EmailAddresses, n.value)
		case "DNS":
			return slices.ContainsFunc(c.DNSNames, func(s string) bool { return strings.EqualFold(s, n.value) })
		case "URI":
			for _, u := range c.URIs {
				if u.String() == n.value {
					return true
				}
			}
		case "IP":
			for _, ip := range c.IPAddresses {
				if addr, ok := netip.AddrFromSlice(ip); ok && addr.Unmap().String() == n.value {
					return true
				}
			}
		}
		return false
	})
}

// clip shortens untrusted text.
func clip(s string) string { return clipTo(s, 80) }

func clipTo(s string, most int) string {
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}
