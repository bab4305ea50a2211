package openaichat

import (
	"bytes"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
)

// lenient is how a tap reads an answer that is not its own: what it does not
// need may be as odd as it likes.
var lenient = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

// Tap reads chat completions, text completions, embeddings and reranking
// results: they share their id, model, usage and error members.
type Tap struct {
	known    bool // the answer's id and model are; Azure's first event has none, CST-24
	open     int  // choices that have not finished
	finished map[int64]bool
	summary  protocol.Summary
}

// Summary is what has been seen so far.
func (t *Tap) Summary() protocol.Summary { return t.summary }

// Event sees the data of one event. Most events hold one token and nothing that
// the tap needs, and they are not decoded.
func (t *Tap) Event(data []byte) protocol.Mark {
	data = bytes.TrimLeft(data, " \t")
	switch {
	case len(data) == 0, data[0] == ':': // a heartbeat dressed as data, SSE-08
		return protocol.Keepalive
	case data[0] == '[' && string(bytes.TrimSpace(data)) == "[DONE]":
		t.summary.Complete = true
		return protocol.Done
	case t.known && !telling(data):
		return protocol.Content
	}
	return t.chunk(data)
}

// telling reports whether an event may hold a finish reason, usage or an error.
// Inside a JSON string a quote is escaped, so text cannot look like a member.
func telling(data []byte) bool {
	return hasMember(data, `"`, `finish_reason"`) || hasMember(data, `"`, `usage"`) || hasMember(data, `"er`, `ror"`)
}

// hasMember reports whether an object in data has the member with a value other
// than null. The quoted name is given in two parts: the search is for the second,
// and is the quicker the rarer its first letter is. Quotes are not rare.
func hasMember(data []byte, first, second string) bool {
	for {
		i := bytes.Index(data, []byte(second))
		if i < 0 {
			return false
		}
		end := i + len(second)
		if !bytes.HasSuffix(data[:i], []byte(first)) {
			data = data[end-1:] // its quote may begin the name
			continue
		}
		data = bytes.TrimLeft(data[end:], " \t\r\n")
		if len(data) == 0 || data[0] != ':' {
			continue
		}
		data = bytes.TrimLeft(data[1:], " \t\r\n")
		if len(data) > 0 && data[0] != 'n' {
			return true
		}
	}
}

// answer is the part of a chunk or a whole body that the tap reads.
type answer struct {
	ID      jsontext.Value `json:"id"`
	Model   jsontext.Value `json:"model"`
	Choices jsontext.Value `json:"choices"`
	Usage   jsontext.Value `json:"usage"`
	Error   jsontext.Value `json:"error"`
}

type choice struct {
	Index        count          `json:"index"`
	FinishReason jsontext.Value `json:"finish_reason"`
}

type usage struct {
	PromptTokens     count `json:"prompt_tokens"`
	CompletionTokens count `json:"completion_tokens"`
	TotalTokens      count `json:"total_tokens"`
	PromptDetails    struct {
		Cached  count `json:"cached_tokens"`
		Written count `json:"cache_write_tokens"`
	} `json:"prompt_tokens_details"`
	CompletionDetails struct {
		Reasoning count `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
	CacheHit count `json:"prompt_cache_hit_tokens"` // DeepSeek's own name for cached tokens
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

// neutral sorts OpenAI's inclusive counts into classes that do not overlap.
func (u *usage) neutral() *llm.Usage {
	n := &llm.Usage{
		CacheRead:  int64(max(u.PromptDetails.Cached, u.CacheHit)),
		CacheWrite: int64(u.PromptDetails.Written),
		Reasoning:  int64(u.CompletionDetails.Reasoning),
	}
	n.Input = max(0, int64(u.PromptTokens)-n.CacheRead-n.CacheWrite)
	n.Output = max(0, int64(u.CompletionTokens)-n.Reasoning)
	return n
}

func (t *Tap) chunk(data []byte) protocol.Mark {
	var a answer
	if err := json.Unmarshal(data, &a, lenient); err != nil {
		return t.fail(&llm.Error{Kind: llm.Upstream, Code: "upstream_invalid_response",
			Message: "the upstream sent an event that is not a chunk of an answer", Cause: err})
	}
	t.read(&a)
	t.known = t.summary.ID != ""
	switch {
	case present(a.Error): // before choices: an error may come with an empty list, ERR-09
		return t.fail(decodeError(a.Error))
	case a.Usage.Kind() == '{' && empty(a.Choices):
		return protocol.UsageOnly
	}
	return protocol.Content
}

// empty reports whether a list is absent, null or without items.
func empty(list jsontext.Value) bool {
	if list.Kind() == '[' {
		return len(bytes.TrimSpace(list[1:len(list)-1])) == 0
	}
	return len(list) == 0 || list.Kind() == 'n'
}

func (t *Tap) fail(e *llm.Error) protocol.Mark {
	t.summary.Err, t.summary.Complete = e, false
	return protocol.Failed
}

func (t *Tap) read(a *answer) {
	if id := scalar(a.ID); t.summary.ID == "" {
		t.summary.ID = id
	}
	if m := scalar(a.Model); t.summary.Model == "" {
		t.summary.Model = m
	}
	var choices []choice
	_ = json.Unmarshal(a.Choices, &choices, lenient) // what cannot be read gives no finish reason
	for _, c := range choices {
		if f := scalar(c.FinishReason); f != "" { // "" is null to some servers, CST-17
			t.finish(int64(c.Index), f)
		}
	}
	var u *usage
	if json.Unmarshal(a.Usage, &u, lenient) == nil && u != nil {
		t.summary.Usage = u.neutral()
	}
}

// finish notes that a choice has ended. A server may say so twice, CST-18.
func (t *Tap) finish(index int64, reason string) {
	t.summary.Finish = reason
	if t.finished[index] {
		return
	}
	if t.finished == nil {
		t.finished = make(map[int64]bool, 1)
	}
	t.finished[index] = true
	t.open--
	t.summary.Complete = t.summary.Complete || t.open <= 0
}

// Body sees a whole answer.
func (t *Tap) Body(body []byte) *llm.Error {
	var a answer
	if err := json.Unmarshal(body, &a, lenient); err != nil {
		t.fail(&llm.Error{Kind: llm.Upstream, Code: "upstream_invalid_response",
			Message: "the upstream's answer is not a complete JSON object", Cause: err})
		return t.summary.Err
	}
	t.read(&a)
	if present(a.Error) {
		t.fail(decodeError(a.Error))
		return t.summary.Err
	}
	t.summary.Complete = true
	return nil
}

// present reports whether a member is there and not null, false or empty: some
// servers write "error": null or "" into every answer.
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
