package llm

import (
	"errors"
	"reflect"
	"strconv"
	"strings"
	"testing"
)

// responses returns complete responses with blocks of every type.
func responses() map[string]*Response {
	ext := Ext{Protocol: "p", Members: []Member{{Name: "x", Value: "[1.0]"}}}
	return map[string]*Response{
		"text": {ID: "r", Model: "m", Created: 7, Tier: "flex", Usage: &Usage{Input: 3, Output: 4}, Ext: ext, Choices: []Choice{
			{Blocks: []Block{&Text{Text: "hi", Phase: "final_answer", Logprobs: `[{"t":1},{"t":2}]`,
				Citations: []Citation{{End: 2, URL: "u"}, {End: 1, Protocol: "p", Raw: "{}"}}}}, Stop: Stop{Kind: EndTurn, Raw: "stop"}, Ext: ext},
		}},
		"everything": {ID: "r", Choices: []Choice{
			{Index: 0, Stop: Stop{Kind: MaxTokens}}, // an empty choice
			{Index: 1, Blocks: []Block{
				&Thought{Parts: []ThoughtPart{{Form: FullReasoning, Text: "a"}, {Form: SummaryReasoning, Text: ""}, {Form: SummaryReasoning, Text: "b"}},
					Meta: Meta{Seals: []Seal{{Form: Signature, Data: "s", Origin: "anthropic"}, {Form: Encrypted, Data: "e", Origin: "anthropic"}}}},
				&Thought{Meta: Meta{ID: "t", Seals: []Seal{{Form: Redacted, Data: "r", Origin: "anthropic"}}}},
				&Text{Meta: Meta{Ext: ext}},
				&Refusal{Text: "no", Logprobs: `[1]`},
				&ToolCall{CallID: "c", Kind: FunctionTool, Name: "f", Namespace: "n", Args: `{"a": 1.0}`, Synthetic: true, Meta: Meta{Seals: []Seal{{Form: Signature, Data: "g", Origin: "gemini"}}}},
				&ToolCall{CallID: "d", Kind: CustomTool, Name: "g"},
				&ServerCall{Protocol: "anthropic", Type: "x", Raw: "{}", Digest: "d", Meta: Meta{Seals: []Seal{{Form: Signature, Data: "k", Origin: "gemini"}}}},
				&Opaque{Protocol: "p", Type: "y", Raw: "[]"},
			}, Stop: Stop{Kind: ToolUse}},
		}},
		"nothing": {},
	}
}

// Explode returns a stream from which a Collector builds the same response, any number of
// times. protocoltest checks that the stream is valid.
func TestExplodeAndCollect(t *testing.T) {
	for name, r := range responses() {
		events := Explode(r)
		for range 2 {
			var c Collector
			for _, e := range events {
				if err := c.Add(e); err != nil {
					t.Fatal(err)
				}
			}
			for range 2 {
				got, err := c.Response()
				if err != nil || !reflect.DeepEqual(got, responses()[name]) {
					t.Errorf("%s: %v\n got %+v\nwant %+v", name, err, got, r)
				}
			}
		}
		if !reflect.DeepEqual(r, responses()[name]) {
			t.Errorf("%s: Explode or Collector changed the response", name)
		}
	}
}

func TestCollectorJoinsDeltas(t *testing.T) {
	usage := Usage{Input: 2}
	var c Collector
	for _, e := range []Event{
		Start{ID: "r", Usage: &Usage{Input: 1}},
		Ping{},
		BlockStart{0, 0, &Text{}},
		BlockStart{0, 1, &ToolCall{CallID: "c", Name: "f", Args: `{"a"`}},
		Delta{Index: 0, Text: "one "},
		Delta{Index: 1, Text: `:1}`},
		Delta{Index: 0, Text: "two"},
		Logprobs{0, 0, "1,2"}, Logprobs{0, 0, "3"},
		SealDelta{0, 0, Seal{Form: Signature, Data: "old", Origin: "gemini"}},
		SealDelta{0, 0, Seal{Form: Signature, Data: "new", Origin: "gemini"}},
		BlockEnd{0, 1}, BlockEnd{0, 0},
		UsageUpdate{Usage: usage},
		ChoiceEnd{Stop: Stop{Kind: ToolUse}}, End{},
	} {
		if err := c.Add(e); err != nil {
			t.Fatal(err)
		}
	}
	want := &Response{ID: "r", Usage: &usage, Choices: []Choice{{Stop: Stop{Kind: ToolUse}, Blocks: []Block{
		&Text{Text: "one two", Logprobs: "[1,2,3]", Meta: Meta{Seals: []Seal{{Form: Signature, Data: "new", Origin: "gemini"}}}},
		&ToolCall{CallID: "c", Name: "f", Args: `{"a":1}`},
	}}}}
	if got, err := c.Response(); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v\n got %+v\nwant %+v", err, got, want)
	}
}

