// SPDX-License-Identifier: Apache-2.0

// Package describe writes the OpenAPI document of the REST API: the framework's resources,
// and every node of every service that is loaded. It derives methods and statuses from what
// answers requests, and keeps a document until the set of services changes.
package describe
