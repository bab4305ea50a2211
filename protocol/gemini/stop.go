package gemini

import "github.com/isogloss-gateway/isogloss/llm"

// finishKinds leads from a finish reason to what it means. One that is not here is
// Other: an end that nobody knows is no clean end (GEM-14).
var finishKinds = map[string]llm.StopKind{
	"STOP":                     llm.EndTurn,
	"MAX_TOKENS":               llm.MaxTokens,
	"SAFETY":                   llm.ContentFilter,
	"RECITATION":               llm.ContentFilter,
	"LANGUAGE":                 llm.ContentFilter,
	"BLOCKLIST":                llm.ContentFilter,
	"PROHIBITED_CONTENT":       llm.ContentFilter,
	"SPII":                     llm.ContentFilter,
	"IMAGE_SAFETY":             llm.ContentFilter,
	"IMAGE_PROHIBITED_CONTENT": llm.ContentFilter,
	"IMAGE_RECITATION":         llm.ContentFilter,
	"MALFORMED_FUNCTION_CALL":  llm.Malformed,
	"UNEXPECTED_TOOL_CALL":     llm.Malformed,
	"TOO_MANY_TOOL_CALLS":      llm.Malformed,
	"MALFORMED_RESPONSE":       llm.Malformed,
	"CONTINUATION":             llm.Pause,
	"OTHER":                    llm.Other,
	"IMAGE_OTHER":              llm.Other,
	"NO_IMAGE":                 llm.Other,
}

// kindFinishes leads back. A pause without a token to go on with has no word here.
var kindFinishes = map[llm.StopKind]string{
	llm.EndTurn:       "STOP",
	llm.StopSequence:  "STOP",
	llm.ToolUse:       "STOP",
	llm.MaxTokens:     "MAX_TOKENS",
	llm.ContextWindow: "MAX_TOKENS",
	llm.Refused:       "SAFETY",
	llm.ContentFilter: "SAFETY",
	llm.PromptBlocked: "SAFETY",
	llm.Malformed:     "MALFORMED_FUNCTION_CALL",
}

// blockReasons are the words for a prompt that is refused.
var blockReasons = map[string]bool{
	"SAFETY": true, "OTHER": true, "BLOCKLIST": true, "PROHIBITED_CONTENT": true, "IMAGE_SAFETY": true,
	"MODEL_ARMOR": true, "JAILBREAK": true,
}

// stop says why a choice ended.
func (c *choice) stop() llm.Stop {
	s := llm.Stop{Kind: llm.Other, Raw: c.finish, Explanation: c.message}
	if c.blocked {
		s.Kind, s.Category = llm.PromptBlocked, c.finish
		return s
	}
	if k, ok := finishKinds[c.finish]; ok {
		s.Kind = k
	}
	if s.Kind == llm.EndTurn && c.calls > 0 {
		s.Kind = llm.ToolUse // calls end with STOP too, perhaps in a later event (GEM-15)
	}
	return s
}

// finishReason is the word for a stop.
func finishReason(s llm.Stop) string {
	if k, ok := finishKinds[s.Raw]; ok && (k == s.Kind || k == llm.EndTurn && s.Kind == llm.ToolUse) {
		return s.Raw // it was this protocol's own
	}
	if f, ok := kindFinishes[s.Kind]; ok {
		return f
	}
	return "OTHER"
}

func blockReason(s llm.Stop) string {
	if blockReasons[s.Raw] {
		return s.Raw
	}
	return "OTHER"
}
