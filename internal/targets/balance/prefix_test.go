package balance

import (
	"slices"
	"strings"
	"testing"
)

func prefixes(system, tools, turns string) []uint64 {
	return AppendPrefixes(nil, Parts{System: []byte(system), Tools: []byte(tools), Turns: []byte(turns)})
}

// TestPrefixesStayOverTheTurns checks that a conversation keeps its prefixes from turn to
// turn, in each dialect.
func TestPrefixesStayOverTheTurns(t *testing.T) {
	const tools = `[{"name":"f","parameters":{"type":"object"}}]`
	for name, tc := range map[string]struct {
		system string
		turns  []string // of the same conversation
		other  string   // a conversation with the same system prompt
	}{
		"chat": {
			turns: []string{
				`[{"role":"system","content":"Be brief."},{"role":"user","content":"Hi"}]`,
				`[{"role":"system","content":"Be brief."},{"role":"user","content":"Hi"},{"role":"assistant","content":"Yes?"},{"role":"user","content":"Well"}]`,
				`[{"role":"system","content":"Be brief."},{"role":"user","content":"Hi"},{"role":"assistant","content":null,"tool_calls":[{"id":"c"}]},{"role":"tool","content":"1"}]`,
				`[ {"content" : "Be brief.", "role" : "developer"}, {"content":[{"text":"Hi","type":"text"}],"role":"user"} ]`,
			},
			other: `[{"role":"system","content":"Be brief."},{"role":"user","content":"Hi!"}]`,
		},
		"responses": {
			system: `"Be brief."`,
			turns: []string{
				`"Hi"`,
				`[{"role":"user","content":"Hi"}]`,
				`[{"type":"message","role":"user","content":[{"type":"input_text","text":"Hi"}]},{"type":"reasoning","id":"rs_1","summary":[]},{"type":"function_call","name":"f"},{"type":"function_call_output","output":"1"}]`,
			},
			other: `"Hi \"you\""`,
		},
		"responses, several items before the answer": {
			system: `"Be brief."`,
			turns: []string{
				`[{"role":"developer","content":"D"},{"role":"user","content":"the folder is /tmp"},{"role":"user","content":"Hi"}]`,
				`[{"role":"developer","content":"D"},{"role":"user","content":"the folder is /tmp"},{"role":"user","content":"Hi"},{"role":"assistant","content":"Yes?"},{"role":"user","content":"Hi"}]`,
			},
			other: `[{"role":"developer","content":"D"},{"role":"user","content":"the folder is /tmp"},{"role":"user","content":"Ho"}]`,
		},
		"anthropic, with a mark for the cache that moves": {
			system: `[{"type":"text","text":"Be brief.","cache_control":{"type":"ephemeral"}}]`,
			turns: []string{
				`[{"role":"user","content":[{"type":"text","text":"Hi","cache_control":{"type":"ephemeral","ttl":"1h"}}]}]`,
				`[{"role":"user","content":[{"type":"text","text":"Hi"}]},{"role":"assistant","content":"Yes?"},{"role":"user","content":[{"type":"text","text":"Well","cache_control":{"type":"ephemeral"}}]}]`,
				`[{"role":"user","content":"Hi"},{"role":"assistant","content":"Yes?"},{"role":"user","content":"Well"},{"role":"assistant","content":"No"}]`,
			},
			other: `[{"role":"user","content":"Hi \\"}]`,
		},
		"gemini, with the role at the end": {
			system: `{"parts":[{"text":"Be brief."}]}`,
			turns: []string{
				`[{"parts":[{"text":"Hi"}]}]`,
				`[{"parts":[{"text":"Hi"}],"role":"user"},{"parts":[{"text":"Yes?"}],"role":"model"}]`,
				`[{"parts":[{"text":"Hi"}],"role":"user"},{"parts":[{"functionCall":{"name":"f"}}],"role":"model"},{"parts":[{"text":"x"}],"role":"user"}]`,
			},
			other: `[{"parts":[{"text":"Hi"},{"inlineData":{"mimeType":"image/png","data":"AAAA"}}]}]`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			want := prefixes(tc.system, tools, tc.turns[0])
			if len(want) != 2 || want[0] == want[1] {
				t.Fatalf("%x", want)
			}
			for i, turns := range tc.turns {
				if got := prefixes(tc.system, tools, turns); !slices.Equal(got, want) {
					t.Errorf("turn %d: %x, want %x", i, got, want)
				}
			}
			if got := prefixes(tc.system, tools, tc.other); got[0] != want[0] || got[1] == want[1] {
				t.Errorf("another conversation: %x, want the first as in %x", got, want)
			}
			if got := prefixes(tc.system, `[]`, tc.turns[0]); got[0] == want[0] || got[1] == want[1] {
				t.Errorf("with other tools: %x, want none as in %x", got, want)
			}
		})
	}
}

