package openaichat

import (
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// These marks are members that this codec adds to an Ext for its own encoder.
// They are not written to the wire.
const (
	// legacyMark marks a tool, a call or a result that uses the deprecated
	// functions form.
	legacyMark = codec.MarkPrefix + "functions"

	// partMark keeps the original JSON of a content part whose neutral form would
	// be encoded differently.
	partMark = codec.MarkPrefix + "part"

	// refusalMark marks a refusal that was the message's refusal member and not a
	// part of its content.
	refusalMark = codec.MarkPrefix + "refusal"

	// reasoningMark lists the member names under which a stream sent reasoning.
	reasoningMark = codec.MarkPrefix + "reasoning_names"

	// noArgsMark marks a call whose response was cut off before any arguments
	// came.
	noArgsMark = codec.MarkPrefix + "no_arguments"

	// messageMark and logprobsMark prefix the names of members of a choice's
	// message and of its logprobs object.
	messageMark  = codec.MarkPrefix + "message."
	logprobsMark = codec.MarkPrefix + "logprobs."
)

// originalMark returns the mark that keeps a member's original JSON although the
// neutral model has its meaning.
func originalMark(name string) string { return codec.MarkPrefix + name }

// wireName returns a member's name on the wire, and false for a mark that is not
// written.
func wireName(name string) (string, bool) {
	switch name {
	case legacyMark, partMark, refusalMark, reasoningMark, noArgsMark:
		return "", false
	}
	return strings.TrimPrefix(name, codec.MarkPrefix), true
}

// keep adds a member to e if it has a value.
func keep[T any](e *llm.Ext, name string, v wire.Opt[T]) {
	if v.IsSet() {
		e.Members = append(e.Members, llm.Member{Name: name, Value: rawOf(v)})
	}
}

func extOf(e wire.Extra) llm.Ext {
	if m := codec.Members(e.All()); len(m) > 0 {
		return llm.Ext{Protocol: own, Members: m}
	}
	return llm.Ext{}
}

// extWith keeps the unknown members of an object, and those of a nested object
// under the nested object's name.
func extWith(outer wire.Extra, name string, inner wire.Extra) llm.Ext {
	m := codec.Members(outer.All())
	if o := inner.All(); len(o) > 0 {
		m = append(m, llm.Member{Name: name, Value: rawOf(o)})
	}
	if len(m) == 0 {
		return llm.Ext{}
	}
	return llm.Ext{Protocol: own, Members: m}
}

// extrasOf reverses extWith.
func extrasOf(e llm.Ext, name string) (outer, inner wire.Extra) {
	if e.Protocol != own {
		return outer, inner
	}
	var rest []llm.Member
	for _, m := range e.Members {
		var o wire.Object
		if m.Name == name && json.Unmarshal([]byte(m.Value), &o) == nil {
			inner = wire.NewExtra(o)
		} else {
			rest = append(rest, m)
		}
	}
	return wire.NewExtra(ownMembers(rest)), inner
}

// extraOf returns the unknown members that this protocol kept in e.
func extraOf(e llm.Ext) wire.Extra {
	if e.Protocol != own {
		return wire.Extra{}
	}
	return wire.NewExtra(ownMembers(e.Members))
}

// ownMembers returns kept members under their names on the wire.
func ownMembers(list []llm.Member) wire.Object {
	o := make(wire.Object, 0, len(list))
	for _, m := range list {
		if name, ok := wireName(m.Name); ok {
			o = append(o, wire.Member{Name: name, Value: wire.Raw(m.Value)})
		}
	}
	return o
}

// The rest of this file keeps the members of a response that the neutral model
// has no field for. A response that is collected from a stream, or streamed from
// a body, loses nothing if it stays in this protocol. The stream decoder and
// DecodeResponse put the members into the Ext of the response, its choices and
// its blocks; EncodeResponse and the stream encoder write them again.

// maxSeen limits how many members a seen remembers, because the upstream chooses
// their names.
const maxSeen = 64

// seen remembers the last value of each member that was emitted, so that a member
// repeated in every chunk is emitted once.
type seen map[string]llm.Raw

// repeats reports whether a member has the value that was emitted before, or is
// null.
func (s seen) repeats(name, value []byte) bool {
	old, known := s[string(name)]
	return known && (isNull(value) || string(old) == string(value))
}

// add appends a member to a list under the name kept, unless it is absent or
// repeats.
func (s seen) add(name, kept string, raw []byte, to []llm.Member) []llm.Member {
	if len(raw) == 0 || s.repeats([]byte(name), raw) {
		return to
	}
	m := llm.Member{Name: kept, Value: llm.Raw(raw)}
	if _, known := s[name]; known || len(s) < maxSeen {
		s[name] = m.Value
	}
	return append(to, m)
}

// addOriginal appends a member under its original mark.
func (s seen) addOriginal(name string, raw []byte, to []llm.Member) []llm.Member {
	if len(raw) == 0 {
		return to
	}
	return s.add(name, originalMark(name), raw, to)
}

// addAll appends the members of an object under names with a prefix.
func (s seen) addAll(object jsontext.Value, prefix string, to []llm.Member) []llm.Member {
	var o wire.Object
	if len(object) == 0 || json.Unmarshal(object, &o, wire.Lenient) != nil {
		return to
	}
	for _, m := range o {
		to = s.add(prefix+m.Name, prefix+m.Name, m.Value, to)
	}
	return to
}

// ext returns an Ext with these members, or an empty Ext if there are none.
func ext(members []llm.Member) llm.Ext {
	if len(members) == 0 {
		return llm.Ext{}
	}
	return llm.Ext{Protocol: own, Members: members}
}

// responseExt returns the members of a complete response that the neutral model
// has no field for.
func responseExt(r *Response) llm.Ext {
	e := ext(codec.Members(r.Extra.All()))
	if len(r.Usage) > 0 {
		addMember(&e, originalMark("usage"), rawOf(r.Usage))
	}
	keepMember(&e, originalMark("system_fingerprint"), r.SystemFingerprint)
	keepMember(&e, originalMark("moderation"), r.Moderation)
	keepMember(&e, originalMark("metadata"), r.Metadata)
	if r.ServiceTier.IsNull() {
		keepMember(&e, originalMark("service_tier"), r.ServiceTier)
	}
	if n := r.Created.Value(); r.Created.IsSet() && !isPlain(n) {
		keepMember(&e, originalMark("created"), r.Created)
	}
	return e
}

// isPlain reports whether a number is written as this codec would write it.
func isPlain(n wire.Number) bool {
	i, err := n.Int64()
	return err == nil && wire.Int(i) == n
}

// choiceExt returns the members of a complete choice that the neutral model has
// no field for.
func choiceExt(c *Choice) llm.Ext {
	e := ext(codec.Members(c.Extra.All()))
	if l, ok := c.Logprobs.Get(); ok {
		keepMember(&e, logprobsMark+"content", l.Content)
		keepMember(&e, logprobsMark+"refusal", l.Refusal)
		for _, m := range l.Extra.All() {
			addMember(&e, logprobsMark+m.Name, llm.Raw(m.Value))
		}
	}
	m := c.Message.Value()
	for _, x := range m.Extra.All() {
		addMember(&e, messageMark+x.Name, llm.Raw(x.Value))
	}
	if m.Role.Or(RoleAssistant) != RoleAssistant {
		keepMember(&e, messageMark+"role", m.Role)
	}
	keepMember(&e, messageMark+"name", m.Name)
	keepMember(&e, messageMark+"tool_call_id", m.ToolCallID)
	keepMember(&e, messageMark+"reasoning_details", m.ReasoningDetails)
	for name, t := range m.reasoning() {
		if t.Value().IsEmpty() { // non-empty reasoning is kept by its thought block
			keepMember(&e, messageMark+name, *t)
		}
	}
	if m.Annotations.Value().Len() == 0 || !hasText(m.Content) {
		keepMember(&e, messageMark+"annotations", m.Annotations)
	}
	if a, ok := m.Audio.Get(); ok {
		addMember(&e, messageMark+"audio", "["+rawOf(a)+"]")
	}
	return e
}

// keepFinish keeps a finish reason that finishOf would not derive from the
// neutral stop.
func keepFinish(e *llm.Ext, reason FinishReason, stop llm.Stop, refused, called, legacy bool) {
	if reason != "" && reason != finishOf(stop, refused, called, legacy) {
		addMember(e, originalMark("finish_reason"), llm.Raw(wire.Quote(string(reason))))
	}
}

// hasText reports whether a content has text that citations can refer to.
func hasText(c wire.Opt[Content]) bool {
	for _, p := range c.Value().Parts.Value().All() {
		if p.Type.Value() == PartText {
			return true
		}
	}
	return !c.Value().Text.Value().IsEmpty()
}

// keepMember adds a member to e unless it is absent. Null is kept.
func keepMember[T any](e *llm.Ext, name string, v wire.Opt[T]) {
	if !v.IsAbsent() {
		addMember(e, name, rawOf(v))
	}
}

func addMember(e *llm.Ext, name string, value llm.Raw) {
	e.Protocol, e.Members = own, append(e.Members, llm.Member{Name: name, Value: value})
}

// keptResponse decodes the members that responseExt or the stream decoder kept.
func keptResponse(e llm.Ext) Response {
	var r Response
	if e.Protocol == own && wire.UnmarshalLenient([]byte(rawOf(ownMembers(e.Members))), &r) == nil {
		r.Extra = wire.NewExtra(r.Extra.All())
	}
	return r
}

// keptChoice decodes the members that choiceExt or the stream decoder kept.
func keptChoice(e llm.Ext) Choice {
	var c Choice
	if e.Protocol != own {
		return c
	}
	var outer, logprobs, message wire.Object
	for _, m := range e.Members {
		value := wire.Raw(m.Value)
		if name, ok := strings.CutPrefix(m.Name, messageMark); ok {
			if name == "audio" {
				value = wire.Raw(rawOf(joinAudio(value)))
			}
			message = append(message, wire.Member{Name: name, Value: value})
		} else if name, ok := strings.CutPrefix(m.Name, logprobsMark); ok {
			logprobs = append(logprobs, wire.Member{Name: name, Value: value})
		} else if name, ok := wireName(m.Name); ok {
			outer = append(outer, wire.Member{Name: name, Value: value})
		}
	}
	if len(logprobs) > 0 {
		outer = append(outer, wire.Member{Name: "logprobs", Value: wire.Raw(rawOf(logprobs))})
	}
	if len(message) > 0 {
		outer = append(outer, wire.Member{Name: "message", Value: wire.Raw(rawOf(message))})
	}
	if wire.UnmarshalLenient([]byte(rawOf(outer)), &c) != nil {
		return Choice{}
	}
	c.Extra = wire.NewExtra(c.Extra.All())
	if l := c.Logprobs.Ptr(); l != nil {
		l.Extra = wire.NewExtra(l.Extra.All())
	}
	if m := c.Message.Ptr(); m != nil {
		m.Extra = wire.NewExtra(m.Extra.All())
	}
	return c
}

// reasoningNames returns the members for the text of a thought, or the types of content parts
// for it.
func reasoningNames(e llm.Ext) (names []string, parts wire.List[Part]) {
	if e.Protocol == own {
		if raw := e.Get(partMark); raw != "" && wire.Unmarshal([]byte(raw), &parts) == nil {
			return nil, parts
		}
		_ = json.Unmarshal([]byte(e.Get(reasoningMark)), &names, wire.Lenient) // absent unless a stream set it
		for name := range (&Message{}).reasoning() {
			if text := e.Get(originalMark(name)); text != "" && text != `""` {
				names = append(names, name)
			}
		}
	}
	if len(names) == 0 {
		names = []string{"reasoning_content"}
	}
	return names, parts
}
