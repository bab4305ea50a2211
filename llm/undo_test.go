package llm

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"
)

// wrapped lists arguments that models write for custom tools, and the input that they
// contain.
var wrapped = map[string]struct{ args, want string }{
	"plain":              {`{"input":"ls -l"}`, "ls -l"},
	"empty":              {`{"input":""}`, ""},
	"spaces":             {" {\n\t\"input\" : \"a b\" } ", "a b"},
	"escapes":            {`{"input":"\"\\\/\b\f\n\r\t"}`, "\"\\/\b\f\n\r\t"},
	"unicode":            {`{"input":"\u00e9\u0041é日"}`, "éAé日"},
	"pair":               {`{"input":"a\ud83d\ude00b"}`, "a😀b"},
	"upper case pair":    {`{"input":"\uD83D\uDE00"}`, "😀"},
	"lone high":          {`{"input":"\ud83dx"}`, "\ufffdx"},
	"lone high, escape":  {`{"input":"\ud83d\n"}`, "\ufffd\n"},
	"lone high, BMP":     {`{"input":"\ud83d\u0041"}`, "\ufffdA"},
	"high, high, low":    {`{"input":"\ud83d\ud83d\ude00"}`, "\ufffd😀"},
	"lone high at end":   {`{"input":"\ud83d"}`, "\ufffd"},
	"lone low":           {`{"input":"\ude00"}`, "\ufffd"},
	"more members":       {`{"input":"a","why":"b"}`, "a"},
	"looks like the end": {`{"input":"}\"}"}`, `}"}`},

	"cut before":        {`{"inp`, ""},
	"cut inside":        {`{"input":"a`, "a"},
	"cut in an escape":  {`{"input":"a\u00`, "a"},
	"nothing":           {``, ""},
	"bare text":         {`ls -l`, `ls -l`},
	"another member":    {`{"command":"ls"}`, `{"command":"ls"}`},
	"a list":            {`["input"]`, `["input"]`},
	"not a string":      {`{"input":1}`, `{"input":1}`},
	"empty object":      {`{}`, `{}`},
	"a string":          {`"input"`, `"input"`},
	"an unknown escape": {`{"input":"\x41"}`, `\x41`},
	"a bad code point":  {`{"input":"\u00zz"}`, "\ufffd"},
}

// A search tool that was sent as a function becomes a search tool again and keeps its
// arguments.
func TestUndoSearch(t *testing.T) {
	u := Undo{Names: map[string]ToolRef{"find": {Kind: SearchTool, Name: "tool_search"}}}
	sent := &ToolCall{CallID: "c", Kind: FunctionTool, Name: "find", Args: `{"input":"x"}`}
	want := &ToolCall{CallID: "c", Kind: SearchTool, Name: "tool_search", Args: `{"input":"x"}`}
	resp := &Response{Choices: []Choice{{Blocks: []Block{sent}}}}
	for i, e := range Explode(resp) {
		if back, ok := u.Event(e); !ok {
			t.Errorf("event %d is left out", i)
		} else if b, ok := back.(BlockStart); ok && b.Block.(*ToolCall).Kind != SearchTool {
			t.Errorf("%+v", b.Block)
		}
	}
	u.Response(resp)
	if got := resp.Choices[0].Blocks[0]; !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestUnwrapCutAtEveryByte(t *testing.T) {
	for name, c := range wrapped {
		t.Run(name, func(t *testing.T) {
			if got := unwrapPieces(c.args); got != c.want {
				t.Errorf("whole: %q, want %q", got, c.want)
			}
			if got := unwrapPieces(strings.Split(c.args, "")...); got != c.want {
				t.Errorf("byte by byte: %q, want %q", got, c.want)
			}
			for i := range c.args {
				if got := unwrapPieces(c.args[:i], c.args[i:]); got != c.want {
					t.Errorf("cut at %d: %q, want %q", i, got, c.want)
				}
			}
		})
	}
}

// unwrapPieces streams a tool call through an Undo, with its arguments in the given
// pieces.
func unwrapPieces(pieces ...string) string {
	u := Undo{Names: map[string]ToolRef{"sent": {Kind: CustomTool, Name: "shell"}}}
	var text strings.Builder
	if e, ok := u.Event(BlockStart{0, 3, &ToolCall{Kind: FunctionTool, CallID: "c", Name: "sent"}}); !ok || e.(BlockStart).Block.(*ToolCall).Kind != CustomTool {
		return "the call is not a custom one"
	}
	for _, p := range pieces {
		if e, ok := u.Event(Delta{Index: 3, Text: p}); ok {
			text.WriteString(e.(Delta).Text)
		}
	}
	u.Event(BlockEnd{0, 3})
	return text.String()
}

func TestUndoResponse(t *testing.T) {
	for name, c := range wrapped {
		sent := &ToolCall{Kind: FunctionTool, CallID: "c", Name: "sent", Args: c.args}
		r := &Response{Choices: []Choice{{Blocks: []Block{&Text{Text: "t"}, sent}}}}
		u := Undo{Names: map[string]ToolRef{"sent": {Kind: CustomTool, Name: "shell"}}}
		u.Response(r)
		want := []Block{&Text{Text: "t"}, &ToolCall{Kind: CustomTool, CallID: "c", Name: "shell", Args: c.want}}
		if !reflect.DeepEqual(r.Choices[0].Blocks, want) {
			t.Errorf("%s: %+v, want %+v", name, r.Choices[0].Blocks[1], want[1])
		}
		if sent.Name != "sent" {
			t.Errorf("%s: the response's block was changed in place", name)
		}
	}
}

func TestUndoNames(t *testing.T) {
	names := map[string]ToolRef{
		"a_b_1": {Kind: FunctionTool, Name: "a.b"},
		"ns__f": {Kind: FunctionTool, Name: "f", Namespace: "ns"},
		"plain": {Name: "renamed"},
		"text":  {Kind: CustomTool, Name: "text!"},
	}
	for _, c := range []struct{ in, want ToolCall }{
		{ToolCall{Kind: FunctionTool, Name: "a_b_1", Args: `{"input":"x"}`}, ToolCall{Kind: FunctionTool, Name: "a.b", Args: `{"input":"x"}`}},
		{ToolCall{Kind: FunctionTool, Name: "ns__f"}, ToolCall{Kind: FunctionTool, Name: "f", Namespace: "ns"}},
		{ToolCall{Kind: FunctionTool, Name: "plain"}, ToolCall{Kind: FunctionTool, Name: "renamed"}},
		{ToolCall{Kind: FunctionTool, Name: "other", Args: "{}"}, ToolCall{Kind: FunctionTool, Name: "other", Args: "{}"}},
		// A custom tool that was sent as one: only its name differs.
		{ToolCall{Kind: CustomTool, Name: "text", Args: `{"input":"x"}`}, ToolCall{Kind: CustomTool, Name: "text!", Args: `{"input":"x"}`}},
	} {
		u := Undo{Names: names}
		in := c.in
		in.Args = ""
		e, _ := u.Event(BlockStart{0, 0, &in})
		got := *e.(BlockStart).Block.(*ToolCall)
		d, _ := u.Event(Delta{Text: c.in.Args})
		got.Args = d.(Delta).Text
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("stream: %+v, want %+v", got, c.want)
		}
		whole := c.in
		r := &Response{Choices: []Choice{{Blocks: []Block{&whole}}}}
		u.Response(r)
		if got := r.Choices[0].Blocks[0].(*ToolCall); !reflect.DeepEqual(*got, c.want) {
			t.Errorf("whole: %+v, want %+v", got, c.want)
		}
	}
}

