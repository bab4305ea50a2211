package openairesponses

import (
	"bytes"
	"errors"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
)

// lenient is how answers of others are read: what is not needed may be as odd as
// it likes.
var lenient = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

// Tap reads responses.
type Tap struct {
	summary protocol.Summary
	next    int64 // the sequence number that would follow
}

// Summary is what has been seen so far.
func (t *Tap) Summary() protocol.Summary { return t.summary }

// tapped is the part of an event that the tap reads.
type tapped struct {
	Type     jsontext.Value `json:"type"`
	Response jsontext.Value `json:"response"`
	Error    jsontext.Value `json:"error"`
}

// Event sees the data of one event. Most hold one token, and they are not decoded.
func (t *Tap) Event(data []byte) protocol.Mark {
	data = bytes.TrimLeft(data, " \t")
	t.number(data)
	switch {
	case len(data) == 0, data[0] == ':':
		return protocol.Keepalive
	case data[0] == '[' && string(bytes.TrimSpace(data)) == "[DONE]": // not of this protocol, but some send it
		if t.summary.Complete {
			return protocol.Done
		}
		return protocol.Keepalive
	case isDelta(data):
		return protocol.Content
	}
	var e tapped
	if err := json.Unmarshal(data, &e, lenient); err != nil {
		return t.fail(unreadable(err))
	}
	typ := scalar(e.Type)
	if typ == "error" || typ == "" && present(e.Error) {
		return t.fail(inBand(data))
	}
	if e.Response.Kind() != '{' {
		return protocol.Content
	}
	var s snapshot
	if err := json.Unmarshal(e.Response, &s, lenient); err != nil {
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

// number notes an event's sequence number. It is looked for from the end, where
// text cannot look like it, and not at all costs: only an error of ours needs it.
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

// EncodeStreamError ends the stream that the tap has watched: with the response's
// own id and the next number, without which clients do not take it.
func (t *Tap) EncodeStreamError(e *llm.Error) []byte {
	return encodeFailed(e, t.summary.ID, t.next)
}

// isDelta reports whether an event is a piece of text: its type comes first with
// every server that is known, and text cannot look like it.
func isDelta(data []byte) bool {
	const head = `{"type":"response.`
	if len(data) <= len(head) || string(data[:len(head)]) != head {
		return false
	}
	typ, _, _ := bytes.Cut(data[len(head):min(len(data), len(head)+64)], []byte{'"'})
	return bytes.HasSuffix(typ, []byte(".delta"))
}

func unreadable(err error) *llm.Error {
	return &llm.Error{Kind: llm.Upstream, Code: "upstream_invalid_response",
		Message: "the upstream sent something that is not a response", Cause: err}
}

func (t *Tap) fail(e *llm.Error) protocol.Mark {
	t.summary.Err, t.summary.Complete = e, false
	return protocol.Failed
}

// snapshot is the part of a response object that is read of any answer.
type snapshot struct {
	ID         jsontext.Value `json:"id"`
	Model      jsontext.Value `json:"model"`
	Created    count          `json:"created_at"`
	Tier       jsontext.Value `json:"service_tier"`
	Status     jsontext.Value `json:"status"`
	Error      jsontext.Value `json:"error"`
	Incomplete jsontext.Value `json:"incomplete_details"`
	Output     jsontext.Value `json:"output"`
	Usage      jsontext.Value `json:"usage"`
}

// reason is why the answer is not complete, as the source says it.
func (s *snapshot) reason() string {
	var d struct {
		Reason jsontext.Value `json:"reason"`
	}
	_ = json.Unmarshal(s.Incomplete, &d, lenient) // what cannot be read gives no reason
	return scalar(d.Reason)
}

// tier is the class of service, where it is known.
func (s *snapshot) tier() string {
	if tier := scalar(s.Tier); tier != unknownTier {
		return tier
	}
	return ""
}

// tokens are the token counts; nil where there are none.
func (s *snapshot) tokens() *llm.Usage {
	var u *usage
	if json.Unmarshal(s.Usage, &u, lenient) != nil || u == nil {
		return nil
	}
	return u.neutral()
}

// read takes a snapshot into account. A response that has failed is an error.
func (t *Tap) read(s *snapshot) *llm.Error {
	t.summary.ID = orElse(t.summary.ID, scalar(s.ID))
	t.summary.Model = orElse(t.summary.Model, scalar(s.Model))
	if u := s.tokens(); u != nil {
		t.summary.Usage = u
	}
	if err := s.failure(); err != nil {
		return err
	}
	switch status := scalar(s.Status); status {
	case "completed":
		t.summary.Finish, t.summary.Complete = status, true
	case "incomplete":
		t.summary.Finish, t.summary.Complete = orElse(s.reason(), status), true
	}
	return nil
}

// failure is the error of a response that has failed, been cancelled, or is an
// error object with a good status.
func (s *snapshot) failure() *llm.Error {
	status := scalar(s.Status)
	switch {
	case present(s.Error):
		return inBand(s.Error)
	case status == "failed", status == "cancelled":
		return &llm.Error{Kind: llm.Upstream, Code: "response_" + status, Message: "the upstream's response has the status " + status}
	}
	return nil
}

// whole is failure for an answer that is not streamed, which must also be one.
func (s *snapshot) whole() *llm.Error {
	if err := s.failure(); err != nil {
		return err
	}
	if scalar(s.Status) == "" && s.Output.Kind() != '[' {
		return unreadable(errors.New("it has neither a status nor an output"))
	}
	return nil
}

// Body sees a whole answer.
func (t *Tap) Body(body []byte) *llm.Error {
	var s snapshot
	if err := json.Unmarshal(body, &s, lenient); err != nil {
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
	Input        count `json:"input_tokens"`
	Output       count `json:"output_tokens"`
	InputDetails struct {
		Cached  count `json:"cached_tokens"`
		Written count `json:"cache_write_tokens"`
	} `json:"input_tokens_details"`
	OutputDetails struct {
		Reasoning count `json:"reasoning_tokens"`
	} `json:"output_tokens_details"`
}

// neutral sorts OpenAI's inclusive counts into classes that do not overlap.
func (u *usage) neutral() *llm.Usage {
	n := &llm.Usage{CacheRead: int64(u.InputDetails.Cached), CacheWrite: int64(u.InputDetails.Written), Reasoning: int64(u.OutputDetails.Reasoning)}
	n.Input = max(0, int64(u.Input)-n.CacheRead-n.CacheWrite)
	n.Output = max(0, int64(u.Output)-n.Reasoning)
	return n
}

// count is a whole number. Some servers write it as a string or a float, JSN-18.
type count int64

// UnmarshalJSON reads a number or a string of digits; anything else counts zero.
func (c *count) UnmarshalJSON(b []byte) error {
	s := string(bytes.Trim(b, `"`))
	if n, err := strconv.ParseInt(s, 10, 64); err == nil && n > 0 {
		*c = count(n)
	} else if f, err := strconv.ParseFloat(s, 64); err == nil && f > 0 && f < 1<<62 {
		*c = count(f)
	}
	return nil
}

// scalar is the text of a JSON string or number; anything else has none.
func scalar(v jsontext.Value) string {
	switch v.Kind() {
	case '"':
		var s string
		if json.Unmarshal(v, &s, lenient) == nil {
			return s
		}
	case '0':
		return string(v)
	default:
	}
	return ""
}

// present reports whether a member is there and not null, false or empty.
func present(v jsontext.Value) bool {
	switch v.Kind() {
	case '{', '[', '0':
		return true
	case '"':
		return len(v) > len(`""`)
	default:
		return false
	}
}
