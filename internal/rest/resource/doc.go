// SPDX-License-Identifier: Apache-2.0

// Package resource determines what a URL of the REST API names within a cube: the node of the model, its methods, the
// status of a success, and example values. It also has the words that requests about such nodes share.
package resource
