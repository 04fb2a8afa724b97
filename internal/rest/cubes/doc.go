// SPDX-License-Identifier: Apache-2.0

// Package cubes answers for what models describe: the cubes of each service, and every node
// of them, with pages, filters, links and entity tags. Which resources there are, and which
// methods they have, follows from the model at the time of the request.
package cubes
