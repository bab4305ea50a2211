package llm

import (
	"strings"
	"testing"
)

func TestValidator(t *testing.T) {
	text := BlockStart{0, 0, &Text{}}
	call := func(id, name string) BlockStart { return BlockStart{0, 0, &ToolCall{CallID: id, Name: name}} }
	stop := ChoiceEnd{Stop: Stop{Kind: EndTurn}}
	for name, c := range map[string]struct {
		events []Event
		want   string // empty if the stream is valid
	}{
		"whole":                   {[]Event{Start{}, text, Delta{}, SealDelta{}, Cite{}, Logprobs{}, BlockEnd{}, stop, End{}}, ""},
		"two blocks open":         {[]Event{Start{}, text, BlockStart{0, 1, &Text{}}, Delta{Index: 1}, Delta{}, BlockEnd{0, 1}, BlockEnd{}, stop, End{}}, ""},
		"choices interleaved":     {[]Event{Start{}, text, BlockStart{1, 0, &Text{}}, BlockEnd{1, 0}, ChoiceEnd{Choice: 1, Stop: Stop{Kind: Other}}, BlockEnd{}, stop, End{}}, ""},
		"ping at any time":        {[]Event{Ping{}, Start{}, Ping{}, stop, Ping{}, End{}}, ""},
		"failure at once":         {[]Event{Failure{&Error{}}}, ""},
		"failure with open block": {[]Event{Start{}, text, Failure{&Error{}}}, ""},
		"growing usage":           {[]Event{Start{}, UsageUpdate{Usage: Usage{Input: 1}}, UsageUpdate{Usage: Usage{CacheRead: 2}}, stop, UsageUpdate{Usage: Usage{CacheRead: 2, Output: 1}}, End{}}, ""},

		"no start":                {[]Event{text}, "before Start"},
		"end without start":       {[]Event{End{}}, "before Start"},
		"two starts":              {[]Event{Start{}, Start{}}, "second Start"},
		"after end":               {[]Event{Start{}, End{}, Ping{}}, "after End or Failure"},
		"after failure":           {[]Event{Start{}, Failure{&Error{}}, End{}}, "after End or Failure"},
		"failure without error":   {[]Event{Failure{}}, "without an error"},
		"no last event":           {[]Event{Start{}, text, BlockEnd{}, stop}, "neither End nor Failure"},
		"block skips":             {[]Event{Start{}, BlockStart{0, 1, &Text{}}}, "want block 0"},
		"block twice":             {[]Event{Start{}, text, text}, "want block 1"},
		"block without kind":      {[]Event{Start{}, BlockStart{}}, "without a Block"},
		"call without id":         {[]Event{Start{}, call("", "f")}, "without an id"},
		"call without name":       {[]Event{Start{}, call("c", "")}, "without an id or a name"},
		"delta before block":      {[]Event{Start{}, Delta{}}, "not open"},
		"negative block":          {[]Event{Start{}, Delta{Index: -1}}, "not open"},
		"delta after block":       {[]Event{Start{}, text, BlockEnd{}, Delta{}}, "not open"},
		"delta of another choice": {[]Event{Start{}, text, Delta{Choice: 1}}, "not open"},
		"seal after block":        {[]Event{Start{}, text, BlockEnd{}, SealDelta{}}, "not open"},
		"citation after block":    {[]Event{Start{}, text, BlockEnd{}, Cite{}}, "not open"},
		"logprobs after block":    {[]Event{Start{}, text, BlockEnd{}, Logprobs{}}, "not open"},
		"block ends twice":        {[]Event{Start{}, text, BlockEnd{}, BlockEnd{}}, "not open"},
		"choice ends open":        {[]Event{Start{}, text, stop}, "with block 0 open"},
		"choice ends twice":       {[]Event{Start{}, stop, stop}, "ends twice"},
		"choice without reason":   {[]Event{Start{}, ChoiceEnd{}}, "without a stop reason"},
		"block after choice":      {[]Event{Start{}, stop, text}, "after its end"},
		"end before choice":       {[]Event{Start{}, text, BlockEnd{}, End{}}, "before the end of choice 0"},
		"input decreases":         {[]Event{Start{}, UsageUpdate{Usage: Usage{Input: 2}}, UsageUpdate{Usage: Usage{Input: 1}}}, "decrease"},
		"output decreases":        {[]Event{Start{}, UsageUpdate{Usage: Usage{Reasoning: 2}}, UsageUpdate{Usage: Usage{Output: 1}}}, "decrease"},
	} {
		t.Run(name, func(t *testing.T) {
			err := validate(c.events)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

func validate(events []Event) error {
	var v Validator
	for _, e := range events {
		if err := v.Add(e); err != nil {
			return err
		}
	}
	return v.Finish()
}
