package gemini

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
)

// Tap reads usage, finish reasons and errors from an answer that passes. It also
// reads answers of countTokens and of embeddings, which have none of them.
type Tap struct {
	open     int // choices that have not finished
	finished map[int]bool
	seen     bool   // an event has been read whole, so id and model are known
	counts   []byte // the usage of the last event that was not read
	frame    frame
	summary  protocol.Summary
}

// Summary is what has been seen so far.
func (t *Tap) Summary() protocol.Summary {
	if len(t.counts) > 0 {
		d := jsontext.NewDecoder(bytes.NewReader(t.counts), lenient)
		if t.frame.usage.read(d) == nil {
			t.summary.Usage = t.frame.usage.neutral()
		}
		t.counts = t.counts[:0]
	}
	return t.summary
}

// Event sees the data of one event. Most events hold some text and running counts,
// which are put by and not read.
func (t *Tap) Event(data []byte) protocol.Mark {
	data = bytes.TrimSpace(data)
	switch {
	case len(data) == 0, data[0] == ':':
		return protocol.Keepalive
	case t.seen && !telling(data):
		t.putBy(data)
		return protocol.Content
	}
	t.seen = true
	if e := t.read(data); e != nil {
		t.summary.Err, t.summary.Complete = e, false
		return protocol.Failed
	}
	return protocol.Content
}

// telling reports whether an event has to be read: it does not begin as most do,
// with a candidate, or it has a finish reason. Inside a JSON string a quote is
// escaped, so text cannot look like a member.
func telling(data []byte) bool {
	for _, begin := range []string{"{", `"candidates"`, ":", "[", "{"} {
		data = bytes.TrimLeft(data, " \t\r\n")
		if len(data) < len(begin) || string(data[:len(begin)]) != begin {
			return true
		}
		data = data[len(begin):]
	}
	return indexMember(data, `"finishReason"`, len(`"finish`)) >= 0
}

// indexMember finds a member's name by its capital letter, which is much rarer in
// an answer than its first byte, the quote.
func indexMember(data []byte, quoted string, capital int) int {
	for from := 0; ; {
		i := bytes.IndexByte(data[from:], quoted[capital])
		if i < 0 {
			return -1
		}
		start := from + i - capital
		if start >= 0 && bytes.HasPrefix(data[start:], []byte(quoted)) {
			return start
		}
		from += i + 1
	}
}

// maxCounts bounds what is put by; counts are a few hundred bytes.
const maxCounts = 4096

// putBy keeps the counts, which stand behind the text, for when they are wanted:
// the client may go away before the event that is read.
func (t *Tap) putBy(data []byte) {
	const member = `"usageMetadata"`
	i := indexMember(data, member, len(`"usage`))
	if i < 0 {
		return
	}
	rest := bytes.TrimLeft(data[i+len(member):], ": \t\r\n")
	if len(rest) > 0 && rest[0] == '{' && len(rest) <= maxCounts {
		t.counts = append(t.counts[:0], rest...)
	}
}

func (t *Tap) read(data []byte) *llm.Error {
	if data[0] == '[' { // an error in a stream may come so, GEM-21
		items, ok := elements(data)
		if !ok || len(items) == 0 {
			return badAnswer(nil)
		}
		for _, item := range items {
			if err := t.read(item); err != nil {
				return err
			}
		}
		return nil
	}
	f := &t.frame
	if err := f.read(data); err != nil {
		return badAnswer(err)
	}
	if t.summary.ID == "" {
		t.summary.ID = f.id
	}
	if t.summary.Model == "" {
		t.summary.Model = f.model
	}
	if f.hasUsage {
		t.summary.Usage = f.usage.neutral()
		t.counts = t.counts[:0]
	}
	if len(f.err) > 0 {
		return errorIn(f.err)
	}
	if f.blocked != "" && len(f.candidates) == 0 {
		t.summary.Finish, t.summary.Complete = f.blocked, true
	}
	for i := range f.candidates {
		if c := &f.candidates[i]; c.finish != "" && c.finish != "FINISH_REASON_UNSPECIFIED" {
			t.finish(c.index, c.finish)
		}
	}
	return nil
}

// finish notes that a choice has ended, which some servers say in every event.
func (t *Tap) finish(index int, reason string) {
	t.summary.Finish = reason
	if t.finished[index] {
		return
	}
	if t.finished == nil {
		t.finished = make(map[int]bool, 1)
	}
	t.finished[index] = true
	t.open--
	t.summary.Complete = t.summary.Complete || t.open <= 0
}

// Body sees a whole answer.
func (t *Tap) Body(body []byte) *llm.Error {
	body = bytes.TrimSpace(body)
	err := badAnswer(nil)
	if len(body) > 0 {
		err = t.read(body)
	}
	t.summary.Err, t.summary.Complete = err, err == nil
	return err
}
