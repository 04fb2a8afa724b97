// SPDX-License-Identifier: Apache-2.0

package ipset

import (
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/polycube/polycube/test/netns"
)

func TestMain(m *testing.M) { os.Exit(netns.CheckLeaks(m)) }

func TestCommandsArePrintedAsIpsetPrintsThem(t *testing.T) {
	for line, want := range map[string]string{
		"create a hash:ip":                                "create a hash:ip family inet hashsize 1024 maxelem 65536",
		"-N a hash:net family inet6 hashsize 3":           "create a hash:net family inet6 hashsize 64 maxelem 65536",
		"-exist create m hash:mac counters":               "create m hash:mac hashsize 1024 maxelem 65536 counters -exist",
		"create p bitmap:port range 9-5 comment":          "create p bitmap:port range 5-9 comment",
		"create l list:set timeout 0 size 4":              "create l list:set size 4 timeout 0",
		"add a 1.1.1.1 -exist timeout 5":                  "add a 1.1.1.1 timeout 5 -exist",
		`add a 1.1.1.1 comment "a 'b'" packets 7 nomatch`: `add a 1.1.1.1 nomatch packets 7 bytes 0 comment "a 'b'"`,
		"add a 1.1.1.1 comment -exist":                    `add a 1.1.1.1 comment "-exist"`,
		"-D a 1.1.1.1":                                    "del a 1.1.1.1",
		"test a 1.1.1.1":                                  "test a 1.1.1.1",
		"add l a before b":                                "add l a before b",
		"swap a b":                                        "swap a b",
		"-E a b":                                          "rename a b",
		"x":                                               "destroy",
		"flush a":                                         "flush a",
		"list -t a":                                       "list a -terse",
		"-L -n":                                           "list -name",
		"save":                                            "save",
		"restore -!":                                      "restore -exist",
	} {
		if got := printed(t, line); got != want {
			t.Errorf("%s\n got %s\nwant %s", line, got, want)
		} else if again := printed(t, got); again != want {
			t.Errorf("%s is printed as %s and then as %s", line, got, again)
		}
	}
}

func printed(t *testing.T, line string) string {
	t.Helper()
	args, err := SplitLine(line)
	if err != nil {
		t.Fatal(err)
	}
	c, err := ReadCommand(args)
	if err != nil {
		return err.Error()
	}
	return c.String()
}

func TestCommandsThatAreRefusedNameTheArgument(t *testing.T) {
	for line, want := range map[string]string{
		"":                                 "no command specified",
		"grow a":                           `unknown command "grow"`,
		"add a":                            "add requires a set and more",
		"swap a":                           "swap requires two sets",
		"flush a b":                        `unknown argument "b"`,
		"create a hash:net,iface":          `the set type "hash:net,iface" is not supported`,
		"create a hash:ip forceadd":        `unknown argument "forceadd" of a set of type hash:ip`,
		"create a hash:mac family inet":    `unknown argument "family" of a set of type hash:mac`,
		"create a bitmap:port":             "the mandatory option range is missing",
		"create a hash:ip family ipv4":     `unknown family "ipv4": it is inet or inet6`,
		"create a hash:ip timeout 2147484": `timeout "2147484" is not a number from 0 to 2147483`,
		"create " + strings.Repeat("x", 32) + " hash:ip": `set name "` +
			strings.Repeat("x", 32) + `" is longer than 31 characters`,
		"add a 1.1.1.1 skbmark 1":  `unknown argument "skbmark"`,
		"del a 1.1.1.1 timeout 1":  `del does not take the option "timeout"`,
		"add a b before c after d": "before and after cannot be used together",
		"add a b --frob":           `unknown option "--frob"`,
		"save -t":                  "-name and -terse are for list, not for save",
	} {
		if got := printed(t, line); got != want {
			t.Errorf("%s\n got %s\nwant %s", line, got, want)
		}
	}
}

func TestElementsHaveThePartsOfTheirType(t *testing.T) {
	for _, tt := range []struct{ create, entry, want string }{
		{"hash:ip", "1.1.1.1", "1.1.1.1"}, {"hash:ip", "1.1.1.6/31", "1.1.1.6-1.1.1.7"},
		{"hash:ip", "1.1.1.6-1.1.1.9", "1.1.1.6-1.1.1.9"}, {"hash:ip family inet6", "2001:DB8::1", "2001:db8::1"},
		{"hash:net", "10.1.2.3/8", "10.0.0.0/8"}, {"hash:net", "10.1.2.3", "10.1.2.3"},
		{"hash:ip,port", "1.1.1.1,80", "1.1.1.1,tcp:80"}, {"hash:ip,port", "1.1.1.1,17:9-7", "1.1.1.1,udp:7-9"},
		{"hash:ip,port", "1.1.1.1,icmp:8/0", "1.1.1.1,icmp:echo-request"},
		{"hash:ip,port", "1.1.1.1,icmp:3/4", "1.1.1.1,icmp:3/4"}, {"hash:ip,port", "1.1.1.1,47:0", "1.1.1.1,47:0"},
		{"hash:net,port", "10.0.0.0/8,sctp:5", "10.0.0.0/8,sctp:5"},
		{"hash:ip,port,ip", "1.1.1.1,80,2.2.2.2", "1.1.1.1,tcp:80,2.2.2.2"},
		{"hash:mac", "aa:bb:cc:dd:ee:0f", "AA:BB:CC:DD:EE:0F"}, {"bitmap:port range 5-10", "7-6", "6-7"},
		{"list:set", "a", "a"},
		{"hash:ip", "::1", `bad IPv4 address "::1"`},
		{"hash:ip", "1.1.1.1/0", `bad prefix "1.1.1.1/0": its length is from 1 to 32`},
		{"hash:ip,port", "1.1.1.1", `element "1.1.1.1" of a set of type hash:ip,port has 1 parts, not 2`},
		{"hash:ip,port", "1.1.1.1,47:5", `bad port "5": a protocol without ports has port 0`},
		{"bitmap:port range 5-10", "11", `element "11" is out of the range 5-10 of the set`},
	} {
		c, err := ReadCommand(strings.Fields("create a " + tt.create))
		if err != nil {
			t.Fatal(err)
		}
		e, err := c.Header.Element(tt.entry)
		got := c.Header.Text(e)
		if err != nil {
			got = err.Error()
		} else if again, err := c.Header.Element(got); err != nil || again != e {
			t.Errorf("%s of %s is read again as %v (%v)", got, tt.create, again, err)
		}
		if got != tt.want {
			t.Errorf("%s %s: got %s, want %s", tt.create, tt.entry, got, tt.want)
		}
	}
}

