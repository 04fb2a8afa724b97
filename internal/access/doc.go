// SPDX-License-Identifier: Apache-2.0

// Package access identifies clients and decides what they may do, as far as that does not depend on HTTP: the two
// roles, the tokens, the certificates of mutual TLS with their allow and deny lists, rate limits, and the audit log.
//
// All of it is reloaded while the daemon runs. A file that decides about access is trusted only if only root (or the
// daemon's user) can write it. If a new version cannot be used, the previous one stays in effect.
package access
