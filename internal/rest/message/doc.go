// SPDX-License-Identifier: Apache-2.0

// Package message reads requests and writes responses of the REST API: paths and bodies with their limits, JSON,
// links, and the common format of errors with the status of each. It keeps no state and knows no resource.
package message
