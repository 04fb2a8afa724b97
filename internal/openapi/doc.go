// SPDX-License-Identifier: Apache-2.0

// Package openapi converts models to the schemas of an OpenAPI document. It knows YANG and JSON Schema but not HTTP:
// paths, methods and statuses are known to package rest, which builds the document.
//
// A schema never refuses what the daemon accepts in its canonical form, and may accept more than the daemon does: what
// JSON Schema cannot express (must, when, leafrefs, unique) is in the models, and a request that violates it gets a
// 400.
package openapi