func TestPrefixesOfPartialRequests(t *testing.T) {
	for _, tc := range []struct {
		name                 string
		system, tools, turns string
		want                 int
	}{
		{"nothing", ``, ``, ``, 0},
		{"no turns", `"s"`, `[]`, `[]`, 1},
		{"no system", ``, ``, `[{"role":"user","content":"Hi"}]`, 1},
		{"only a system turn", ``, ``, `[{"role":"system","content":"s"}]`, 1},
		{"the model speaks first", ``, ``, `[{"role":"assistant","content":"Hi"},{"role":"user","content":"x"}]`, 0},
		{"no texts", ``, ``, `[1, null, {}, [], {"role":"user"}]`, 0},
		{"not closed", ``, ``, `[{"role":"user","content":"Hi`, 1},
		{"closed too often", ``, ``, `]]}}"x"`, 0},
	} {
		if got := prefixes(tc.system, tc.tools, tc.turns); len(got) != tc.want {
			t.Errorf("%s: %x, want %d", tc.name, got, tc.want)
		}
	}
}

// TestSystemTurnInTheMiddle checks that system texts after the first user turn belong to
// the conversation.
func TestSystemTurnInTheMiddle(t *testing.T) {
	a := prefixes(``, ``, `[{"role":"system","content":"s"},{"role":"user","content":"u"},{"role":"system","content":"1"}]`)
	b := prefixes(``, ``, `[{"role":"system","content":"s"},{"role":"user","content":"u"},{"role":"system","content":"2"}]`)
	if a[0] != b[0] || a[1] == b[1] {
		t.Errorf("%x %x", a, b)
	}
}

func TestPrefixesReadOnlyTheBeginning(t *testing.T) {
	long := strings.Repeat("x", maxRead)
	one := prefixes(``, ``, `[{"role":"user","content":"`+long+`1"}]`)
	two := prefixes(``, ``, `[{"role":"user","content":"`+long+`2"},{"role":"assistant","content":"y"}]`)
	if len(one) != 1 || !slices.Equal(one, two) {
		t.Errorf("%x %x", one, two)
	}
	// Conversations with the same long system prompt have different prefixes.
	system := `{"role":"system","content":"` + long[:maxRead/2] + `"}`
	one = prefixes(``, ``, `[`+system+`,{"role":"user","content":"1"}]`)
	two = prefixes(``, ``, `[`+system+`,{"role":"user","content":"2"}]`)
	if one[0] != two[0] || one[1] == two[1] {
		t.Errorf("%x %x", one, two)
	}
}

func TestPrefixesStayAcrossReleases(t *testing.T) {
	got := prefixes(`"Be brief."`, `[]`, `"Hi"`)
	if want := []uint64{0xdd3f88136310dc4a, 0xf3bab22187703a9}; !slices.Equal(got, want) {
		t.Errorf("%#x, were %#x", got, want)
	}
}

func FuzzAppendPrefixes(f *testing.F) {
	f.Add([]byte(`"s"`), []byte(`[]`), []byte(`[{"role":"user","content":"\\\"Hi"},{"role":"model"}]`))
	f.Add([]byte(`{`), []byte(``), []byte(`[{"a":"\`))
	f.Fuzz(func(t *testing.T, system, tools, turns []byte) {
		p := Parts{system, tools, turns}
		got := AppendPrefixes(nil, p)
		if len(got) > 2 || !slices.Equal(got, AppendPrefixes(nil, p)) {
			t.Errorf("%x", got)
		}
	})
}
