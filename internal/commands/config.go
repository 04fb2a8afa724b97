// SPDX-License-Identifier: Apache-2.0

package commands

// configCommands are the commands about the whole configuration.
var configCommands = []Command{
	{
		Name: "export",
		Typed: &Typed{
			Description: "Print the whole configuration as YAML, for apply",
			Usage:       "export [-o FILE] [-r REVISION] [-json]",
			Details: `  -o FILE        write to a file
  -r REVISION    as it was at this revision
  -json          as JSON`,
			Examples: []string{"export -o before.yaml", "export -r 7"},
			Flags:    map[string]bool{"-o": true, "-r": true, "-json": false},
		},
	},
	{
		Name: "apply",
		Typed: &Typed{
			Description: "Apply the configuration in files, in one step",
			Usage:       "apply -f FILE|- [-f FILE ...] [--dry-run] [--yes] [--prune] [--detailed-exitcode] [-json]",
			Details: `  -f FILE              YAML or JSON, as export writes it; - is standard input
  --dry-run            show the changes, make none
  --prune              delete cubes that are in no file
  --yes                do not ask
  --detailed-exitcode  exit status 3 if something changed, or would change
  -json                print the changes as JSON`,
			Examples: []string{"apply -f topology.yaml --dry-run", "apply -f topology.yaml -f services.yaml --yes"},
			Flags:    map[string]bool{"-f": true, "--dry-run": false, "--yes": false, "--prune": false, "--detailed-exitcode": false, "-json": false},
		},
	},
	{
		Name: "history",
		Typed: &Typed{
			Description: "Show who changed what in the configuration",
			Usage:       "history [-n COUNT] [REVISION] [-json]",
			Details: `  REVISION       show what this change did
  -n COUNT       show only the latest COUNT revisions`,
			Examples: []string{"history -n 5", "history 7"},
			Live:     true,
			Flags:    map[string]bool{"-n": true, "-json": false},
		},
		Resource: &Resource{
			Segments: 1,
			Member:   &Argument{Name: "revision", Description: "Number of a change", Example: "7", Number: true, Positional: true},
			Operations: []Operation{
				{Method: "GET", Path: "/history", Summary: "The revisions of the configuration, newest first"},
				{Method: "GET", Path: "/history/{revision}", Summary: "What a revision changed"},
			},
		},
	},
	{
		Name: "rollback",
		Typed: &Typed{
			Description: "Return to the configuration of a revision",
			Usage:       "rollback REVISION [--dry-run] [--yes] [--detailed-exitcode] [-json]",
			Details:     "The rollback is a change with its own revision, so it can also be rolled back.",
			Examples:    []string{"rollback 7 --dry-run", "rollback 7"},
			Live:        true,
			Flags:       map[string]bool{"--dry-run": false, "--yes": false, "--detailed-exitcode": false, "-json": false},
			Ask:         []string{"history"}, // the same revisions
		},
		Resource: &Resource{
			Conditional: true,
			Operations: []Operation{
				{Method: "POST", Path: "/rollback", Summary: "Return to the configuration of a revision"},
			},
		},
	},
	{
		Name: "confirm",
		Typed: &Typed{
			Description: "Keep the change that was made with --try",
			Usage: `confirm       keep it
  confirm no    take it back now
  confirm show  show it`,
			Details:  "A change that is made with --try SECONDS is taken back after that time unless it is confirmed, so a rule that locks you out does so for a minute.",
			Examples: []string{"--try 60 fw1 chain INGRESS set default=DROP", "confirm"},
		},
		Resource: &Resource{
			Operations: []Operation{
				{Method: "GET", Path: "/confirm", Summary: "The change on trial"},
				{Method: "POST", Path: "/confirm", Summary: "Keep the change on trial, or take it back"},
			},
		},
	},
	{
		Name: "config",
		Resource: &Resource{
			Conditional: true,
			Operations: []Operation{
				{Method: "GET", Path: "/config", Summary: "The whole configuration"},
				{Method: "PUT", Path: "/config", Summary: "Replace the whole configuration by a document"},
				{Method: "PATCH", Path: "/config", Summary: "Create or replace the cubes of a document"},
			},
		},
	},
}
