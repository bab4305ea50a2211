package conform

import (
	"slices"
	"strings"
	"testing"
)

func sample(t *testing.T) Response {
	t.Helper()
	r, err := parseResponse("think Hm.\nsig S1\ntext Hello 世界\ncall f {\"x\":1}\ncall g {\"y\":[2]}\nusage in=9 cached=4 out=8 think=2", 0)
	if err != nil {
		t.Fatal(err)
	}
	r.options, r.model = options{true, true}, "up"
	return r
}

// TestCodecsReadWhatTheyWrite checks that each codec reads its own output without problems.
func TestCodecsReadWhatTheyWrite(t *testing.T) {
	for _, d := range Dialects() {
		v := codecOf(d)
		want := v.fitResponse(sample(t))
		for _, interleave := range []bool{false, true} {
			want.interleave = interleave
			for mode, s := range map[string]Reading{"stream": v.readStream(v.writeStream(want)), "whole": v.readBody(v.writeBody(want))} {
				if len(s.All()) > 0 {
					t.Errorf("%s %s: %q", d, mode, s.All())
				}
				if diff := compareResponse(want, s, Cell{d, d, mode == "stream"}); diff != nil {
					t.Errorf("%s %s: %v", d, mode, diff)
				}
			}
		}
	}
}

// TestStreamsAreReadStrictly breaks one rule of a good stream at a time.
func TestStreamsAreReadStrictly(t *testing.T) {
	replace := func(from, to string, nth int) func([]event) []event {
		return func(l []event) []event {
			for i := range l {
				if strings.Contains(l[i].data, from) {
					if nth == 0 {
						l[i].data = strings.Replace(l[i].data, from, to, 1)
						return l
					}
					nth--
				}
			}
			return nil
		}
	}
	without := func(mark string) func([]event) []event {
		return func(l []event) []event {
			i := slices.IndexFunc(l, func(e event) bool { return strings.Contains(e.data, mark) })
			return slices.Delete(l, i, i+1)
		}
	}
	twice := func(mark string) func([]event) []event {
		return func(l []event) []event {
			i := slices.IndexFunc(l, func(e event) bool { return strings.Contains(e.data, mark) })
			return slices.Insert(l, i, l[i])
		}
	}
	unnamed := func(l []event) []event {
		l[2].name = ""
		return l
	}
	for _, c := range []struct {
		d     Dialect
		what  string
		spoil func([]event) []event
	}{
		{Chat, "no [DONE]", without("[DONE]")},
		{Chat, "[DONE] twice", twice("[DONE]")},
		{Chat, "no role", replace(`"role":"assistant"`, `"x":1`, 0)},
		{Chat, "another id", replace("chatcmpl-Cn1", "chatcmpl-Cn2", 3)},
		{Chat, "index 1 first", replace(`"index":0,"type":"function"`, `"index":1,"type":"function"`, 0)},
		{Chat, "no call id", replace(`"id":"call_Cn1Kq7XvTb2",`, "", 0)},
		{Chat, "finish twice", twice(`"finish_reason":"tool_calls"`)},
		{Chat, "wrong finish", replace(`"finish_reason":"tool_calls"`, `"finish_reason":"stop"`, 0)},
		{Chat, "empty finish", replace(`"finish_reason":null`, `"finish_reason":""`, 2)},
		{Chat, "usage that does not add up", replace(`"total_tokens":17`, `"total_tokens":18`, 0)},
		{Anthropic, "no event line", unnamed},
		{Anthropic, "no message_stop", without("message_stop")},
		{Anthropic, "message_stop twice", twice("message_stop")},
		{Anthropic, "no block stop", without("content_block_stop")},
		{Anthropic, "a gap in the index", replace(`"index":1`, `"index":2`, 0)},
		{Anthropic, "no message_delta", without("message_delta")},
		{Anthropic, "input in the start", replace(`"input":{}`, `"input":{"x":1}`, 0)},
		{Anthropic, "half of the arguments", without(`"partial_json":"{`)},
		{Anthropic, "no signature member", replace(`"signature":"",`, "", 0)},
		{Anthropic, "wrong stop", replace(`"stop_reason":"tool_use"`, `"stop_reason":"end_turn"`, 0)},
		{Responses, "no created", without("response.created")},
		{Responses, "a gap in the sequence", without("output_text.delta")},
		{Responses, "another response id", replace("resp_CnKq7XvT", "resp_other", 1)},
		{Responses, "another item id", replace("msg_Cn01Kq7", "msg_other", 2)},
		{Responses, "another delta", replace(`"delta":"H"`, `"delta":"h"`, 0)},
		{Responses, "no terminal", without("response.completed")},
		{Responses, "another output", replace(`"name":"g"`, `"name":"h"`, 2)},
		{Responses, "no cached_tokens", replace(`"cached_tokens":4`, `"x":4`, 0)},
		{Gemini, "[DONE]", func(l []event) []event { return append(l, event{data: "[DONE]"}) }},
		{Gemini, "no finishReason", without("finishReason")},
		{Gemini, "finishReason twice", twice("finishReason")},
		{Gemini, "args that are no object", replace(`"args":{"x":1}`, `"args":"x"`, 0)},
		{Gemini, "usage that does not add up", replace(`"totalTokenCount":17`, `"totalTokenCount":15`, 1)},
	} {
		v := codecOf(c.d)
		events := c.spoil(v.writeStream(v.fitResponse(sample(t))))
		if events == nil {
			t.Errorf("%s: %s: the test spoils nothing", c.d, c.what)
			continue
		}
		if s := v.readStream(events); len(s.All()) == 0 && s.Ended {
			t.Errorf("%s: %s was not noticed", c.d, c.what)
		}
	}
}

