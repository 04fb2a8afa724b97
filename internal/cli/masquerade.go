// SPDX-License-Identifier: Apache-2.0

// One command for the most common wish: hosts behind this machine share the address of a network interface. It
// consists of ordinary requests: a nat cube is created, with its place and configuration in one of them.

package cli

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/polycube/polycube/internal/cli/output"
	"github.com/polycube/polycube/internal/suggest"
)

// masquerading is a nat cube as this command sees it.
type masquerading struct {
	Name, Parent string
	Rule         struct {
		Snat, Dnat     struct{ Entry []json.RawMessage }
		PortForwarding struct{ Entry []json.RawMessage } `json:"port-forwarding"`
		Masquerade     struct {
			Enabled    bool
			ExternalIP []string `json:"external-ip"`
		}
	}
	Sessions struct{ Active json.Number }
}

// alone reports whether the cube only masquerades.
func (m masquerading) alone() bool {
	return len(m.Rule.Snat.Entry)+len(m.Rule.Dnat.Entry)+len(m.Rule.PortForwarding.Entry) == 0
}

func (m masquerading) addresses() string {
	if len(m.Rule.Masquerade.ExternalIP) == 0 {
		return "-"
	}
	return strings.Join(m.Rule.Masquerade.ExternalIP, ",")
}

// masquerader configures nat cubes, with ordinary requests.
type masquerader struct {
	demand func(request) (answer, error)
	stdout *bufio.Writer
}

// masquerade executes the command.
func masquerade(s *session, _ string, words []string) error {
	return (&masquerader{demand: s.demand, stdout: s.stdout}).masquerade(words)
}

func (m *masquerader) masquerade(words []string) error {
	asJSON := slices.Contains(words, "-json")
	words = slices.DeleteFunc(slices.Clone(words), func(w string) bool { return w == "-json" })
	usage := aliases["masquerade"].Usage
	if i := slices.IndexFunc(words, func(w string) bool { return strings.HasPrefix(w, "-") }); i >= 0 {
		return &usageError{message: unknownFlag("masquerade", words[i]), usage: usage}
	}
	verb := "show"
	if len(words) > 0 {
		switch verb = words[0]; verb {
		case "show", "del", "add":
			words = words[1:]
		default:
			verb = "add"
		}
	}
	if len(words) > 1 || len(words) == 0 && verb != "show" {
		near := suggest.Near(strings.Join(words[:min(1, len(words))], ""), []string{"show", "del"})
		return &usageError{message: fmt.Sprintf("masquerade %s takes one netdev or port, but %d are given%s", verb, len(words), suggest.Question(near)), usage: usage}
	}
	if asJSON && verb != "show" {
		return &usageError{message: "-json is accepted only with masquerade show", usage: usage}
	}
	all, err := m.nats()
	if err != nil {
		return err
	}
	switch place := strings.Join(words, ""); verb {
	case "add":
		return m.startMasquerading(place, all)
	case "del":
		return m.stopMasquerading(place, all)
	default:
		return m.showMasquerading(place, all, asJSON)
	}
}

// nats are the cubes of service nat.
func (m *masquerader) nats() ([]masquerading, error) {
	a, err := m.demand(request{method: "GET", path: []string{"nat"}})
	if err != nil {
		return nil, err
	}
	var all []masquerading
	if err := json.Unmarshal(a.body, &all); err != nil {
		return nil, fmt.Errorf("cannot parse the daemon's response: %w", err)
	}
	return all, nil
}

