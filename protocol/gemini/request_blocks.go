package gemini

import (
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// skipSignature is the signature that Google documents for calls made by another
// model. Models from the third generation on reject a call without a signature.
const skipSignature = "skip_thought_signature_validator"

// readSeals decodes the seals of a part. Seals of other protocols travel inside
// thoughtSignature: clients treat it as opaque, and Google's SDKs send it back
// but drop unknown members.
func readSeals(signature string, extraContent wire.Raw) []llm.Seal {
	seals, foreign := codec.Unwrap(codec.StandardBase64(signature))
	if !foreign && signature != "" {
		seals = []llm.Seal{{Form: llm.Signature, Data: signature, Origin: own}}
	}
	return append(seals, codec.Uncarry(llm.Raw(extraContent))...)
}

// carrySeals returns what the client must send back: the signature of a part, and
// extra_content if the signature is Google's own.
func carrySeals(seals []llm.Seal) (signature string, extraContent llm.Raw) {
	m := llm.Meta{Seals: seals}
	if s, ok := m.SealFor(own); ok && s.Data != "" {
		return s.Data, codec.Carry(seals, protocol.Gemini)
	}
	return codec.Wrap(seals, protocol.Gemini), ""
}

// block decodes any part except a function response.
func (d *requestDecoder) block(p *Part) llm.Block {
	if p.FunctionCall.IsSet() {
		return d.call(p)
	}
	return readPart(p)
}

// readPart decodes a part that is neither a call nor a result.
func readPart(p *Part) llm.Block {
	meta := readMeta(p)
	switch {
	case p.InlineData.IsSet():
		return readBlob(p.InlineData.Ptr(), meta)
	case p.FileData.IsSet():
		return readFile(p.FileData.Ptr(), meta)
	case serverPart(p) != "":
		return &llm.ServerCall{Meta: meta, Protocol: own, Type: serverPart(p), Raw: rawPart(p), Digest: digest(p)}
	case p.Thought.Value(): // Google's Go SDK omits an empty text
		t := &llm.Thought{Meta: meta}
		if s := textOf(p.Text.Value()); s != "" {
			t.Parts = []llm.ThoughtPart{{Form: llm.SummaryReasoning, Text: s}}
		}
		return t
	case p.Text.IsSet():
		return &llm.Text{Meta: meta, Text: textOf(p.Text.Value())}
	}
	unknown := p.Extra.All()
	if len(unknown) == 0 { // Google's Go SDK sends an empty text like this
		return &llm.Text{Meta: meta}
	}
	kind := unknown[0].Name
	return &llm.Opaque{Meta: llm.Meta{Ext: llm.Ext{Protocol: own}}, Protocol: own, Type: kind, Raw: rawPart(p)}
}

// textOf returns the characters of a complete text.
func textOf(t wire.Text) string { return t.Whole().String() }

func rawPart(p *Part) llm.Raw {
	raw, _ := wire.Marshal(p) // cannot fail: it was decoded from JSON
	return llm.Raw(raw)
}

func readMeta(p *Part) llm.Meta {
	m := llm.Meta{Seals: readSeals(p.ThoughtSignature.Value(), p.ExtraContent)}
	keep(&m.Ext, "", p.Extra.All())
	for _, known := range []wire.Member{
		{Name: "videoMetadata", Value: p.VideoMetadata}, {Name: "mediaResolution", Value: p.MediaResolution},
		{Name: "partMetadata", Value: p.PartMetadata}, {Name: "mediaProcessing", Value: p.MediaProcessing},
		{Name: "speechMetadata", Value: p.SpeechMetadata},
	} {
		keepRaw(&m.Ext, known.Name, known.Value)
	}
	return m
}

// serverPart returns the member name of a part that belongs to a vendor-run tool,
// or "".
func serverPart(p *Part) string {
	for _, m := range []wire.Member{
		{Name: "executableCode", Value: p.ExecutableCode}, {Name: "codeExecutionResult", Value: p.CodeExecutionResult},
		{Name: "toolCall", Value: p.ToolCall}, {Name: "toolResponse", Value: p.ToolResponse},
	} {
		if len(m.Value) > 0 && m.Value.Kind() != 'n' {
			return m.Name
		}
	}
	return ""
}

// digest returns a text summary of a vendor-run tool's part.
func digest(p *Part) string {
	var code struct {
		Language string `json:"language"`
		Code     string `json:"code"`
	}
	if json.Unmarshal(p.ExecutableCode, &code, wire.Lenient) == nil && code.Code != "" {
		return "```" + strings.ToLower(code.Language) + "\n" + code.Code + "\n```"
	}
	var result struct {
		Outcome string `json:"outcome"`
		Output  string `json:"output"`
	}
	if json.Unmarshal(p.CodeExecutionResult, &result, wire.Lenient) == nil && result.Output != "" {
		return "```\n" + result.Output + "\n```"
	}
	return ""
}

// part encodes any block except a call and a result. It may return nil.
func (e *requestEncoder) part(b llm.Block, path string) *Part {
	m := b.Common()
	if m.Cache != nil {
		e.cached = true
	}
	p := &Part{Extra: extra(m.Ext, "")}
	if s, ok := m.SealFor(own); ok {
		p.ThoughtSignature = wire.Some(s.Data)
	}
	switch b := b.(type) {
	case *llm.Text:
		if b.Text == "" && !p.ThoughtSignature.IsSet() && m.Ext.Protocol != own {
			return nil // the API rejects empty parts
		}
		if len(b.Citations) > 0 {
			e.report.Drop(path+".citations", "citation.history", "an earlier response is sent without its sources")
		}
		p.Text = wire.Some(wire.NewText(b.Text))
	case *llm.Refusal:
		e.report.Approximate(path, "refusal.as_text", "an earlier refusal is sent as text")
		p.Text = wire.Some(wire.NewText(b.Text))
	case *llm.Thought:
		if !p.ThoughtSignature.IsSet() && m.Ext.Protocol != own || foreign(b.Seals) {
			e.report.Drop(path, "reasoning.foreign", "reasoning goes back only to whoever made it")
			return nil
		}
		p.Text, p.Thought = wire.Some(wire.NewText(b.Text(""))), wire.Some(true)
	case *llm.Media:
		if !e.media(b, p, path) {
			return nil
		}
	case *llm.ServerCall:
		return e.serverCall(b, p, path)
	case *llm.Opaque:
		if b.Protocol != own {
			e.report.Refuse(path, "block.unknown", "a block of the type "+b.Type+" cannot be sent here")
			return nil
		}
		return keptPart(b.Raw)
	default:
		e.report.Refuse(path, "block.misplaced", "a call or a result stands where none can be")
		return nil
	}
	return p
}

// keptPart returns a part that is sent unchanged.
func keptPart(raw llm.Raw) *Part {
	var p Part
	if wire.UnmarshalLenient([]byte(raw), &p) != nil {
		return nil
	}
	return &p
}

func (e *requestEncoder) serverCall(b *llm.ServerCall, p *Part, path string) *Part {
	switch {
	case b.Protocol == own:
		return keptPart(b.Raw)
	case b.Digest == "":
		e.report.Drop(path, "server_tool.dropped", "what another vendor's tool did cannot be sent here")
		return nil
	}
	e.report.Approximate(path, "server_tool.digest", "a call of another vendor's tool is sent as text")
	p.Text = wire.Some(wire.NewText(b.Digest))
	return p
}

// foreign reports what turns and blocks hold that the protocol has no field for.
func (e *requestEncoder) foreign() {
	for i, t := range e.req.Turns {
		path := codec.At("turns", i)
		if t.Role == llm.Developer {
			e.report.Approximate(path+".role", "turn.developer", "the API has one role for system text")
		}
		if t.Name != "" {
			e.report.Drop(path+".name", "turn.name", "participants have no names here")
		}
		codec.DropExt(e.report, path, t.Ext, protocol.Gemini)
		e.foreignBlocks(path, t.Blocks)
	}
}

func (e *requestEncoder) foreignBlocks(path string, blocks []llm.Block) {
	for j, b := range blocks {
		path := path + "." + codec.At("blocks", j)
		switch b := b.(type) {
		case *llm.Thought, *llm.ServerCall, *llm.Opaque:
			continue // they are sent or dropped as a whole
		case *llm.Text:
			reportPhase(b, path, e.report)
		case *llm.ToolResult:
			e.foreignBlocks(path, b.Blocks)
		}
		codec.DropExt(e.report, path, b.Common().Ext, protocol.Gemini)
	}
}