func TestMistakesInCases(t *testing.T) {
	for text, want := range map[string]string{
		"":                                                             "the first line is empty",
		"A case.\n-- ask --\nuser Hi":                                  "has no answer",
		"A case.\n-- answer --\ntext Hi":                               "has no ask",
		"A case.\n-- ask --\nshout Hi":                                 `an ask has no line "shout"`,
		"A case.\n-- answer --\nshout Hi":                              `an answer has no line "shout"`,
		"A case.\n-- asks --\nuser Hi":                                 "there is no such section",
		"A case.\n-- run --\ncells chat":                               "names no cells",
		"A case.\n-- run --\ncells chat>x":                             `there is no dialect "x"`,
		"A case.\n-- run --\nframe odd":                                `there is no frame "odd"`,
		"A case.\n-- run --\nwalk":                                     `there is no setting "walk"`,
		"A case.\n-- run --\nlose stop":                                "write FEATURES on CELLS",
		"A case.\n-- ask#3 --\nuser Hi":                                "without gaps",
		"A case.\n-- answer --\nusage in=x":                            "with a number",
		"A case.\n-- answer --\nerror odd no":                          "no kind of error",
		"A case.\n-- ask --\nresult x y":                               "the number of the call",
		"A case.\n-- ask --\nuser \"no end":                            "not a JSON string",
		"A case.\n-- ask --\nuser a\n-- answer.chat.sse --\ndata: x\n": "does not say what the client sees",
	} {
		if _, err := ParseCase("x", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want something with %q", text, err, want)
		}
	}
}

func TestEveryGroupHasCasesWithIDs(t *testing.T) {
	cases, err := Corpus()
	if err != nil {
		t.Fatal(err)
	}
	groups := map[string]int{}
	for _, c := range cases {
		groups[c.Group()]++
		if len(c.IDs) == 0 && c.Group() != "situations" {
			t.Errorf("%s has no id", c.Name)
		}
	}
	for g := range strings.FieldsSeq("situations sse cst crq rsp ant gem cnv use err jsn lif ver") {
		if groups[g] == 0 {
			t.Errorf("there is no case in %s", g)
		}
	}
}

func TestCellSets(t *testing.T) {
	for set, want := range map[cellSet]int{"all": 25, "same": 5, "cross": 20, "chat>*": 5, "*>gemini -same": 4, "chat>gemini,gemini>chat": 2, "cross -*>chat": 16} {
		n := 0
		for _, a := range Dialects() {
			for _, b := range Dialects() {
				if set.has(Cell{a, b, false}) {
					n++
				}
			}
		}
		if n != want {
			t.Errorf("%q has %d cells, want %d", set, n, want)
		}
	}
}