// startMasquerading creates a cube at a place, or enables masquerading of an existing one.
func (m *masquerader) startMasquerading(place string, all []masquerading) error {
	addresses, remedy := m.addressesOfNetdev, "ip addr add ADDRESS/LENGTH dev "+place
	name, port, isPort := strings.Cut(place, ":")
	if isPort {
		addresses = func(string) ([]string, error) { return m.addressesOfPort(name, port) }
		remedy = fmt.Sprintf("polycubectl %s ports %s set ip=ADDRESS/LENGTH", name, port)
	}
	list, err := addresses(place)
	if err != nil {
		return err
	}
	if list = usable(list); len(list) == 0 {
		return &serverError{fmt.Sprintf("%s has no address to masquerade with: add one first (%s)", place, remedy)}
	}
	for _, n := range all {
		switch {
		case n.Parent != place:
		case n.Rule.Masquerade.Enabled:
			fmt.Fprintf(m.stdout, "%s is already masqueraded by %s: %s\n", place, output.Clean(n.Name), output.Clean(n.addresses()))
			return nil
		default:
			return m.switchOn(place, n.Name)
		}
	}
	name = nameFor(place, func(name string) bool {
		return slices.ContainsFunc(all, func(n masquerading) bool { return n.Name == name })
	})
	body, err := json.Marshal([]map[string]any{{"service-name": "nat", "name": name, "parent": place,
		"rule": map[string]any{"masquerade": map[string]any{"enabled": true}}}})
	if err != nil {
		return fmt.Errorf("encode the request: %w", err)
	}
	if _, err := m.demand(request{method: "POST", path: []string{"cubes"}, body: body}); err != nil {
		return err
	}
	fmt.Fprintf(m.stdout, "%s is masqueraded by %s: %s\n", place, name, output.Clean(strings.Join(list, ",")))
	return nil
}

// switchOn enables masquerading of a cube that exists at the place for another reason.
func (m *masquerader) switchOn(place, name string) error {
	a, err := m.demand(request{method: "POST", path: []string{"nat", name, "rule", "masquerade", "enable"}})
	if err != nil {
		return err
	}
	v, err := output.DecodeJSON(a.body)
	if err != nil {
		return fmt.Errorf("cannot parse the daemon's response: %w", err)
	}
	if v.TextOf("result") != "true" {
		return &serverError{fmt.Sprintf("%s has no address to masquerade with", place)}
	}
	fmt.Fprintf(m.stdout, "%s is masqueraded by %s, an existing cube\n", place, output.Clean(name))
	return nil
}

// addressesOfPort are the addresses of a cube's port, none if ports have no addresses.
func (m *masquerader) addressesOfPort(cube, port string) ([]string, error) {
	a, err := m.demand(request{method: "GET", path: []string{cube, "ports", port}})
	if err != nil {
		return nil, err
	}
	var found struct {
		IP          string
		Secondaryip []struct{ IP string }
	}
	if err := json.Unmarshal(a.body, &found); err != nil {
		return nil, fmt.Errorf("cannot parse the daemon's response: %.200s", a.body)
	}
	out := []string{found.IP}
	for _, s := range found.Secondaryip {
		out = append(out, s.IP)
	}
	return out, nil
}

func (m *masquerader) addressesOfNetdev(netdev string) ([]string, error) {
	a, err := m.demand(request{method: "GET", path: []string{"netdevs", netdev}})
	if err != nil {
		return nil, err
	}
	var found []struct{ Addresses []string }
	if err := json.Unmarshal(a.body, &found); err != nil || len(found) != 1 {
		return nil, fmt.Errorf("cannot parse the daemon's response: %.200s", a.body)
	}
	return found[0].Addresses, nil
}

// usable are the addresses that a nat cube could use.
func usable(addresses []string) []string {
	var out []string
	families := map[bool]bool{}
	for _, text := range addresses {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			continue
		}
		addr := p.Addr()
		if addr.IsLinkLocalUnicast() || addr.IsLoopback() || families[addr.Is4()] {
			continue
		}
		families[addr.Is4()] = true
		out = append(out, addr.String())
	}
	slices.SortStableFunc(out, func(a, b string) int { return strings.Count(a, ":") - strings.Count(b, ":") })
	return out
}

