package gemini

import (
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

func reportPhase(t *llm.Text, path string, report *llm.Report) {
	if t.Phase != "" {
		report.Drop(path+".phase", "text.phase", "the API does not distinguish commentary from the final answer")
	}
}

// reportEnvelope reports members of the response beside its candidates for which the protocol
// has no field.
func reportEnvelope(resp *llm.Response, report *llm.Report) {
	if resp.Usage != nil && resp.Usage.CacheWrite > 0 {
		report.Drop("usage.cache_write", "usage.cache_write", "tokens written to a cache are counted as read anew")
	}
	switch resp.Tier {
	case "", "default", "standard": // the default
	default:
		report.Drop("tier", "tier.unsupported", "a response has no field for the service tier")
	}
	codec.DropExt(report, "response", resp.Ext, protocol.Gemini)
	for i := range resp.Choices {
		c := &resp.Choices[i]
		codec.DropExt(report, codec.At("choices", c.Index), c.Ext, protocol.Gemini)
	}
}

// reportBlock reports what an encoded block cannot hold.
func reportBlock(b llm.Block, path string, report *llm.Report) {
	codec.DropExt(report, path, b.Common().Ext, protocol.Gemini)
	switch b := b.(type) {
	case *llm.Text:
		reportPhase(b, path, report)
		for _, c := range b.Citations {
			if c.FileID != "" && c.URL == "" {
				report.Drop(path+".citations", "citation.no_url", "a source has an address or words here, and no file")
			}
		}
	case *llm.Refusal:
		report.Approximate(path, "refusal.as_text", "a refusal is text here")
	case *llm.ToolCall:
		if _, wrapped := objectArgs(b.Args); wrapped && b.Kind != llm.CustomTool {
			report.Approximate(path+".args", "args.wrapped", "the arguments are no JSON object and are given inside one")
		}
	case *llm.Media:
		if b.Name+b.Title+b.Context != "" && b.Ext.Protocol != own {
			report.Drop(path+".name", "media.name", "a file has no name, title or context here")
		}
	}
}

func reportLogprobs(c *llm.Choice, report *llm.Report) {
	for i, b := range c.Blocks {
		if logprobsOf([]llm.Block{b}) != "" {
			path := codec.At("choices", c.Index) + "." + codec.At("blocks", i)
			report.Approximate(path+".logprobs", "logprobs.form", "log probabilities have another form here, without the tokens' bytes")
		}
	}
}

// reportFormless reports a block that has no counterpart.
func reportFormless(b llm.Block, path string, report *llm.Report) {
	switch b := b.(type) {
	case *llm.ServerCall:
		report.Drop(path, "server_tool.dropped", "what another vendor's tool did has no form here")
	case *llm.Opaque:
		report.Drop(path, "block.unknown", "a block of the type "+b.Type+" has no form here")
	default:
		report.Drop(path, "media.unsupported", "a response has no field for it")
	}
}

// reportBlocked reports what the block reason of a prompt cannot express.
func reportBlocked(c *llm.Choice, reason string, report *llm.Report) {
	s, path := c.Stop, codec.At("choices", c.Index)+".stop"
	if s.Category != "" && s.Category != reason {
		report.Drop(path+".category", "stop_reason.lossy", "a refused prompt has one of Google's reasons")
	}
	if s.Explanation != "" {
		report.Drop(path+".explanation", "stop_reason.lossy", "a refused prompt is not explained")
	}
}

// EncodeResponse encodes a non-streaming response.
func (Codec) EncodeResponse(resp *llm.Response, _ *llm.Request, report *llm.Report) []byte {
	if report == nil {
		report = &llm.Report{}
	}
	reportEnvelope(resp, report)
	b := append([]byte(nil), `{"candidates":[`...)
	feedback := ""
	for i := range resp.Choices {
		c := &resp.Choices[i]
		if c.Stop.Kind == llm.PromptBlocked && len(c.Blocks) == 0 {
			feedback = blockReason(c.Stop)
			reportBlocked(c, feedback, report)
			continue
		}
		if b[len(b)-1] != '[' {
			b = append(b, ',')
		}
		b = appendCandidate(b, c, report)
	}
	b = append(b, ']')
	if feedback != "" {
		if string(b) == `{"candidates":[]` { // a blocked prompt has no candidates
			b = append(b[:0], '{')
		} else {
			b = append(b, ',')
		}
		b = wire.AppendQuote(append(b, `"promptFeedback":{"blockReason":`...), feedback)
		b = appendKept(b, resp.Ext, atFeedback)
		b = append(b, '}')
	}
	if resp.Usage != nil {
		b = appendUsage(append(b, `,"usageMetadata":`...), resp.Usage, resp.Ext)
	}
	if resp.Model != "" {
		b = wire.AppendQuote(append(b, `,"modelVersion":`...), resp.Model)
	}
	if resp.ID != "" {
		b = wire.AppendQuote(append(b, `,"responseId":`...), resp.ID)
	}
	if resp.Ext.Protocol != own || resp.Ext.Get(codec.MarkPrefix+"createTime") == "" {
		b = appendCreated(b, resp.Created)
	}
	b = appendKept(b, resp.Ext, "")
	return append(b, '}')
}

func appendCreated(b []byte, created int64) []byte {
	if created == 0 {
		return b
	}
	return wire.AppendQuote(append(b, `,"createTime":`...), time.Unix(created, 0).UTC().Format(time.RFC3339))
}

func appendCandidate(b []byte, c *llm.Choice, report *llm.Report) []byte {
	var g grounded
	b = append(b, `{"content":{"parts":[`...)
	parts := 0
	for j, block := range c.Blocks {
		before, path := len(b), codec.At("choices", c.Index)+"."+codec.At("blocks", j)
		if parts > 0 {
			b = append(b, ',')
		}
		with := appendBlock(b, block)
		if len(with) == len(b) {
			b = b[:before]
			reportFormless(block, path, report)
			continue
		}
		b = with
		if t, ok := block.(*llm.Text); ok {
			citeWhole(&g, t, parts)
		}
		reportBlock(block, path, report)
		parts++
	}
	if parts == 0 { // SDKs treat a content without parts as no response
		b = append(b, `{"text":""}`...)
	}
	reportStop(c, report)
	b = wire.AppendQuote(append(b, `],"role":"model"},"finishReason":`...), finishReason(c.Stop))
	b = strconv.AppendInt(append(b, `,"index":`...), int64(c.Index), 10)
	members := kept(c.Ext, "")
	if _, has := members.Get("groundingMetadata"); !has {
		b = g.appendTo(b)
	}
	if _, has := members.Get("logprobsResult"); !has {
		b = appendLogprobs(b, logprobsOf(c.Blocks))
		reportLogprobs(c, report)
	}
	if _, has := members.Get("finishMessage"); !has && c.Stop.Explanation != "" {
		b = wire.AppendQuote(append(b, `,"finishMessage":`...), c.Stop.Explanation)
	}
	b = appendKept(b, c.Ext, "")
	return append(b, '}')
}

// citeWhole adds the sources of a complete text.
func citeWhole(g *grounded, t *llm.Text, part int) {
	if len(t.Citations) == 0 {
		return
	}
	var r ruler
	r.add(t.Text)
	for _, c := range t.Citations {
		if !citable(c) {
			continue
		}
		start, end := r.byteOf(c.Start), r.byteOf(c.End)
		if c.Start == 0 && c.End == 0 {
			end = r.bytes
		}
		g.add(c, part, start, end)
	}
}

// appendKept appends the members of a level, each with a leading comma.
func appendKept(b []byte, e llm.Ext, level string) []byte {
	for _, m := range kept(e, level) {
		b = wire.AppendQuote(append(b, ','), m.Name)
		b = append(append(b, ':'), wire.Compact(m.Value)...)
	}
	return b
}

// appendMember appends a member that was kept, with a leading comma.
func appendMember(b []byte, e llm.Ext, name string) []byte {
	if value, ok := kept(e, "").Get(name); ok {
		b = append(append(wire.AppendQuote(append(b, ','), name), ':'), wire.Compact(value)...)
	}
	return b
}

// appendUsage encodes token counts. Tokens written to a cache are part of the
// input and have no count of their own.
func appendUsage(b []byte, u *llm.Usage, e llm.Ext) []byte {
	tools, _ := wire.Number(e.Get(codec.MarkPrefix + atUsage + "toolUsePromptTokenCount")).Int64()
	b = strconv.AppendInt(append(b, `{"promptTokenCount":`...), max(0, u.TotalInput()-tools), 10)
	b = strconv.AppendInt(append(b, `,"candidatesTokenCount":`...), u.Output, 10)
	b = strconv.AppendInt(append(b, `,"totalTokenCount":`...), u.TotalInput()+u.TotalOutput(), 10)
	if u.CacheRead > 0 {
		b = strconv.AppendInt(append(b, `,"cachedContentTokenCount":`...), u.CacheRead, 10)
	}
	if u.Reasoning > 0 {
		b = strconv.AppendInt(append(b, `,"thoughtsTokenCount":`...), u.Reasoning, 10)
	}
	b = appendKept(b, e, atUsage)
	return append(b, '}')
}

// appendBlock encodes a block as a part, or nothing if it has no counterpart.
func appendBlock(b []byte, block llm.Block) []byte {
	signature, carried := carrySeals(block.Common().Seals)
	start := len(b)
	switch block := block.(type) {
	case *llm.Text:
		b = wire.AppendQuote(append(b, `{"text":`...), block.Text)
	case *llm.Refusal:
		b = wire.AppendQuote(append(b, `{"text":`...), block.Text)
	case *llm.Thought:
		b = wire.AppendQuote(append(b, `{"text":`...), block.Text(""))
		b = append(b, `,"thought":true`...)
	case *llm.ToolCall:
		b = appendCall(b, block)
	case *llm.Media:
		b = appendMedia(b, block)
	case *llm.ServerCall:
		if block.Protocol == own {
			return append(b, wire.Compact(wire.Raw(block.Raw))...)
		}
	case *llm.Opaque:
		if block.Protocol == own {
			return append(b, wire.Compact(wire.Raw(block.Raw))...)
		}
	}
	if len(b) == start {
		return b
	}
	if signature != "" {
		b = wire.AppendQuote(append(b, `,"thoughtSignature":`...), signature)
	}
	if carried != "" {
		b = append(append(b, `,"extra_content":`...), carried...)
	}
	b = appendKept(b, block.Common().Ext, "")
	return append(b, '}')
}

func appendCall(b []byte, c *llm.ToolCall) []byte {
	b = append(b, `{"functionCall":{`...)
	if !c.Synthetic && c.CallID != "" {
		b = wire.AppendQuote(append(b, `"id":`...), c.CallID)
		b = append(b, ',')
	}
	b = wire.AppendQuote(append(b, `"name":`...), c.Name)
	args, _ := objectArgs(c.Args)
	if c.Kind == llm.CustomTool {
		args = wire.Raw(`{"input":` + string(quote(c.Args)) + `}`)
	}
	b = append(append(b, `,"args":`...), wire.Compact(args)...)
	return append(b, '}')
}

func appendMedia(b []byte, m *llm.Media) []byte {
	switch uri := m.URL + m.FileID; {
	case m.Data != "":
		b = wire.AppendQuote(append(b, `{"inlineData":{"mimeType":`...), m.MIME)
		b = wire.AppendQuote(append(b, `,"data":`...), m.Data)
		b = appendKept(b, m.Ext, atBlob)
	case uri != "":
		b = wire.AppendQuote(append(b, `{"fileData":{"mimeType":`...), m.MIME)
		b = wire.AppendQuote(append(b, `,"fileUri":`...), uri)
		b = appendKept(b, m.Ext, atFile)
	default:
		return b
	}
	return append(b, '}')
}

// grounded collects citations for the metadata at the end of a response.
type grounded struct {
	chunks   []llm.Citation
	places   map[[3]string]int // of chunks, by URL, title and quote
	supports []support
}

type support struct{ part, start, end, chunk int }

// citable reports whether a citation has a URL, a title or a quote.
func citable(c llm.Citation) bool { return c.URL+c.Title+c.Quote != "" }

func (g *grounded) add(c llm.Citation, part, start, end int) {
	key := [3]string{c.URL, c.Title, c.Quote}
	chunk, known := g.places[key]
	if !known {
		if g.places == nil {
			g.places = map[[3]string]int{}
		}
		chunk = len(g.chunks)
		g.chunks, g.places[key] = append(g.chunks, c), chunk
	}
	if end > start {
		g.supports = append(g.supports, support{part, start, end, chunk})
	}
}

// appendTo appends the candidate's metadata, or nothing without citations.
func (g *grounded) appendTo(b []byte) []byte {
	if len(g.chunks) == 0 {
		return b
	}
	b = append(b, `,"groundingMetadata":{"groundingChunks":[`...)
	for i, c := range g.chunks {
		if i > 0 {
			b = append(b, ',')
		}
		kind, quote := `{"web":{"uri":`, ""
		if c.Quote != "" && (c.Protocol == own || !strings.HasPrefix(c.URL, "http")) {
			kind, quote = `{"retrievedContext":{"uri":`, c.Quote // the kind of source that has words
		}
		b = wire.AppendQuote(append(b, kind...), c.URL)
		b = wire.AppendQuote(append(b, `,"title":`...), c.Title)
		if quote != "" {
			b = wire.AppendQuote(append(b, `,"text":`...), quote)
		}
		b = append(b, "}}"...)
	}
	b = append(b, `],"groundingSupports":[`...)
	for i, s := range g.supports {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"segment":{`...)
		if s.part > 0 {
			b = strconv.AppendInt(append(b, `"partIndex":`...), int64(s.part), 10)
			b = append(b, ',')
		}
		b = strconv.AppendInt(append(b, `"startIndex":`...), int64(s.start), 10)
		b = strconv.AppendInt(append(b, `,"endIndex":`...), int64(s.end), 10)
		b = strconv.AppendInt(append(b, `},"groundingChunkIndices":[`...), int64(s.chunk), 10)
		b = append(b, "]}"...)
	}
	return append(b, "]}"...)
}

// appendLogprobs encodes a list of log probabilities in Google's form: the chosen
// tokens in one list, the top candidates of each position in another.
func appendLogprobs(b []byte, items string) []byte {
	var tokens []tokenLogprob
	if items == "" || json.Unmarshal([]byte("["+items+"]"), &tokens, wire.Lenient) != nil {
		return b
	}
	b = append(b, `,"logprobsResult":{"topCandidates":[`...)
	for i, t := range tokens {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendTokens(append(b, `{"candidates":`...), t.Top)
		b = append(b, '}')
	}
	b = appendTokens(append(b, `],"chosenCandidates":`...), tokens)
	return append(b, '}')
}

func appendTokens(b []byte, tokens []tokenLogprob) []byte {
	b = append(b, '[')
	for i, t := range tokens {
		if i > 0 {
			b = append(b, ',')
		}
		b = wire.AppendQuote(append(b, `{"token":`...), t.Token)
		if t.Logprob.Kind() == '0' {
			b = append(append(b, `,"logProbability":`...), t.Logprob...)
		}
		b = append(b, '}')
	}
	return append(b, ']')
}
