package gemini

import (
	"bytes"
	"slices"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// Tap reads usage, finish reasons and errors from a response that is relayed. It
// also accepts countTokens and embedding responses, which have none of them.
type Tap struct {
	open     int // choices that have not finished
	finished map[int]bool
	seen     bool   // an event was decoded, so id and model are known
	counts   []byte // the usage of the last event that was not decoded
	frame    frame
	summary  protocol.Summary
}

// Finished reports whether every choice has its finish reason.
func (t *Tap) Finished() bool { return t.summary.Complete }

// Summary returns what the tap has read so far.
func (t *Tap) Summary() protocol.Summary {
	if len(t.counts) > 0 {
		rest := wire.NewScanner(t.counts)
		if raw := rest.Value(); raw != nil {
			s := wire.NewScanner(raw)
			t.frame.usage.read(&s)
			t.summary.Usage, t.summary.Tier = t.frame.usage.neutral(), t.frame.usage.tier
		}
		t.counts = t.counts[:0]
	}
	return t.summary
}

// Event reads one event. Most events hold some text and running counts, which are
// kept undecoded.
func (t *Tap) Event(data []byte) protocol.Mark {
	data = bytes.TrimSpace(data)
	switch {
	case len(data) == 0, data[0] == ':':
		return protocol.Keepalive
	case t.seen && !mustDecode(data):
		t.keepUsage(data)
		t.summary.Content = true
		return protocol.Content
	}
	t.seen = true
	if e := t.read(data); e != nil {
		t.summary.Err, t.summary.Complete = e, false
		return protocol.Failed
	}
	return protocol.Content
}

// mustDecode reports whether an event has to be decoded: it does not begin with a
// candidate, as most events do, or it has a finish reason. Quotes inside JSON strings
// are escaped, so text cannot look like a member.
func mustDecode(data []byte) bool {
	for _, begin := range []string{"{", `"candidates"`, ":", "[", "{"} {
		data = bytes.TrimLeft(data, " \t\r\n")
		if len(data) < len(begin) || string(data[:len(begin)]) != begin {
			return true
		}
		data = data[len(begin):]
	}
	return indexMember(data, `"finishReason"`, len(`"finish`)) >= 0
}

// indexMember finds a member's name by its capital letter, which is much rarer
// than a quote.
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

// maxCounts limits the bytes of usage that are kept.
const maxCounts = 4096

// keepUsage keeps the usage at the end of an event undecoded, in case the client
// disconnects before the next decoded event.
func (t *Tap) keepUsage(data []byte) {
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
	if data[0] == '[' { // an error in a stream may be an array, GEM-21
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
		t.summary.Usage, t.summary.Tier = f.usage.neutral(), f.usage.tier
		t.counts = t.counts[:0]
	}
	if len(f.err) > 0 {
		return errorIn(f.err)
	}
	if f.blocked != "" && len(f.candidates) == 0 {
		t.summary.Finish, t.summary.Complete = f.blocked, true
	}
	t.summary.Keep(f.tokens...)
	for i := range f.candidates {
		t.summary.Content = t.summary.Content || slices.ContainsFunc(f.candidates[i].parts, func(p part) bool { return p.text != "" || len(p.raw) > 0 })
		if c := &f.candidates[i]; c.finish != "" && c.finish != "FINISH_REASON_UNSPECIFIED" {
			t.finish(c.index, c.finish)
		}
	}
	return nil
}

// finish records the finish reason of a choice. Some servers repeat it in every event.
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

// Body reads a non-streaming response.
func (t *Tap) Body(body []byte) *llm.Error {
	body = bytes.TrimSpace(body)
	err := badAnswer(nil)
	if len(body) > 0 {
		err = t.read(body)
	}
	t.summary.Err, t.summary.Complete = err, err == nil
	return err
}