// TestSavedSetsAreWrittenAsIpsetSavesThem compares with ipset, which restores what the package writes. The kernel of
// the tests may lack hash:mac.
func TestSavedSetsAreWrittenAsIpsetSavesThem(t *testing.T) {
	ns := netns.New(t)
	for _, line := range []string{
		"create a hash:ip counters comment timeout 0", "add a 1.1.1.1 timeout 0 comment words", "add a 1.1.1.4/30",
		"create b hash:net family inet6 maxelem 100", "add b 2001:db8::/32 nomatch", "add b 2001:db8::1",
		"create c hash:ip,port", "add c 1.1.1.1,udp:53", "add c 1.1.1.1,icmp:8/0", "add c 1.1.1.1,80-81",
		"create d hash:net,port", "add d 10.0.0.0/8,sctp:5", "create e hash:ip,port,ip",
		"add e 1.1.1.1,udplite:80,2.2.2.2", "create f bitmap:port range 0-1023 counters", "add f 80 packets 3 bytes 9",
		"create g list:set size 4", "add g a", "add g c before a",
	} {
		ns.Run("ipset", strings.Fields(line)...)
	}
	want := ns.Run("ipset", "save")
	commands, err := ReadSave(strings.NewReader(want))
	if err != nil {
		t.Fatalf("%v\n%s", err, want)
	}
	headers := map[string]Header{}
	for i, c := range commands {
		if c.Op == "create" {
			headers[c.Set] = c.Header
			continue
		}
		e, err := headers[c.Set].Element(c.Entry)
		if err != nil {
			t.Errorf("%s: %v", c, err)
		}
		commands[i].Entry = headers[c.Set].Text(e)
	}
	if got := written(t, commands); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	destroy := func() {
		ns.Run("ipset", "destroy", "g") // which refers to others
		ns.Run("ipset", "destroy")
	}
	destroy()
	restore := ns.Command("ipset", "restore")
	restore.Stdin = strings.NewReader(written(t, commands))
	if out, err := restore.CombinedOutput(); err != nil {
		t.Fatalf("ipset restore: %v: %s", err, out)
	}
	if got := ns.Run("ipset", "save"); sorted(got) != sorted(want) {
		t.Errorf("restored as\n%swant\n%s", got, want)
	}
	destroy()
}

// sorted returns the lines in order: that of a hash is not the order of its commands.
func sorted(text string) string {
	lines := strings.Split(text, "\n")
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func written(t *testing.T, commands []Command) string {
	t.Helper()
	var out strings.Builder
	if err := WriteSave(&out, commands); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestErrorsOfSaveFilesNameTheLine(t *testing.T) {
	for file, want := range map[string]string{
		"create a hash:ip\n\nadd a\n": "line 3: add requires a set and more",
		"# x\nlist\n":                 "line 2: the command list is not allowed in a save file",
		"add a 1 comment \"b\n":       `line 1: the quote before "b" has no end`,
		"add a 1 comment \"b\"c\n":    `line 1: no space follows the quoted argument "b"`,
	} {
		if _, err := ReadSave(strings.NewReader(file)); err == nil || err.Error() != want {
			t.Errorf("%q\n got %v\nwant %s", file, err, want)
		}
	}
}

// FuzzReadSave checks that a file that was read and written is read as the same commands, and that elements are too.
func FuzzReadSave(f *testing.F) {
	f.Add("create a hash:ip timeout 5 comment\nadd a 1.1.1.1 comment \"x y\" timeout 3\ndel a 1.1.1.0/24 -exist\n")
	f.Add("create b bitmap:port range 3-9 initval 0x12\nadd b 4-5\nswap a b\ncreate c list:set\nadd c a before b\n")
	f.Add("create d hash:net,port family inet6 hashsize 99\nadd d 2001:db8::/32,icmpv6:128/0 nomatch packets 1\n")
	f.Fuzz(func(t *testing.T, file string) {
		commands, err := ReadSave(strings.NewReader(file))
		if err != nil {
			return
		}
		text := written(t, commands)
		again, err := ReadSave(strings.NewReader(text))
		if err != nil || !reflect.DeepEqual(again, commands) {
			t.Fatalf("%q is written as %q and read as %v (%v), not %v", file, text, again, err, commands)
		}
		var h Header
		for _, c := range commands {
			if c.Op == "create" {
				h = c.Header
			}
			if h.Type == "" || c.Entry == "" {
				continue
			}
			e, err := h.Element(c.Entry)
			if err != nil {
				continue
			}
			if second, err := h.Element(h.Text(e)); err != nil || second != e {
				t.Fatalf("%q is printed as %q, which is read as %v (%v)", c.Entry, h.Text(e), second, err)
			}
		}
	})
}
