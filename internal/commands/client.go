// SPDX-License-Identifier: Apache-2.0

package commands

// otherCommands are the commands about the client and the API.
var otherCommands = []Command{
	{
		Name: "version",
		Typed: &Typed{
			Unlisted:    true,
			Description: "Show the versions of client and daemon",
			Usage:       "version",
			Details:     "The client version is shown even if the daemon cannot be reached.",
		},
		Resource: &Resource{
			Entry: 1,
			Operations: []Operation{
				{Method: "GET", Path: "/version", Summary: "Version of the daemon"},
			},
		},
	},
	{
		Name: "completion",
		Typed: &Typed{
			Unlisted:    true,
			Description: "Print the completion script for a shell",
			Usage:       "completion bash|zsh|fish  (for this shell: source <(polycubectl completion bash))",
			Details: `Completion asks the daemon at each TAB, so it knows what exists. To install it permanently:

  bash   polycubectl completion bash > /etc/bash_completion.d/polycubectl
  zsh    polycubectl completion zsh > _polycubectl in a folder of $fpath
  fish   polycubectl completion fish > ~/.config/fish/completions/polycubectl.fish`,
			Examples: []string{"completion bash"},
		},
		Unreserved: true,
	},
	{
		Name: "metrics",
		Resource: &Resource{
			Operations: []Operation{
				{Method: "GET", Path: "/metrics", Summary: "Metrics for Prometheus"},
			},
		},
	},
	{
		Name: "openapi.json",
		Resource: &Resource{
			Operations: []Operation{
				{Method: "GET", Path: "/openapi.json", Summary: "This document"},
			},
		},
	},
}
