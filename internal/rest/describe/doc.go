// SPDX-License-Identifier: Apache-2.0

// Package describe writes the OpenAPI document of the REST API: the framework's resources, and every node of every
// loaded service. Methods and statuses come from the code that handles requests. A document is cached until the set of
// services changes.
package describe