// TestCollectorJoinsParts collects a thought whose parts come in turn.
func TestCollectorJoinsParts(t *testing.T) {
	var c Collector
	events := []Event{BlockStart{Block: &Thought{}}}
	for i := range 9 {
		events = append(events, Delta{Part: i % 3, Text: strconv.Itoa(i)})
	}
	for _, e := range append(events, BlockEnd{}, ChoiceEnd{}, End{}) {
		if err := c.Add(e); err != nil {
			t.Fatal(err)
		}
	}
	got, err := c.Response()
	if err != nil {
		t.Fatal(err)
	}
	want := []ThoughtPart{{FullReasoning, "036"}, {FullReasoning, "147"}, {FullReasoning, "258"}}
	if parts := got.Choices[0].Blocks[0].(*Thought).Parts; !reflect.DeepEqual(parts, want) {
		t.Errorf("%v", parts)
	}
}

func TestCollectorRejects(t *testing.T) {
	failure := &Error{Kind: Upstream, Message: "m"}
	text := BlockStart{0, 0, &Text{}}
	for name, c := range map[string]struct {
		limit  int
		events []Event
		want   string
	}{
		"no end":              {0, []Event{Start{}, text}, ErrIncomplete.Error()},
		"failure":             {0, []Event{Start{}, Failure{failure}}, "m"},
		"too large":           {200, []Event{Start{}, text, Delta{Text: strings.Repeat("x", 100)}}, ErrTooLarge.Error()},
		"many empty blocks":   {300, []Event{Start{}, text, BlockStart{0, 1, &Text{}}, BlockStart{0, 2, &Text{}}}, ErrTooLarge.Error()},
		"large image":         {200, []Event{Start{}, BlockStart{0, 0, &Media{Data: strings.Repeat("x", 100)}}}, ErrTooLarge.Error()},
		"large output":        {200, []Event{Start{}, BlockStart{0, 0, &ServerCall{Raw: Raw(strings.Repeat("x", 100))}}}, ErrTooLarge.Error()},
		"large citation":      {300, []Event{Start{}, text, Cite{Citation: Citation{URL: strings.Repeat("x", 100)}}}, ErrTooLarge.Error()},
		"large logprobs":      {200, []Event{Start{}, text, Logprobs{Raw: Raw(strings.Repeat("x", 100))}}, ErrTooLarge.Error()},
		"large seal":          {200, []Event{Start{}, text, SealDelta{Seal: Seal{Data: strings.Repeat("x", 100)}}}, ErrTooLarge.Error()},
		"many choices":        {300, []Event{Start{}, ChoiceEnd{}, ChoiceEnd{Choice: 1}, ChoiceEnd{Choice: 2}}, ErrTooLarge.Error()},
		"block out of order":  {0, []Event{Start{}, BlockStart{0, 1, &Text{}}}, "block 1 starts, want block 0"},
		"delta of no block":   {0, []Event{Start{}, Delta{}}, "has not started"},
		"negative block":      {0, []Event{Start{}, Delta{Index: -1}}, "has not started"},
		"seal of no block":    {0, []Event{Start{}, SealDelta{}}, "has not started"},
		"citation, no block":  {0, []Event{Start{}, Cite{}}, "has not started"},
		"logprobs, no block":  {0, []Event{Start{}, Logprobs{}}, "has not started"},
		"part far out of row": {0, []Event{Start{}, BlockStart{0, 0, &Thought{}}, Delta{Part: 1 << 40}}, "part"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := collectAll(c.limit, c.events); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

func collectAll(limit int, events []Event) error {
	c := Collector{Limit: limit}
	for _, e := range events {
		if err := c.Add(e); err != nil {
			return err
		}
	}
	_, err := c.Response()
	return err
}

func TestCollectorReturnsTheFailure(t *testing.T) {
	want := &Error{Kind: Overloaded, Message: "m"}
	var got *Error
	if err := collectAll(0, []Event{Failure{want}}); !errors.As(err, &got) || got != want {
		t.Errorf("%v", err)
	}
}

func FuzzExplodeAndCollect(f *testing.F) {
	f.Add("text", "thought", `{"a":1}`, "seal", 2, int64(3))
	f.Add("", "", "", "", 0, int64(0))
	f.Fuzz(func(t *testing.T, text, thought, args, seal string, index int, tokens int64) {
		r := &Response{ID: text, Usage: &Usage{Input: tokens}, Choices: []Choice{{Index: index, Stop: Stop{Kind: Other, Raw: text}, Blocks: []Block{
			&Thought{Parts: []ThoughtPart{{Form: SummaryReasoning, Text: thought}, {Form: FullReasoning, Text: text}}, Meta: Meta{Seals: []Seal{{Form: Signature, Data: seal, Origin: "gemini"}}}},
			&Text{Text: text}, &Refusal{Text: thought},
			&ToolCall{CallID: "c", Name: "f", Args: args},
		}}}}
		var c Collector
		for _, e := range Explode(r) {
			if err := c.Add(e); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := c.Response(); err != nil || !reflect.DeepEqual(got, r) {
			t.Errorf("%v\n got %+v\nwant %+v", err, got, r)
		}
	})
}
