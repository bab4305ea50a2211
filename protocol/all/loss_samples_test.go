package all_test

import (
	"slices"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
)

// needle is a text that a test finds again in an encoded request or response.
const needle = "n33dle"

// requestSample describes a request without a value and the same request with it. The
// difference between their encodings shows what a codec does with the value.
type requestSample struct {
	name     string      // the value cell of the row, without backquotes
	base     requestEdit // makes the request in which the value can be set; nil for baseRequest
	set      requestEdit // sets the value
	find     string      // the text that the row's member must contain
	gates    protocol.Gates
	versions map[protocol.Name]string // the target's version; the default version if unset
}

// requestEdit changes a request.
type requestEdit func(r request)

// request is a request and the protocols of its translation.
type request struct {
	*llm.Request
	own   string // the protocol that is encoded
	other string // the protocol of the client
}

// baseRequest returns a short request of a client with another protocol than target.
func baseRequest(target protocol.Name) request {
	other := string(protocol.Anthropic) // it has sealed reasoning
	if target == protocol.Anthropic {
		other = string(protocol.Gemini)
	}
	return request{own: string(target), other: other, Request: &llm.Request{
		Model: "m", Output: llm.Output{MaxTokens: new(int64(3000))}, Ext: llm.Ext{Protocol: other},
		Turns: []llm.Turn{{Role: llm.User, Blocks: text("hello")}},
	}}
}

// origin selects one of the two protocols of a sample.
type origin func(own, other string) string

func own(own, _ string) string     { return own }
func other(_, other string) string { return other }

func (r request) from(o origin) string { return o(r.own, r.other) }

func (r request) userText() *llm.Text     { return r.Turns[0].Blocks[0].(*llm.Text) }
func (r request) userMedia() *llm.Media   { return r.Turns[0].Blocks[1].(*llm.Media) }
func (r request) earlierText() *llm.Text  { return r.Turns[1].Blocks[0].(*llm.Text) }
func (r request) call() *llm.ToolCall     { return r.Turns[1].Blocks[0].(*llm.ToolCall) }
func (r request) result() *llm.ToolResult { return r.Turns[2].Blocks[0].(*llm.ToolResult) }

// The following edits make the requests that samples start from.

func sameProtocol(r request) { r.Ext.Protocol = r.own }

func withHistory(r request) {
	r.Turns = append(r.Turns, llm.Turn{Role: llm.Assistant, Blocks: text("hi")}, llm.Turn{Role: llm.User, Blocks: text("go on")})
}

func withTool(r request) {
	r.Tools = []llm.Tool{{Kind: llm.FunctionTool, Name: "f", Schema: `{"type":"object","properties":{"a":{"type":"integer"}}}`}}
}

func withToolResult(r request) {
	withTool(r)
	call := &llm.ToolCall{CallID: "call_1", Kind: llm.FunctionTool, Name: "f", Args: `{"a":1}`}
	result := &llm.ToolResult{CallID: "call_1", Kind: llm.FunctionTool, Name: "f", Blocks: text("done")}
	r.Turns = append(r.Turns, llm.Turn{Role: llm.Assistant, Blocks: []llm.Block{call}}, llm.Turn{Role: llm.ToolRole, Blocks: []llm.Block{result}})
}

func withSchema(r request) { r.Output.Format = llm.Format{Kind: "json_schema", Schema: needleSchema} }

func withBudget(r request) { r.Reasoning.Budget = new(int64(2048)) }

// edits returns an edit that applies several edits in order.
func edits(list ...requestEdit) requestEdit {
	return func(r request) {
		for _, edit := range list {
			edit(r)
		}
	}
}

// addBlock returns an edit that appends a block to a turn.
func addBlock(turn int, b llm.Block) requestEdit {
	return func(r request) { r.Turns[turn].Blocks = append(r.Turns[turn].Blocks, llm.CopyBlock(b)) }
}

// insertTurn returns an edit that inserts a turn.
func insertTurn(at int, role llm.Role, blocks []llm.Block) requestEdit {
	return func(r request) { r.Turns = slices.Insert(r.Turns, at, llm.Turn{Role: role, Blocks: blocks}) }
}

func text(s string) []llm.Block { return []llm.Block{&llm.Text{Text: s}} }

// member returns an unknown member of a protocol.
func member(protocol string) llm.Ext {
	return llm.Ext{Protocol: protocol, Members: []llm.Member{{Name: unknownMember, Value: `"n33dle"`}}}
}

// pngData and pdfData are the first bytes of a PNG and of a PDF.
const (
	pngData = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAAB"
	pdfData = "JVBERi0xLjcK"
)

func png() *llm.Media { return &llm.Media{Kind: llm.Image, MIME: "image/png", Data: pngData} }

func pdf() *llm.Media { return &llm.Media{Kind: llm.File, MIME: "application/pdf", Data: pdfData} }

func requestSamples() []requestSample {
	return slices.Concat(turnSamples(), textSamples(), thoughtSamples(), vendorBlockSamples(), mediaSamples(), toolSamples(), toolCallSamples(),
		outputSamples(), formatSamples(), samplingSamples(), reasoningSamples(), serviceSamples())
}
