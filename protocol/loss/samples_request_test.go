package loss

import (
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
)

// sample is a request without a value and the same request with it: what the two
// differ in is what becomes of the value.
type sample struct {
	fields, when string
	base         func(s scene) *llm.Request // what has to be there besides; nil for hello
	set          func(r *llm.Request, s scene)
	find         string // what the member must hold, where the value is a text that stays
	gates        protocol.Gates
	version      string // of the protocol
}

// scene is between whom a sample is sent.
type scene struct {
	own   string // the protocol that is written
	other string // another one, which the request came from
}

const aNeedle = "n33dle"

func hello(s scene) *llm.Request {
	return &llm.Request{
		Model: "m", Output: llm.Output{MaxTokens: new(int64(3000))}, Ext: llm.Ext{Protocol: s.other},
		Turns: []llm.Turn{{Role: llm.User, Blocks: []llm.Block{&llm.Text{Text: "hello"}}}},
	}
}

// home is hello from a client of the target's own protocol.
func home(s scene) *llm.Request {
	r := hello(s)
	r.Ext.Protocol = s.own
	return r
}

// dialogue has an earlier answer that a sample may change.
func dialogue(s scene) *llm.Request {
	r := hello(s)
	r.Turns = append(r.Turns, llm.Turn{Role: llm.Assistant, Blocks: []llm.Block{&llm.Text{Text: "hi"}}},
		llm.Turn{Role: llm.User, Blocks: []llm.Block{&llm.Text{Text: "go on"}}})
	return r
}

func said(r *llm.Request) *llm.Text { return r.Turns[0].Blocks[0].(*llm.Text) }

func answered(r *llm.Request) *llm.Text { return r.Turns[1].Blocks[0].(*llm.Text) }

// working has a tool, a call of it and a result.
func working(s scene) *llm.Request {
	r := tooled(s)
	r.Turns = append(r.Turns,
		llm.Turn{Role: llm.Assistant, Blocks: []llm.Block{&llm.ToolCall{CallID: "call_1", Kind: llm.FunctionTool, Name: "f", Args: `{"a":1}`}}},
		llm.Turn{Role: llm.ToolRole, Blocks: []llm.Block{&llm.ToolResult{CallID: "call_1", Name: "f", Kind: llm.FunctionTool, Blocks: []llm.Block{&llm.Text{Text: "done"}}}}})
	return r
}

func call(r *llm.Request) *llm.ToolCall { return r.Turns[1].Blocks[0].(*llm.ToolCall) }

func result(r *llm.Request) *llm.ToolResult { return r.Turns[2].Blocks[0].(*llm.ToolResult) }

// tooled has a tool.
func tooled(s scene) *llm.Request {
	r := hello(s)
	r.Tools = []llm.Tool{{Kind: llm.FunctionTool, Name: "f", Schema: `{"type":"object","properties":{"a":{"type":"integer"}}}`}}
	return r
}

// with is hello and a block of the user's.
func with(b llm.Block) func(scene) *llm.Request {
	return func(s scene) *llm.Request {
		r := hello(s)
		add(r, llm.CopyBlock(b))
		return r
	}
}

func add(r *llm.Request, b llm.Block) { r.Turns[0].Blocks = append(r.Turns[0].Blocks, b) }

func medium(r *llm.Request) *llm.Media { return r.Turns[0].Blocks[1].(*llm.Media) }

// aPicture and aPDF are the beginnings of a PNG and of a PDF.
const (
	aPicture = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAAB"
	aPDF     = "JVBERi0xLjcK"
)

func picture() *llm.Media { return &llm.Media{Kind: llm.Image, MIME: "image/png", Data: aPicture} }

func document() *llm.Media {
	return &llm.Media{Kind: llm.File, MIME: "application/pdf", Data: aPDF}
}
