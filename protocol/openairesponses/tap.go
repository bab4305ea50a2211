package openairesponses

import (
	"bytes"
	"cmp"
	"errors"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/openai"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// Tap reads usage, status and errors from a response that is relayed.
type Tap struct {
	summary protocol.Summary
	next    int64 // the next sequence number
}

// Finished reports whether every choice has its finish reason.
func (t *Tap) Finished() bool { return t.summary.Complete }

// Summary returns what the tap has read so far.
func (t *Tap) Summary() protocol.Summary { return t.summary }

// tapped holds the members of an event that the tap reads, as slices of its text.
type tapped struct{ Type, Response, Error wire.Raw }

func (e *tapped) pick(text []byte) error {
	return wire.Pick(text, wire.Picks{"type": &e.Type, "response": &e.Response, "error": &e.Error})
}

// Event reads one event. Most hold one token and are not decoded.
func (t *Tap) Event(data []byte) protocol.Mark {
	data = bytes.TrimLeft(data, " \t")
	t.number(data)
	switch {
	case len(data) == 0, data[0] == ':':
		return protocol.Keepalive
	case data[0] == '[' && string(bytes.TrimSpace(data)) == "[DONE]": // not part of this protocol, but some servers send it
		if t.summary.Complete {
			return protocol.Done
		}
		return protocol.Keepalive
	case isDelta(data):
		t.summary.Content = true
		return protocol.Content
	}
	var e tapped
	if err := e.pick(data); err != nil {
		return t.fail(unreadable(err))
	}
	typ := wire.Scalar(e.Type)
	if typ == "error" || typ == "" && openai.HasValue(e.Error) {
		return t.fail(inBand(data))
	}
	if e.Response.Kind() != '{' {
		t.summary.Content = t.summary.Content || strings.HasSuffix(typ, ".delta")
		return protocol.Content
	}
	var s snapshot
	if err := s.pick(e.Response); err != nil {
		return t.fail(unreadable(err))
	}
	if err := t.read(&s); err != nil {
		return t.fail(err)
	}
	if t.summary.Complete {
		return protocol.Done
	}
	return protocol.Content
}

// number records an event's sequence number. It searches from the end, where text
// cannot look like it. Only the gateway's own error event needs the number.
func (t *Tap) number(data []byte) {
	const member = `"sequence_number":`
	at := bytes.LastIndex(data, []byte(member))
	if at < 0 {
		return
	}
	digits := bytes.TrimLeft(data[at+len(member):], " ")
	end := bytes.IndexFunc(digits, func(r rune) bool { return r < '0' || r > '9' })
	if end < 0 {
		end = len(digits)
	}
	if n, err := strconv.ParseInt(string(digits[:end]), 10, 64); err == nil {
		t.next = n + 1
	}
}

// EncodeStreamError ends the relayed stream with an error. It uses the response's
// own id and the next sequence number, which clients require.
func (t *Tap) EncodeStreamError(e *llm.Error) []byte {
	return encodeFailed(e, t.summary.ID, t.next)
}

// isDelta reports whether an event is a piece of text. Known servers write the
// type first, and text cannot look like it.
func isDelta(data []byte) bool {
	const head = `{"type":"response.`
	if len(data) <= len(head) || string(data[:len(head)]) != head {
		return false
	}
	typ, _, _ := bytes.Cut(data[len(head):min(len(data), len(head)+64)], []byte{'"'})
	return bytes.HasSuffix(typ, []byte(".delta"))
}

func unreadable(err error) *llm.Error {
	return codec.InvalidResponse("the upstream sent something that is not a response", err)
}

func (t *Tap) fail(e *llm.Error) protocol.Mark {
	t.summary.Err, t.summary.Complete = e, false
	return protocol.Failed
}

// snapshot holds the members of a response object that the tap and the decoder
// read.
type snapshot struct {
	ID         jsontext.Value `json:"id"`
	Model      jsontext.Value `json:"model"`
	Created    wire.Count     `json:"created_at"`
	Tier       jsontext.Value `json:"service_tier"`
	Status     jsontext.Value `json:"status"`
	Error      jsontext.Value `json:"error"`
	Incomplete jsontext.Value `json:"incomplete_details"`
	Output     jsontext.Value `json:"output"`
	Usage      jsontext.Value `json:"usage"`
	Count      jsontext.Value `json:"input_tokens"` // of a token count, which has nothing else
}

// pick reads all members but created_at, as slices of the text.
func (s *snapshot) pick(text []byte) error {
	return wire.Pick(text, wire.Picks{
		"id": &s.ID, "model": &s.Model, "service_tier": &s.Tier, "status": &s.Status, "error": &s.Error,
		"incomplete_details": &s.Incomplete, "output": &s.Output, "usage": &s.Usage, "input_tokens": &s.Count,
	})
}

// reason returns why the response is incomplete, in the source's words.
func (s *snapshot) reason() string {
	var d struct {
		Reason jsontext.Value `json:"reason"`
	}
	_ = json.Unmarshal(s.Incomplete, &d, wire.Lenient) // what cannot be read gives no reason
	return wire.Scalar(d.Reason)
}

// tier returns the service tier, or "" if it is unknown.
func (s *snapshot) tier() string {
	if tier := wire.Scalar(s.Tier); tier != unknownTier {
		return tier
	}
	return ""
}

// tokens returns the token counts, or nil.
func (s *snapshot) tokens() *llm.Usage {
	var u *usage
	if json.Unmarshal(s.Usage, &u, wire.Lenient) != nil || u == nil {
		return nil
	}
	return u.neutral()
}

// read reads a snapshot. A response that failed is an error.
func (t *Tap) read(s *snapshot) *llm.Error {
	t.summary.ID = cmp.Or(t.summary.ID, wire.Scalar(s.ID))
	t.summary.Model = cmp.Or(t.summary.Model, wire.Scalar(s.Model))
	t.summary.Tier = cmp.Or(s.tier(), t.summary.Tier)
	if u := s.tokens(); u != nil {
		t.summary.Usage = u
	}
	if err := s.failure(); err != nil {
		return err
	}
	switch status := wire.Scalar(s.Status); status {
	case "completed":
		t.summary.Finish, t.summary.Complete = status, true
	case "incomplete":
		t.summary.Finish, t.summary.Complete = cmp.Or(s.reason(), status), true
	}
	status := wire.Scalar(s.Status)
	t.summary.Pending = status == "queued" || status == "in_progress"
	ids, content := readOutput(s.Output)
	t.summary.Content = t.summary.Content || content
	if t.summary.Complete {
		t.summary.Kept = ids
	}
	return nil
}

// readOutput returns the ids of a response's items, and whether they have content.
func readOutput(output []byte) (ids []string, content bool) {
	s := wire.NewScanner(output)
	for range s.Items() {
		for name := range s.Members() {
			switch string(name) {
			case "id":
				if s.Kind() == '"' {
					ids = append(ids, wire.Unquote(s.Value()))
				}
			case "type", "role", "status", "phase":
			default:
				content = content || codec.ReadContent(&s, "id", "type", "role", "status", "phase")
			}
		}
	}
	return ids, content
}

// failure returns the error of a response that failed or was cancelled, or of an
// error object with status 200.
func (s *snapshot) failure() *llm.Error {
	status := wire.Scalar(s.Status)
	switch {
	case openai.HasValue(s.Error):
		return inBand(s.Error)
	case status == "failed", status == "cancelled":
		return &llm.Error{Kind: llm.Upstream, Code: "response_" + status, Message: "the upstream's response has the status " + status}
	}
	return nil
}

// whole is failure for a non-streaming response, which must also have a status.
func (s *snapshot) whole() *llm.Error {
	if err := s.failure(); err != nil {
		return err
	}
	if wire.Scalar(s.Status) == "" && s.Output.Kind() != '[' && s.Count.Kind() != '0' {
		return unreadable(errors.New("it has neither a status nor an output"))
	}
	return nil
}

// Body reads a non-streaming response.
func (t *Tap) Body(body []byte) *llm.Error {
	var s snapshot
	if err := s.pick(body); err != nil {
		t.fail(unreadable(err))
		return t.summary.Err
	}
	err := t.read(&s)
	if err == nil {
		err = s.whole()
	}
	if err != nil {
		t.fail(err)
		return err
	}
	t.summary.Complete = true
	return nil
}

// usage counts tokens. Cached tokens are part of the input, reasoning is part of
// the output.
type usage struct {
	Input        wire.TokenCount `json:"input_tokens"`
	Output       wire.TokenCount `json:"output_tokens"`
	InputDetails struct {
		Cached  wire.TokenCount `json:"cached_tokens"`
		Written wire.TokenCount `json:"cache_write_tokens"`
	} `json:"input_tokens_details"`
	OutputDetails struct {
		Reasoning wire.TokenCount `json:"reasoning_tokens"`
	} `json:"output_tokens_details"`
}

// neutral converts OpenAI's overlapping counts into neutral counts that do not
// overlap. It returns nil if one of them is impossible.
func (u *usage) neutral() *llm.Usage {
	if min(u.Input, u.Output, u.InputDetails.Cached, u.InputDetails.Written, u.OutputDetails.Reasoning) < 0 {
		return nil
	}
	n := &llm.Usage{CacheRead: int64(u.InputDetails.Cached), CacheWrite: int64(u.InputDetails.Written), Reasoning: int64(u.OutputDetails.Reasoning)}
	n.Input = max(0, int64(u.Input)-n.CacheRead-n.CacheWrite)
	n.Output = max(0, int64(u.Output)-n.Reasoning)
	return n
}
