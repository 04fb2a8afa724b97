// SPDX-License-Identifier: Apache-2.0

package netdev

import "os"

// InNamespace runs fn on a thread inside the network namespace of ns; fn must do all its work on the calling
// goroutine.
func InNamespace(ns *os.File, fn func() error) error { return inNamespace(ns, fn) }
