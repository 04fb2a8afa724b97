// SPDX-License-Identifier: Apache-2.0

package yang

import (
	"context"
	"fmt"
	"strings"
	"testing"
)

// TestAMemberThatIsThereTwiceIsFound: among few members and among many, which are looked up in another way.
func TestAMemberThatIsThereTwiceIsFound(t *testing.T) {
	for _, others := range []int{0, 1, fewMembers - 2, fewMembers - 1, fewMembers, 5 * fewMembers} {
		var members []string
		for i := range others {
			members = append(members, fmt.Sprintf(`"m%d":%d`, i, i))
		}
		once := "{" + strings.Join(append(members, `"a":1`), ",") + "}"
		if v, err := parseBody(context.Background(), []byte(once), nil, false); err != nil || len(v.members) != others+1 {
			t.Errorf("%d others: %d members, %v", others, len(v.members), err)
		}
		for _, twice := range []string{
			"{" + strings.Join(append(append([]string{`"a":1`}, members...), `"\u0061":2`), ",") + "}",
			"{" + strings.Join(append(members, `"a":1,"a":1`), ",") + "}",
		} {
			if _, err := parseBody(context.Background(), []byte(twice), nil, false); err == nil || err.Error() != `the body has "a" twice in the same object` {
				t.Errorf("%d others: %v", others, err)
			}
		}
	}
}

// TestABodyThatIsNoJSONIsExplained: the sentence is that of encoding/json, and comes where the first mistake is.
func TestABodyThatIsNoJSONIsExplained(t *testing.T) {
	for body, want := range map[string]string{
		`{`:                `the body is not JSON: unexpected EOF`,
		`{"a":1`:           `the body is not JSON: unexpected EOF`,
		`{"a":1} {}`:       `unexpected text after the JSON value, at byte 9`,
		`[1]x`:             `unexpected text after the JSON value, at byte 3`,
		`{"a":}`:           `the body is not JSON: invalid character '}' looking for beginning of value`,
		`{"a" 1}`:          `the body is not JSON: invalid character '1' after object key`,
		`[1 2]`:            `the body is not JSON: invalid character '2' after array element`,
		`tru`:              `the body is not JSON: unexpected EOF`,
		`{"a":1,"a":2,`:    `the body has "a" twice in the same object`,
		`{"a":01}`:         `the body is not JSON: invalid character '1' after object key:value pair`,
		"{\"a\":\"\n\"}":   `the body is not JSON: invalid character '\n' in string literal`,
		`{"a":"\ud83d\q"}`: `the body is not JSON: invalid character 'q' in string escape code`,
	} {
		if _, err := parseBody(context.Background(), []byte(body), nil, false); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", body, err, want)
		}
	}
}