// nameFor is the name of a cube for a place.
func nameFor(place string, taken func(string) bool) string {
	const longest = 64
	base := "masquerade-" + strings.Map(func(r rune) rune {
		if strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._+-", r) {
			return r
		}
		return '-'
	}, place)
	base = base[:min(len(base), longest-4)]
	name := base
	for n := 2; taken(name); n++ {
		name = fmt.Sprintf("%s-%d", base, n)
	}
	return name
}

// stopMasquerading deletes a cube that does nothing else, or disables its masquerading.
func (m *masquerader) stopMasquerading(place string, all []masquerading) error {
	i := slices.IndexFunc(all, func(n masquerading) bool { return n.Parent == place && n.Rule.Masquerade.Enabled })
	if i < 0 {
		return &serverError{fmt.Sprintf("%s is not masqueraded%s", place, masqueradedPlaces(all))}
	}
	n := all[i]
	r := request{method: "DELETE", path: []string{"nat", n.Name}}
	what := "%s is no longer masqueraded; %s is deleted\n"
	if !n.alone() || !strings.HasPrefix(n.Name, "masquerade-") {
		r = request{method: "POST", path: []string{"nat", n.Name, "rule", "masquerade", "disable"}}
		what = "%s is no longer masqueraded; %s stays, because it has other rules or ports\n"
	}
	if _, err := m.demand(r); err != nil {
		return err
	}
	fmt.Fprintf(m.stdout, what, place, output.Clean(n.Name))
	return nil
}

// masqueradedPlaces lists the masqueraded places.
func masqueradedPlaces(all []masquerading) string {
	var places []string
	for _, n := range all {
		if n.Rule.Masquerade.Enabled && n.Parent != "" {
			places = append(places, n.Parent)
		}
	}
	if len(places) == 0 {
		return ""
	}
	return ", masqueraded are: " + strings.Join(places, ", ")
}

// showMasquerading prints the masqueraded places.
func (m *masquerader) showMasquerading(place string, all []masquerading, asJSON bool) error {
	all = slices.DeleteFunc(slices.Clone(all), func(n masquerading) bool {
		return !n.Rule.Masquerade.Enabled || n.Parent == "" || place != "" && n.Parent != place
	})
	if place != "" && len(all) == 0 {
		return &serverError{place + " is not masqueraded"}
	}
	if asJSON {
		rows := []map[string]any{}
		for _, n := range all {
			rows = append(rows, map[string]any{"place": n.Parent, "cube": n.Name, "external-ip": n.Rule.Masquerade.ExternalIP, "sessions": n.Sessions.Active})
		}
		body, err := json.Marshal(rows)
		if err != nil {
			return fmt.Errorf("encode the output: %w", err)
		}
		return output.Print(m.stdout, body, output.Options{Form: output.FormJSON}, false)
	}
	if len(all) == 0 {
		return nil
	}
	w := tabwriter.NewWriter(m.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "place\tcube\texternal-ip\tsessions")
	for _, n := range all {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", output.Clean(n.Parent), output.Clean(n.Name), output.Clean(n.addresses()), output.Clean(n.Sessions.Active.String()))
	}
	return w.Flush()
}

// masqueradeWords completes the command.
func (t *completer) masqueradeWords(words []string, current string) []string {
	if len(words) > 0 && words[0] == "show" && strings.HasPrefix(current, "-") {
		return []string{"-json"}
	}
	var places []string
	switch {
	case len(words) == 0 || len(words) == 1 && words[0] == "add":
		places = t.ask(command{path: []string{"attach", "a"}}, "word", current)
	case len(words) == 1 && (words[0] == "del" || words[0] == "show"):
		all, err := (&masquerader{demand: t.demand}).nats()
		if err != nil {
			return nil
		}
		for _, n := range all {
			if n.Rule.Masquerade.Enabled && n.Parent != "" {
				places = append(places, n.Parent)
			}
		}
	}
	places = slices.DeleteFunc(places, placeholder)
	if len(words) == 0 {
		places = append(places, "show", "del")
	}
	return places
}
