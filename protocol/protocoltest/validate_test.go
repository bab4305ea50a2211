package protocoltest

import (
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/llm"
)

func TestValidateEvents(t *testing.T) {
	text := llm.BlockStart{Choice: 0, Index: 0, Block: &llm.Text{}}
	call := func(id, name string) llm.BlockStart {
		return llm.BlockStart{Choice: 0, Index: 0, Block: &llm.ToolCall{CallID: id, Name: name}}
	}
	stop := llm.ChoiceEnd{Stop: llm.Stop{Kind: llm.EndTurn}}
	for name, c := range map[string]struct {
		events []llm.Event
		want   string // empty if the stream is valid
	}{
		"whole":                   {[]llm.Event{llm.Start{}, text, llm.Delta{}, llm.SealDelta{}, llm.Cite{}, llm.Logprobs{}, llm.BlockEnd{}, stop, llm.End{}}, ""},
		"two blocks open":         {[]llm.Event{llm.Start{}, text, llm.BlockStart{Choice: 0, Index: 1, Block: &llm.Text{}}, llm.Delta{Index: 1}, llm.Delta{}, llm.BlockEnd{Choice: 0, Index: 1}, llm.BlockEnd{}, stop, llm.End{}}, ""},
		"choices interleaved":     {[]llm.Event{llm.Start{}, text, llm.BlockStart{Choice: 1, Index: 0, Block: &llm.Text{}}, llm.BlockEnd{Choice: 1, Index: 0}, llm.ChoiceEnd{Choice: 1, Stop: llm.Stop{Kind: llm.Other}}, llm.BlockEnd{}, stop, llm.End{}}, ""},
		"ping at any time":        {[]llm.Event{llm.Ping{}, llm.Start{}, llm.Ping{}, stop, llm.Ping{}, llm.End{}}, ""},
		"failure at once":         {[]llm.Event{llm.Failure{Err: &llm.Error{}}}, ""},
		"failure with open block": {[]llm.Event{llm.Start{}, text, llm.Failure{Err: &llm.Error{}}}, ""},
		"growing usage":           {[]llm.Event{llm.Start{}, llm.UsageUpdate{Usage: llm.Usage{Input: 1}}, llm.UsageUpdate{Usage: llm.Usage{CacheRead: 2}}, stop, llm.UsageUpdate{Usage: llm.Usage{CacheRead: 2, Output: 1}}, llm.End{}}, ""},

		"no start":                {[]llm.Event{text}, "before Start"},
		"end without start":       {[]llm.Event{llm.End{}}, "before Start"},
		"two starts":              {[]llm.Event{llm.Start{}, llm.Start{}}, "second Start"},
		"after end":               {[]llm.Event{llm.Start{}, llm.End{}, llm.Ping{}}, "after End or Failure"},
		"after failure":           {[]llm.Event{llm.Start{}, llm.Failure{Err: &llm.Error{}}, llm.End{}}, "after End or Failure"},
		"failure without error":   {[]llm.Event{llm.Failure{}}, "without an error"},
		"no last event":           {[]llm.Event{llm.Start{}, text, llm.BlockEnd{}, stop}, "neither End nor Failure"},
		"block skips":             {[]llm.Event{llm.Start{}, llm.BlockStart{Choice: 0, Index: 1, Block: &llm.Text{}}}, "want block 0"},
		"block twice":             {[]llm.Event{llm.Start{}, text, text}, "want block 1"},
		"block without kind":      {[]llm.Event{llm.Start{}, llm.BlockStart{}}, "without a Block"},
		"call without id":         {[]llm.Event{llm.Start{}, call("", "f")}, "without an id"},
		"call without name":       {[]llm.Event{llm.Start{}, call("c", "")}, "without an id or a name"},
		"delta before block":      {[]llm.Event{llm.Start{}, llm.Delta{}}, "not open"},
		"negative block":          {[]llm.Event{llm.Start{}, llm.Delta{Index: -1}}, "not open"},
		"delta after block":       {[]llm.Event{llm.Start{}, text, llm.BlockEnd{}, llm.Delta{}}, "not open"},
		"delta of another choice": {[]llm.Event{llm.Start{}, text, llm.Delta{Choice: 1}}, "not open"},
		"seal after block":        {[]llm.Event{llm.Start{}, text, llm.BlockEnd{}, llm.SealDelta{}}, "not open"},
		"citation after block":    {[]llm.Event{llm.Start{}, text, llm.BlockEnd{}, llm.Cite{}}, "not open"},
		"logprobs after block":    {[]llm.Event{llm.Start{}, text, llm.BlockEnd{}, llm.Logprobs{}}, "not open"},
		"block ends twice":        {[]llm.Event{llm.Start{}, text, llm.BlockEnd{}, llm.BlockEnd{}}, "not open"},
		"choice ends open":        {[]llm.Event{llm.Start{}, text, stop}, "with block 0 open"},
		"choice ends twice":       {[]llm.Event{llm.Start{}, stop, stop}, "ends twice"},
		"choice without reason":   {[]llm.Event{llm.Start{}, llm.ChoiceEnd{}}, "without a stop reason"},
		"block after choice":      {[]llm.Event{llm.Start{}, stop, text}, "after its end"},
		"end before choice":       {[]llm.Event{llm.Start{}, text, llm.BlockEnd{}, llm.End{}}, "choice 0 is open at the End"},
		"input decreases":         {[]llm.Event{llm.Start{}, llm.UsageUpdate{Usage: llm.Usage{Input: 2}}, llm.UsageUpdate{Usage: llm.Usage{Input: 1}}}, "decrease"},
		"output decreases":        {[]llm.Event{llm.Start{}, llm.UsageUpdate{Usage: llm.Usage{Reasoning: 2}}, llm.UsageUpdate{Usage: llm.Usage{Output: 1}}}, "decrease"},
	} {
		t.Run(name, func(t *testing.T) {
			err := validate(c.events)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

func validate(events []llm.Event) error {
	var v validator
	for _, e := range events {
		if err := v.Add(e); err != nil {
			return err
		}
	}
	return v.Finish()
}
