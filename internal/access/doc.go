// SPDX-License-Identifier: Apache-2.0

// Package access decides who a client is and what it may do, as far as that does not
// depend on HTTP: the two roles, the tokens, the certificates of mutual TLS with their
// allow and deny lists, how often a client may ask, and the record of who changed what.
//
// All of it is read again while the daemon runs. A file that decides about access is
// believed only if nobody but root (or the daemon's user) can write it, and a new version
// that cannot be used leaves the one before in force.
package access
