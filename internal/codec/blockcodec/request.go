package blockcodec

import (
	"slices"
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// DropIf reports a setting that the protocol does not have.
func DropIf(report *llm.Report, set bool, at, code string) {
	if set {
		report.Drop(at, code, "the protocol has no counterpart, or the model refuses it")
	}
}

// Leading returns the number of turns that form the system prompt.
func Leading(turns []llm.Turn) int {
	n := slices.IndexFunc(turns, func(t llm.Turn) bool { return !IsSystem(t.Role) })
	if n < 0 {
		return len(turns)
	}
	return n
}

// IsSystem reports whether a role gives instructions.
func IsSystem(r llm.Role) bool { return r == llm.System || r == llm.Developer }

// IsBlank reports whether a text has white space only.
func IsBlank(text string) bool { return strings.TrimSpace(text) == "" }

// IsText reports whether a block is a text with a property.
func IsText(b llm.Block, is func(string) bool) bool {
	t, ok := b.(*llm.Text)
	return ok && is(t.Text)
}

// Text returns the text of a turn.
func Text(t llm.Turn) string {
	var parts []string
	for _, b := range t.Blocks {
		if text, ok := b.(*llm.Text); ok {
			parts = append(parts, text.Text)
		}
	}
	return strings.Join(parts, "\n\n")
}

// Prefilled reports whether the conversation ends with the assistant's text, which the model has to continue.
// A paused turn, which ends with a call, is something else. CRQ-14
func Prefilled(turns []llm.Turn) bool {
	if len(turns) == 0 || turns[len(turns)-1].Role != llm.Assistant {
		return false
	}
	blocks := turns[len(turns)-1].Blocks
	if len(blocks) == 0 {
		return false
	}
	switch b := blocks[len(blocks)-1].(type) {
	case *llm.Text:
		return !IsBlank(b.Text)
	case *llm.Refusal:
		return true
	}
	return false
}

// UnsignedLoop reports whether the last assistant turn has calls with results and no thinking that own has signed. Claude
// rejects that while thinking is on, also if text of the user follows the results.
func UnsignedLoop(turns []llm.Turn, own string) bool {
	answered := false
	for _, t := range slices.Backward(turns) {
		if t.Role != llm.Assistant {
			answered = answered || slices.ContainsFunc(t.Blocks, isResult)
			continue
		}
		return answered && !slices.ContainsFunc(t.Blocks, func(b llm.Block) bool {
			t, ok := b.(*llm.Thought)
			if !ok {
				return false
			}
			_, signed := t.SealFor(own)
			return signed
		})
	}
	return false
}

func isResult(b llm.Block) bool {
	_, ok := b.(*llm.ToolResult)
	return ok
}

// SamplingWithThinking removes the sampling settings that Claude rejects while thinking is on. CRQ-21
func SamplingWithThinking(report *llm.Report, s *llm.Sampling) {
	if s.Temperature != "" && !IsOne(s.Temperature) {
		report.Drop("sampling.temperature", "temperature.with_thinking", "a model that thinks takes no temperature but 1")
		s.Temperature = ""
	}
	if s.TopP != "" && !AtLeast(s.TopP, 0.95) {
		report.Drop("sampling.top_p", "top_p.with_thinking", "a model that thinks takes no top_p below 0.95")
		s.TopP = ""
	}
	if s.TopK != "" {
		report.Drop("sampling.top_k", "top_k.with_thinking", "a model that thinks takes no top_k")
		s.TopK = ""
	}
}

// AtLeast reports whether a number is set and at least limit.
func AtLeast(n llm.Number, limit float64) bool {
	f, err := wire.Number(n).Float64()
	return err == nil && f >= limit
}

// IsOne reports whether a number is 1 in any notation.
func IsOne(n llm.Number) bool {
	f, err := wire.Number(n).Float64()
	return err == nil && f == 1
}

// CacheAndState reports settings about the prompt cache and about conversations that the vendor keeps.
func CacheAndState(report *llm.Report, req *llm.Request) {
	DropIf(report, req.Cache.Key != "", "cache.key", "cache.key_unsupported")
	DropIf(report, req.Cache.Retention != "", "cache.retention", "cache.retention_unsupported")
	s := req.State
	if s.PreviousID != "" {
		report.Refuse("state.previous_id", "state.previous_response", "the vendor keeps no conversation; send all turns")
	}
	if s.Conversation != "" {
		report.Refuse("state.conversation", "state.conversation", "the vendor keeps no conversation; send all turns")
	}
	if s.Background != nil && *s.Background {
		report.Refuse("state.background", "state.background", "background responses are not supported")
	}
	if s.CachedPrompt != "" {
		report.Refuse("state.cached_prompt", "state.cached_prompt", "the prompt is cached by another vendor; send its content")
	}
	DropIf(report, s.Store != nil && *s.Store, "state.store", "store.unsupported")
	DropIf(report, s.Truncation != "" && s.Truncation != "disabled", "state.truncation", "truncation.unsupported")
}

// Foreign reports what turns and blocks hold that the protocol has no field for.
func Foreign(report *llm.Report, turns []llm.Turn, own protocol.Name) {
	for i, t := range turns {
		at := codec.At("turns", i)
		if t.Role == llm.Developer {
			report.Approximate(at+".role", "turn.developer", "the protocol has one role for system text")
		}
		DropIf(report, t.Name != "", at+".name", "turn.name")
		codec.DropExt(report, at, t.Ext, own)
		foreignBlocks(report, at, t.Blocks, own)
	}
}

func foreignBlocks(report *llm.Report, at string, blocks []llm.Block, own protocol.Name) {
	for k, b := range blocks {
		at := codec.At(at+".blocks", k)
		switch b := b.(type) {
		case *llm.Thought, *llm.ServerCall, *llm.Opaque:
			continue // they are sent or dropped as a whole
		case *llm.Text:
			DropIf(report, b.Phase != "", at+".phase", "text.phase")
		case *llm.ToolResult:
			foreignBlocks(report, at, b.Blocks, own)
		}
		codec.DropExt(report, at, b.Common().Ext, own)
	}
}

// JoinBlank returns the blocks with blank text at the end of the text before it, or at the
// beginning of the text after it. The blank blocks stay. alone has those without such a text.
func JoinBlank(blocks []llm.Block) (joined []llm.Block, alone []int) {
	joined = blocks
	var blank strings.Builder // of the blank blocks since last
	last := -1                // the last block that is not blank
	textAt := func(at int) *llm.Text {
		if at < 0 || at >= len(blocks) {
			return nil
		}
		text, _ := joined[at].(*llm.Text)
		return text
	}
	for k := 0; k <= len(blocks); k++ {
		if k < len(blocks) && IsText(blocks[k], IsBlank) {
			blank.WriteString(blocks[k].(*llm.Text).Text)
			continue
		}
		if blank.Len() > 0 {
			before, after := textAt(last), textAt(k)
			switch {
			case before != nil:
				text := *before
				text.Text += blank.String()
				joined = replaced(joined, blocks, last, &text)
			case after != nil && len(after.Citations) == 0:
				text := *after
				text.Text = blank.String() + text.Text
				joined = replaced(joined, blocks, k, &text)
			default:
				alone = append(alone, last+1)
			}
		}
		blank.Reset()
		last = k
	}
	return joined, alone
}

// replaced returns list with b at a position. It clones the list if it is the original.
func replaced(list, original []llm.Block, at int, b llm.Block) []llm.Block {
	if &list[0] == &original[0] {
		list = slices.Clone(list)
	}
	list[at] = b
	return list
}

// Value returns the number that n points to, or 0.
func Value(n *int64) int64 {
	if n == nil {
		return 0
	}
	return *n
}
