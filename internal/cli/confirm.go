// SPDX-License-Identifier: Apache-2.0

// Deleting a whole list. The user may have forgotten a key, so the daemon, which knows what is a list, asks instead of
// deleting. On a terminal the client asks the user; a script must give --all.

package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/polycube/polycube/internal/cli/output"
)

// flagAll says that del means the whole list.
const flagAll = "--all"

// confirmation is a response that asks whether a whole list is meant.
type confirmation struct {
	message  string   // what to type instead
	question string   // "" for an empty list
	lost     []string // what is lost
}

// confirmationOf parses the question of a response, if it has one.
func confirmationOf(a answer) (confirmation, bool) {
	v, err := output.DecodeJSON(a.body)
	if err != nil {
		return confirmation{}, false
	}
	envelope, _ := v.Get("ietf-restconf:errors")
	list, _ := envelope.Get("error")
	if len(list.Items) != 1 || list.Items[0].TextOf("error-tag") != "confirmation-required" {
		return confirmation{}, false
	}
	e := list.Items[0]
	return confirmation{message: e.TextOf("error-message"), question: e.TextOf("question"), lost: details(e)}, true
}

// deleteList repeats the request of a plan for the whole list, if the user says yes.
func (s *session) deleteList(c *client, p plan, asked answer, ask confirmation) error {
	switch {
	case !isTerminal(s.stdin):
		return &usageError{message: ask.message, usage: p.usage}
	case ask.question == "":
		fmt.Fprintln(s.stderr, "Nothing to delete.")
		return nil
	}
	for _, line := range ask.lost {
		fmt.Fprintln(s.stderr, line)
	}
	if err := s.askUser(output.Clean(ask.question), "nothing was deleted"); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.config.timeout)
	defer cancel()
	s.sent = p.req
	s.sent.query, s.sent.ifMatch = "all", asked.tag
	a, err := c.do(ctx, s.sent)
	if err != nil {
		return err
	}
	switch s.status = a.status; {
	case a.status == http.StatusPreconditionFailed:
		return &serverError{"nothing was deleted: the cube changed before you answered; check it again"}
	case !a.ok():
		return &serverError{sentences(a)}
	}
	return nil
}

// askUser asks the user. The error says what happens otherwise.
func (s *session) askUser(question, otherwise string) error {
	fmt.Fprintf(s.stderr, "%s [y/N] ", question)
	reply, err := bufio.NewReader(s.stdin).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return &exitError{code: ExitDeclined, message: otherwise + ": read the reply: " + err.Error()}
	}
	if reply = strings.ToLower(strings.TrimSpace(reply)); reply != "y" && reply != "yes" {
		return &exitError{code: ExitDeclined, message: otherwise}
	}
	return nil
}
