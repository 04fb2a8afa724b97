// SPDX-License-Identifier: Apache-2.0

package commands

// Requests to carry out a command, as cubes get them by an action: grouping `command` of polycube-iptables.yang.

import (
	"encoding/json"
	"errors"
	"fmt"
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
}

// Failure returns the answer to a command that has failed by an Error; another error is returned as it is.
func Failure(err error) (Answer, error) {
	var failed *Error
	if errors.As(err, &failed) {
		return Answer{Code: failed.Code, Error: err.Error()}, nil
	}
	return Answer{}, err
}
