package openaichat

import (
	"fmt"
	"maps"
	"slices"

	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// Code names a rule of the protocol that a stream has broken. Codes do not
// change.
type Code string

// The rules.
const (
	CodeInvalidChunk      Code = "invalid_chunk"          // not the JSON of a chunk
	CodeErrorChunk        Code = "error_chunk"            // an error object in place of a chunk
	CodeMissingField      Code = "missing_field"          // id, object, created, model or choices
	CodeWrongObject       Code = "wrong_object"           // object is not chat.completion.chunk
	CodeUnstableID        Code = "unstable_id"            // id differs from the first chunk's
	CodeUnstableCreated   Code = "unstable_created"       // created differs from the first chunk's
	CodeUnstableModel     Code = "unstable_model"         // model differs from the first chunk's
	CodeRoleMissing       Code = "role_missing"           // a choice's first delta has no role
	CodeRoleRepeated      Code = "role_repeated"          // a later delta has one
	CodeToolIndexMissing  Code = "tool_index_missing"     // a tool call delta without index
	CodeToolIndexGap      Code = "tool_index_gap"         // tool indices do not count 0, 1, 2
	CodeToolIDMissing     Code = "tool_id_missing"        // a call that never got an id
	CodeToolIDChanged     Code = "tool_id_changed"        // a call that got two
	CodeToolNameMissing   Code = "tool_name_missing"      // a call that never got a name
	CodeToolArguments     Code = "tool_arguments_invalid" // a finished call whose arguments are not JSON
	CodeToolCallsMissing  Code = "tool_calls_missing"     // finish reason tool_calls without a call
	CodeUnknownFinish     Code = "unknown_finish_reason"  // a finish reason that the specification does not have
	CodeFinishMissing     Code = "finish_missing"         // a choice that never finished
	CodeFinishRepeated    Code = "finish_repeated"        // a choice that finished twice
	CodeDeltaAfterFinish  Code = "delta_after_finish"     // more for a choice that had finished
	CodeUsageUnasked      Code = "usage_unasked"          // usage without include_usage
	CodeUsageMissing      Code = "usage_missing"          // include_usage without usage
	CodeUsageEarly        Code = "usage_early"            // usage before the last chunk
	CodeUsageWithChoices  Code = "usage_with_choices"     // usage in a chunk that has choices
	CodeChoiceIndexAbsent Code = "choice_index_missing"   // a choice without a usable index
	CodeChoiceMissing     Code = "choice_missing"         // no chunk for one of the choices 0 to n-1
	CodeChoiceUnasked     Code = "choice_unasked"         // a choice beyond those asked for
	CodeDoneMissing       Code = "done_missing"           // the stream does not end with [DONE]
)

// Violation is one broken rule.
type Violation struct {
	Code    Code
	Chunk   int // number of the chunk, from 0; -1 for the stream as a whole
	Message string
}

// String returns code, place and message.
func (v Violation) String() string {
	if v.Chunk < 0 {
		return fmt.Sprintf("%s: %s", v.Code, v.Message)
	}
	return fmt.Sprintf("%s: chunk %d: %s", v.Code, v.Chunk, v.Message)
}

// Validator reports where a stream departs from the specification. It changes
// nothing and stops at nothing. The zero value is ready for use.
type Validator struct {
	// IncludeUsage is what the request's stream_options said.
	IncludeUsage bool

	// N is how many choices the request asked for; 0 means one.
	N int

	found   []Violation
	seen    int // chunks
	id      string
	created wire.Number
	model   string
	usageAt int // number of the last chunk with usage, plus one
	choices map[int64]*watched
}

// watched is what the rules need to know of a choice.
type watched struct {
	deltas   int
	finished bool
	reason   FinishReason
	called   bool
	calls    []*watchedCall
}

type watchedCall struct {
	id, name string
	custom   bool
	text     joined
}

// Add looks at the data of one event, [DONE] excepted.
func (v *Validator) Add(data []byte) {
	defer func() { v.seen++ }()
	var c Chunk
	if err := chunkShape.Unmarshal(data, &c); err != nil {
		v.report(CodeInvalidChunk, "%v", err)
		if chunkShape.UnmarshalLenient(data, &c) != nil {
			return
		}
	}
	if err := c.failure(); err != nil {
		v.report(CodeErrorChunk, "%v", err)
		return
	}
	v.checkIdentity(&c)
	v.checkUsage(&c)
	for i := range c.Choices.Value() {
		v.checkChoice(&c.Choices.Value()[i])
	}
}

// End looks at the stream as a whole and returns all that was found. done says
// whether [DONE] came.
func (v *Validator) End(done bool) []Violation {
	last := v.seen
	v.seen = -1
	for i := range int64(max(v.N, 1)) {
		if v.choices[i] == nil {
			v.report(CodeChoiceMissing, "no chunk for choice %d of %d", i, max(v.N, 1))
		}
	}
	for _, index := range slices.Sorted(maps.Keys(v.choices)) {
		if index < 0 || index >= int64(max(v.N, 1)) {
			v.report(CodeChoiceUnasked, "choice %d was not asked for", index)
		}
		v.endChoice(index, v.choices[index])
	}
	if v.IncludeUsage && v.usageAt == 0 {
		v.report(CodeUsageMissing, "include_usage was set but no chunk has usage")
	}
	if v.usageAt > 0 && v.usageAt != last {
		v.report(CodeUsageEarly, "usage is in chunk %d, the last chunk is %d", v.usageAt-1, last-1)
	}
	if !done {
		v.report(CodeDoneMissing, "the stream does not end with [DONE]")
	}
	v.seen = last
	return v.found
}

func (v *Validator) report(code Code, format string, args ...any) {
	v.found = append(v.found, Violation{Code: code, Chunk: v.seen, Message: fmt.Sprintf(format, args...)})
}

func (v *Validator) checkIdentity(c *Chunk) {
	stable(v, "id", CodeUnstableID, c.ID, &v.id)
	created := c.Created
	if created.Value() == "0" { // what servers write who do not know it yet
		created = wire.Opt[wire.Number]{}
	}
	stable(v, "created", CodeUnstableCreated, created, &v.created)
	stable(v, "model", CodeUnstableModel, c.Model, &v.model)
	if !c.Choices.IsSet() {
		v.report(CodeMissingField, "choices is missing; an empty list is written []")
	}
	switch object, ok := c.Object.Get(); {
	case !ok:
		v.report(CodeMissingField, "object is missing")
	case object != ObjectChunk:
		v.report(CodeWrongObject, "object is %q, not %q", object, ObjectChunk)
	}
}

// stable checks a member that must be in all chunks and the same in all.
func stable[T ~string](v *Validator, name string, code Code, member wire.Opt[T], first *T) {
	value := member.Value()
	switch {
	case value == "":
		v.report(CodeMissingField, "%s is missing or empty", name)
	case *first == "":
		*first = value
	case value != *first:
		v.report(code, "%s is %q, in the first chunk %q", name, value, *first)
	}
}

func (v *Validator) checkUsage(c *Chunk) {
	if !c.Usage.IsSet() {
		return
	}
	if v.usageAt > 0 {
		v.report(CodeUsageEarly, "usage came before, in chunk %d", v.usageAt-1)
	}
	v.usageAt = v.seen + 1
	if !v.IncludeUsage {
		v.report(CodeUsageUnasked, "usage came although include_usage was not set")
	}
	if len(c.Choices.Value()) > 0 {
		v.report(CodeUsageWithChoices, "usage belongs into a chunk with choices []")
	}
}

func (v *Validator) checkChoice(c *ChunkChoice) {
	index, err := c.Index.Value().Int64()
	if err != nil {
		v.report(CodeChoiceIndexAbsent, "a choice has no index")
		return
	}
	w := v.choices[index]
	if w == nil {
		if v.choices == nil {
			v.choices = make(map[int64]*watched)
		}
		w = &watched{}
		v.choices[index] = w
	}
	reason := c.FinishReason.Value()
	if w.finished && reason == "" {
		v.report(CodeDeltaAfterFinish, "choice %d had finished", index)
	}
	v.checkDelta(index, w, c.Delta.Value())
	if reason != "" {
		v.checkFinish(index, w, reason)
	}
}

func (v *Validator) checkFinish(index int64, w *watched, reason FinishReason) {
	if w.finished {
		v.report(CodeFinishRepeated, "choice %d had finished with %q, now %q", index, w.reason, reason)
	}
	switch reason {
	case FinishStop, FinishLength, FinishToolCalls, FinishContentFilter, FinishFunctionCall:
	default:
		v.report(CodeUnknownFinish, "choice %d finished with %q", index, reason)
	}
	w.finished, w.reason = true, reason
}

func (v *Validator) checkDelta(index int64, w *watched, d Delta) {
	switch role := d.Role.Value(); {
	case w.deltas == 0 && role != RoleAssistant:
		v.report(CodeRoleMissing, "the first delta of choice %d does not have role %q", index, RoleAssistant)
	case w.deltas > 0 && role != "":
		v.report(CodeRoleRepeated, "choice %d has its role already", index)
	}
	w.deltas++
	for i := range d.ToolCalls.Value() {
		v.checkToolCall(index, w, fragmentOf(&d.ToolCalls.Value()[i]), d.ToolCalls.Value()[i].Custom.IsSet())
	}
}

func (v *Validator) checkToolCall(index int64, w *watched, f fragment, custom bool) {
	w.called = true
	switch {
	case !f.hasIndex:
		v.report(CodeToolIndexMissing, "choice %d: a tool call has no index", index)
		return
	case f.index < 0 || f.index > int64(len(w.calls)):
		v.report(CodeToolIndexGap, "choice %d: tool call %d came when %d was next", index, f.index, len(w.calls))
		return
	case f.index == int64(len(w.calls)):
		w.calls = append(w.calls, &watchedCall{})
	}
	c := w.calls[f.index]
	if f.id != "" && c.id != "" && f.id != c.id {
		v.report(CodeToolIDChanged, "choice %d: tool call %d is %q, now %q", index, f.index, c.id, f.id)
	}
	if c.id == "" {
		c.id = f.id
	}
	if f.name != c.name {
		c.name += f.name
	}
	c.custom = c.custom || custom
	c.text.add(wire.Some(f.text))
}

func (v *Validator) endChoice(index int64, w *watched) {
	if !w.finished {
		v.report(CodeFinishMissing, "choice %d has no finish reason", index)
	}
	if w.reason == FinishToolCalls && !w.called {
		v.report(CodeToolCallsMissing, "choice %d finished with %q but made no call", index, w.reason)
	}
	for i, c := range w.calls {
		if c.id == "" {
			v.report(CodeToolIDMissing, "choice %d: tool call %d has no id", index, i)
		}
		if c.name == "" {
			v.report(CodeToolNameMissing, "choice %d: tool call %d has no name", index, i)
		}
		// A call that the token limit has cut may be incomplete.
		args := c.text.text().String()
		if !c.custom && w.reason != FinishLength && w.reason != FinishContentFilter && !wire.Raw(args).IsValid() {
			v.report(CodeToolArguments, "choice %d: the arguments of tool call %d are not JSON", index, i)
		}
	}
}