// Calls that are open at the same time do not mix, nor do choices.
func TestUndoInterleaved(t *testing.T) {
	u := Undo{Names: map[string]ToolRef{"sent": {Kind: CustomTool, Name: "shell"}}}
	call := func() Block { return &ToolCall{CallID: "c", Name: "sent", Kind: FunctionTool} }
	texts := map[[2]int]string{}
	for _, e := range []Event{
		BlockStart{0, 0, call()}, BlockStart{0, 1, call()}, BlockStart{1, 0, &Text{}},
		Delta{Index: 0, Text: `{"input":"a\`}, Delta{Index: 1, Text: `{"inp`}, Delta{Choice: 1, Text: `{"input":"`},
		Delta{Index: 0, Text: `n"}`}, Delta{Index: 1, Text: `ut":"b"}`},
		BlockEnd{0, 0}, Delta{Index: 0, Text: "behind its end"},
	} {
		if d, ok := u.Event(e); ok {
			if d, ok := d.(Delta); ok {
				texts[[2]int{d.Choice, d.Index}] += d.Text
			}
		}
	}
	want := map[[2]int]string{{0, 0}: "a\nbehind its end", {0, 1}: "b", {1, 0}: `{"input":"`}
	if !reflect.DeepEqual(texts, want) {
		t.Errorf("%v, want %v", texts, want)
	}
}

func TestZeroUndoChangesNothing(t *testing.T) {
	var u Undo
	e := BlockStart{0, 0, &ToolCall{Name: "f"}}
	if got, ok := u.Event(e); !ok || !reflect.DeepEqual(got, e) {
		t.Errorf("%v", got)
	}
	r := &Response{Choices: []Choice{{Blocks: []Block{&ToolCall{Name: "f"}}}}}
	u.Response(r)
	if r.Choices[0].Blocks[0].(*ToolCall).Name != "f" {
		t.Errorf("%+v", r)
	}
}

// Arguments in any two pieces give the text that encoding/json decodes.
func FuzzUnwrap(f *testing.F) {
	for _, c := range wrapped {
		literal := strings.TrimSuffix(strings.TrimPrefix(c.args, `{"input":`), "}")
		f.Add(literal, 3, 9)
	}
	f.Fuzz(func(t *testing.T, literal string, i, j int) {
		args := `{"input":` + literal + `}`
		var want struct {
			Input *string `json:"input"`
		}
		value := strings.TrimSpace(literal)
		if !strings.HasPrefix(value, `"`) || !json.Valid([]byte(value)) || !utf8.ValidString(value) || json.Unmarshal([]byte(args), &want) != nil {
			unwrapPieces(args) // must not panic
			return
		}
		i = max(0, min(i, len(args)))
		j = max(i, min(j, len(args)))
		for _, got := range []string{unwrapPieces(args), unwrapPieces(args[:i], args[i:j], args[j:]), unwrapPieces(strings.Split(args, "")...)} {
			if got != *want.Input {
				t.Errorf("%q: %q, want %q", args, got, *want.Input)
			}
		}
	})
}
