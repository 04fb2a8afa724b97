// SPDX-License-Identifier: Apache-2.0

// Package cubes serves the resources that models describe: the cubes of each service and every node in them, with
// pages, filters, links and entity tags. Resources and their methods follow from the model at the time of the request.
package cubes
