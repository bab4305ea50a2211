package relay

import (
	"encoding/json"
	"net/http"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
	"github.com/isogloss-gateway/isogloss/sse"
)

// telegram is an invented dialect with its own JSON format, stream events and errors.
// Everything that the gateway knows about it is in this file.
const telegram protocol.Name = "telegram"

const telegramPath = "/telegram/send"

func telegramDialect() *codec.Dialect {
	return &codec.Dialect{
		Name:    telegram,
		Codec:   telegramCodec{},
		Routes:  []codec.Route{{Name: "telegram", Operation: codec.Generate, Path: telegramPath, Span: "chat"}},
		Members: []string{"to", "live", "limit"},
		Read: func(_ codec.Location, body *wire.Index) (codec.Head, *llm.Error) {
			head, err := codec.ReadModel(body, "to", "live")
			head.MaxOutput = codec.Count(body.Raw("limit"))
			return head, err
		},
		SetModel:  codec.SetMember("to"),
		SetStream: codec.SetTrue("live"),
		Prompt:    codec.Prompt{Turns: "lines"},
	}
}

type (
	telegramLine struct {
		From string `json:"from"`
		Text string `json:"text"`
	}
	telegramRequest struct {
		To    string         `json:"to"`
		Live  bool           `json:"live,omitempty"`
		Lines []telegramLine `json:"lines"`
		Limit *int64         `json:"limit,omitempty"`
	}
	telegramWords struct {
		In  int64 `json:"in"`
		Out int64 `json:"out"`
	}
	// telegramReply is a non-streaming response or an event of a stream.
	telegramReply struct {
		Wire    string         `json:"wire,omitempty"`
		By      string         `json:"by,omitempty"`
		Word    string         `json:"word,omitempty"` // streaming
		Text    string         `json:"text,omitempty"` // non-streaming
		Closing string         `json:"closing,omitempty"`
		Words   *telegramWords `json:"words,omitempty"`
		Fault   *telegramFault `json:"fault,omitempty"`
	}
	telegramFault struct {
		Kind string `json:"kind"`
		Why  string `json:"why"`
	}
)

var (
	telegramRoles    = map[string]llm.Role{"desk": llm.System, "me": llm.User, "you": llm.Assistant}
	telegramClosings = map[string]llm.StopKind{"done": llm.EndTurn, "cut": llm.MaxTokens}
)

func keyOf[K, V comparable](m map[K]V, value V, otherwise K) K {
	for k, v := range m {
		if v == value {
			return k
		}
	}
	return otherwise
}

func telegramJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

func (f *telegramFault) err() *llm.Error {
	return &llm.Error{Kind: llm.Kind(f.Kind), Message: f.Why, Relayed: true}
}

func (w *telegramWords) usage() *llm.Usage {
	if w == nil {
		return nil
	}
	return &llm.Usage{Input: w.In, Output: w.Out}
}

func telegramWordsOf(u *llm.Usage) *telegramWords {
	if u == nil {
		return nil
	}
	return &telegramWords{In: u.TotalInput(), Out: u.TotalOutput()}
}

type telegramCodec struct{}

func (telegramCodec) Name() protocol.Name          { return telegram }
func (telegramCodec) NewTap(int) protocol.Tap      { return &telegramTap{} }
func (telegramCodec) ErrorStatus(e *llm.Error) int { return e.HTTPStatus() }
func (telegramCodec) EncodeError(e *llm.Error) []byte {
	return telegramJSON(telegramReply{Fault: &telegramFault{string(e.Kind), e.Message}})
}
func (c telegramCodec) EncodeStreamError(e *llm.Error) []byte {
	return sse.AppendEvent(nil, "fault", c.EncodeError(e))
}

func (telegramCodec) DecodeRequest(in protocol.Incoming) (*llm.Request, *llm.Error) {
	var w telegramRequest
	if err := json.Unmarshal(in.Body, &w); err != nil {
		return nil, &llm.Error{Kind: llm.InvalidRequest, Message: "this is no telegram", Cause: err}
	}
	req := &llm.Request{Model: w.To, Stream: w.Live, Output: llm.Output{MaxTokens: w.Limit}}
	for _, l := range w.Lines {
		req.Turns = append(req.Turns, llm.Turn{Role: telegramRoles[l.From], Blocks: []llm.Block{&llm.Text{Text: l.Text}}})
	}
	return req, nil
}

func (telegramCodec) EncodeRequest(req *llm.Request, target protocol.Target, report *llm.Report) (protocol.Outgoing, *llm.Error) {
	w := telegramRequest{To: target.Model, Live: req.Stream, Limit: req.Output.MaxTokens}
	for _, turn := range req.Turns {
		line := telegramLine{From: keyOf(telegramRoles, turn.Role, "me")}
		for _, b := range turn.Blocks {
			if text, ok := b.(*llm.Text); ok {
				line.Text += text.Text
				continue
			}
			report.Refuse("turns", "telegram.text_only", "a telegram has text only")
		}
		w.Lines = append(w.Lines, line)
	}
	if len(req.Tools) > 0 {
		report.Refuse("tools", "telegram.text_only", "a telegram has no tools")
	}
	return protocol.Outgoing{Body: telegramJSON(w), Path: telegramPath}, report.Err()
}

