package gemini

import (
	"bytes"
	"strconv"
	"time"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// DecodeResponse reads a whole answer: it is a stream of one event, so that both
// are read by the same code and give the same blocks.
func (Codec) DecodeResponse(body []byte) (*llm.Response, *llm.Error) {
	s := streamDecoder{whole: true}
	var collector llm.Collector
	for _, e := range s.Finish(s.Decode(nil, body, nil)) {
		if f, failed := e.(llm.Failure); failed {
			return nil, f.Err
		}
		if err := collector.Add(e); err != nil {
			return nil, badAnswer(err)
		}
	}
	r, err := collector.Response()
	if err != nil {
		return nil, badAnswer(err)
	}
	readExtras(r, body)
	return r, nil
}

// readExtras keeps the members that the neutral model has no field for.
func readExtras(r *llm.Response, body []byte) {
	var w Response
	if r.Ext.Protocol = own; bytes.TrimSpace(body)[0] != '{' || w.UnmarshalJSON(body) != nil {
		return
	}
	keep(&r.Ext, "", w.Extra.All())
	if f := w.PromptFeedback.Ptr(); f != nil {
		if f.BlockReason.IsSet() {
			keep(&r.Ext, atFeedback, f.Extra.All())
		} else {
			raw, _ := feedbackShape.Marshal(f) // what was decoded can be encoded
			keepRaw(&r.Ext, "promptFeedback", raw)
		}
	}
	if u := w.UsageMetadata.Ptr(); u != nil {
		keep(&r.Ext, atUsage, u.Extra.All())
		note(&r.Ext, atUsage+"toolUsePromptTokenCount", wire.Raw(u.ToolUsePromptTokenCount.Value()))
	}
	for _, c := range w.Candidates.Value() {
		index, _ := c.Index.Value().Int64()
		for i := range r.Choices {
			if r.Choices[i].Index == int(index) {
				keep(&r.Choices[i].Ext, "", c.Extra.All())
			}
		}
	}
}

// EncodeResponse writes a whole answer for a client.
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
		if string(b) == `{"candidates":[]` { // a blocked prompt has none at all
			b = append(b[:0], '{')
		} else {
			b = append(b, ',')
		}
		b = appendString(append(b, `"promptFeedback":{"blockReason":`...), feedback)
		b = appendKept(b, resp.Ext, atFeedback)
		b = append(b, '}')
	}
	if resp.Usage != nil {
		b = appendUsage(append(b, `,"usageMetadata":`...), resp.Usage, resp.Ext)
	}
	if resp.Model != "" {
		b = appendString(append(b, `,"modelVersion":`...), resp.Model)
	}
	if resp.ID != "" {
		b = appendString(append(b, `,"responseId":`...), resp.ID)
	}
	if resp.Ext.Protocol != own || resp.Ext.Get(protocol.MarkPrefix+"createTime") == "" {
		b = appendCreated(b, resp.Created)
	}
	b = appendKept(b, resp.Ext, "")
	return append(b, '}')
}

func appendCreated(b []byte, created int64) []byte {
	if created == 0 {
		return b
	}
	return appendString(append(b, `,"createTime":`...), time.Unix(created, 0).UTC().Format(time.RFC3339))
}

func appendCandidate(b []byte, c *llm.Choice, report *llm.Report) []byte {
	var g grounded
	b = append(b, `{"content":{"parts":[`...)
	parts := 0
	for j, block := range c.Blocks {
		before, path := len(b), at("choices", c.Index)+"."+at("blocks", j)
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
	if parts == 0 { // SDKs take a content without parts for no answer at all
		b = append(b, `{"text":""}`...)
	}
	reportStop(c, report)
	b = appendString(append(b, `],"role":"model"},"finishReason":`...), finishReason(c.Stop))
	b = strconv.AppendInt(append(b, `,"index":`...), int64(c.Index), 10)
	members := kept(c.Ext, "")
	if _, has := members.Get("groundingMetadata"); !has {
		b = g.appendTo(b)
	}
	if _, has := members.Get("logprobsResult"); !has {
		b = appendLogprobs(b, logprobsOf(c.Blocks))
	}
	if _, has := members.Get("finishMessage"); !has && c.Stop.Explanation != "" {
		b = appendString(append(b, `,"finishMessage":`...), c.Stop.Explanation)
	}
	b = appendKept(b, c.Ext, "")
	return append(b, '}')
}

// citeWhole adds the sources of a text whose every byte is at hand.
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

// appendKept writes the members of a level, each with a comma before it.
func appendKept(b []byte, e llm.Ext, level string) []byte {
	for _, m := range kept(e, level) {
		b = appendString(append(b, ','), m.Name)
		b = append(append(b, ':'), wire.Compact(m.Value)...)
	}
	return b
}

// appendUsage writes token counts. What was written to a cache was read as well
// and has no count of its own here.
func appendUsage(b []byte, u *llm.Usage, e llm.Ext) []byte {
	tools, _ := wire.Number(e.Get(protocol.MarkPrefix + atUsage + "toolUsePromptTokenCount")).Int64()
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

// appendBlock writes a block as a part; nothing for one that has no form here.
func appendBlock(b []byte, block llm.Block) []byte {
	signature, carried := carrySeals(block.Common().Seals)
	start := len(b)
	switch block := block.(type) {
	case *llm.Text:
		b = appendString(append(b, `{"text":`...), block.Text)
	case *llm.Refusal:
		b = appendString(append(b, `{"text":`...), block.Text)
	case *llm.Thought:
		b = appendString(append(b, `{"text":`...), block.Text(""))
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
		b = appendString(append(b, `,"thoughtSignature":`...), signature)
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
		b = appendString(append(b, `"id":`...), c.CallID)
		b = append(b, ',')
	}
	b = appendString(append(b, `"name":`...), c.Name)
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
		b = appendString(append(b, `{"inlineData":{"mimeType":`...), m.MIME)
		b = appendString(append(b, `,"data":`...), m.Data)
		b = appendKept(b, m.Ext, atBlob)
	case uri != "":
		b = appendString(append(b, `{"fileData":{"mimeType":`...), m.MIME)
		b = appendString(append(b, `,"fileUri":`...), uri)
		b = appendKept(b, m.Ext, atFile)
	default:
		return b
	}
	return append(b, '}')
}
