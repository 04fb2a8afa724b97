// SPDX-License-Identifier: Apache-2.0

// Package openapi turns models into the schemas of an OpenAPI document. It knows YANG and
// JSON Schema and nothing of HTTP: which paths, methods and statuses there are is known to
// who routes requests, package rest, which puts the document together.
//
// A schema never refuses what the daemon accepts in its canonical form, and may accept
// more than the daemon does: what JSON Schema cannot say (must, when, leafrefs, unique) is
// in the models, and the answer to a request that violates it is a 400.
package openapi
