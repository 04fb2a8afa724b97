// SPDX-License-Identifier: Apache-2.0

package commands

// Requests to carry out a command, as cubes get them by an action: grouping `command` of polycube-iptables.yang.

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/polycube/polycube/iptables/language"
)

// Request is a program with its arguments and what it reads.
type Request struct {
	Program string
	Args    []string
	Input   string
}

// ReadRequest decodes the input of the action.
func ReadRequest(input json.RawMessage) (Request, error) {
	var in struct {
		Program  string `json:"program"`
		Argument []struct {
			Text string `json:"text"`
		} `json:"argument"`
		Input string `json:"input"`
	}
	if err := json.Unmarshal(input, &in); err != nil {
		return Request{}, fmt.Errorf("decode the command: %w", err)
	}
	r := Request{Program: in.Program, Input: in.Input, Args: make([]string, len(in.Argument))}
	for i, a := range in.Argument {
		r.Args[i] = a.Text
	}
	return r, nil
}

// Answer is the output of the action.
type Answer struct {
	Output string `json:"output,omitempty"`
	Code   int    `json:"code"`
	Error  string `json:"error,omitempty"`
	// Table is set if another cube has the table that the command is about: then Output, Code and Error are for a table
	// without rules, and Changes says whether the command would change it.
	Table   string `json:"table,omitempty"`
	Changes bool   `json:"changes,omitempty"`
}

// ElsewhereError is the error of Views for a table that another cube has.
type ElsewhereError struct{ Table string }

func (e *ElsewhereError) Error() string { return "another cube has the table " + e.Table }

// result is the result of a command for the table without rules.
func (e *ElsewhereError) result(family language.Family, run func(*View) (Result, error)) (Result, error) {
	v, err := Parse(family, e.Table, "", true)
	if err != nil {
		return Result{}, err
	}
	r, err := run(v)
	is := Result{elsewhere: Answer{Output: r.Output, Table: e.Table, Changes: len(r.Edits) > 0}}
	if failed := (*Error)(nil); errors.As(err, &failed) {
		is.elsewhere.Code, is.elsewhere.Error = failed.Code, failed.Text
		err = nil
	}
	return is, err
}

// Answer is the answer to a command with a result.
func (r *Result) Answer() Answer {
	if r.elsewhere.Table != "" {
		return r.elsewhere
	}
	return Answer{Output: r.Output}
}

// Failure returns the answer to a command that has failed by an Error; another error is returned as it is.
func Failure(err error) (Answer, error) {
	var failed *Error
	if errors.As(err, &failed) {
		return Answer{Code: failed.Code, Error: err.Error()}, nil
	}
	return Answer{}, err
}
