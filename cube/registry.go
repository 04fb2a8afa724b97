// SPDX-License-Identifier: Apache-2.0

package cube

// The registry of services is the one package-level state of the project: services
// register from init, the daemon reads it once at start.

var registry []Service

// Register adds a service. It is called from init functions only.
func Register(s Service) { registry = append(registry, s) }

// Services returns what was registered, in order of registration.
func Services() []Service { return append([]Service(nil), registry...) }