func (telegramCodec) DecodeResponse(body []byte) (*llm.Response, *llm.Error) {
	var w telegramReply
	if err := json.Unmarshal(body, &w); err != nil {
		return nil, &llm.Error{Kind: llm.Upstream, Message: "this is no telegram", Cause: err}
	}
	if w.Fault != nil {
		return nil, w.Fault.err()
	}
	return &llm.Response{ID: w.Wire, Model: w.By, Usage: w.Words.usage(), Choices: []llm.Choice{{
		Blocks: []llm.Block{&llm.Text{Text: w.Text}}, Stop: llm.Stop{Kind: telegramClosings[w.Closing], Raw: w.Closing}}}}, nil
}

func (telegramCodec) EncodeResponse(resp *llm.Response, _ *llm.Request, report *llm.Report) []byte {
	w := telegramReply{Wire: resp.ID, By: resp.Model, Words: telegramWordsOf(resp.Usage)}
	for _, c := range resp.Choices {
		for _, b := range c.Blocks {
			if text, ok := b.(*llm.Text); ok {
				w.Text += text.Text
				continue
			}
			report.Drop("choices", "telegram.text_only", "a telegram has text only")
		}
		w.Closing = keyOf(telegramClosings, c.Stop.Kind, "cut")
	}
	return telegramJSON(w)
}

func (telegramCodec) DecodeError(status int, _ http.Header, body []byte) *llm.Error {
	var w telegramReply
	if json.Unmarshal(body, &w) != nil || w.Fault == nil {
		return &llm.Error{Kind: llm.Upstream, Status: status, Message: "the upstream reported an error without a message"}
	}
	e := w.Fault.err()
	e.Status = status
	return e
}

func (telegramCodec) NewStreamDecoder() protocol.StreamDecoder { return &telegramDecoder{} }

func (telegramCodec) NewStreamEncoder(*llm.Request) protocol.StreamEncoder { return &telegramEncoder{} }

// telegramDecoder decodes the events open, word, close and fault.
type telegramDecoder struct{ begun, over bool }

func (d *telegramDecoder) Decode(name, data []byte, to []llm.Event) []llm.Event {
	var w telegramReply
	if d.over || json.Unmarshal(data, &w) != nil {
		return to
	}
	switch string(name) {
	case "open":
		return append(to, llm.Start{ID: w.Wire, Model: w.By})
	case "word":
		if !d.begun {
			d.begun = true
			to = append(to, llm.BlockStart{Block: &llm.Text{}})
		}
		return append(to, llm.Delta{Text: w.Word})
	case "close":
		d.over = true
		if d.begun {
			to = append(to, llm.BlockEnd{})
		}
		if u := w.Words.usage(); u != nil {
			to = append(to, llm.UsageUpdate{Usage: *u})
		}
		return append(to, llm.ChoiceEnd{Stop: llm.Stop{Kind: telegramClosings[w.Closing], Raw: w.Closing}}, llm.End{})
	case "fault":
		d.over = true
		return append(to, llm.Failure{Err: w.Fault.err()})
	}
	return to
}

func (d *telegramDecoder) Finish(to []llm.Event) []llm.Event {
	if d.over {
		return to
	}
	return append(to, llm.Failure{Err: &llm.Error{Kind: llm.Upstream, Code: "upstream_truncated", Message: "the telegram broke off"}})
}

// telegramEncoder encodes the events open, word, close and fault.
type telegramEncoder struct{ last telegramReply }

func (s *telegramEncoder) Encode(e llm.Event, to []byte) []byte {
	switch e := e.(type) {
	case llm.Start:
		return sse.AppendEvent(to, "open", telegramJSON(telegramReply{Wire: e.ID, By: e.Model}))
	case llm.Delta:
		return sse.AppendEvent(to, "word", telegramJSON(telegramReply{Word: e.Text}))
	case llm.UsageUpdate:
		s.last.Words = telegramWordsOf(&e.Usage)
	case llm.ChoiceEnd:
		s.last.Closing = keyOf(telegramClosings, e.Stop.Kind, "cut")
	case llm.End:
		return sse.AppendEvent(to, "close", telegramJSON(s.last))
	case llm.Failure:
		return append(to, telegramCodec{}.EncodeStreamError(e.Err)...)
	}
	return to
}

// telegramTap recognizes the events by their members.
type telegramTap struct{ seen protocol.Summary }

func (t *telegramTap) Summary() protocol.Summary { return t.seen }

// Finished reports whether the response is complete.
func (t *telegramTap) Finished() bool { return t.seen.Complete }

func (t *telegramTap) Event(data []byte) protocol.Mark {
	var w telegramReply
	if json.Unmarshal(data, &w) != nil {
		return protocol.Keepalive
	}
	if err := t.read(&w); err != nil {
		t.seen.Err = err
		return protocol.Failed
	}
	switch {
	case t.seen.Complete:
		return protocol.Done
	case w.Word != "":
		return protocol.Content
	}
	return protocol.Keepalive
}

func (t *telegramTap) Body(body []byte) *llm.Error {
	var w telegramReply
	if err := json.Unmarshal(body, &w); err != nil {
		return &llm.Error{Kind: llm.Upstream, Message: "this is no telegram", Cause: err}
	}
	return t.read(&w)
}

func (t *telegramTap) read(w *telegramReply) *llm.Error {
	if w.Fault != nil {
		return w.Fault.err()
	}
	if w.Wire != "" {
		t.seen.ID, t.seen.Model = w.Wire, w.By
	}
	if w.Closing != "" {
		t.seen.Finish, t.seen.Complete, t.seen.Usage = w.Closing, true, w.Words.usage()
	}
	return nil
}
