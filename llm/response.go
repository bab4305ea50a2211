package llm

// Response is one answer.
type Response struct {
	ID      string
	Model   string
	Created int64 // seconds; 0 if the source has none
	Choices []Choice
	Usage   *Usage
	Tier    string
	Ext     Ext
}

// Choice is one of the answers that were asked for.
type Choice struct {
	Index  int
	Blocks []Block
	Stop   Stop
	Ext    Ext
}

// StopKind is why a model stopped.
type StopKind string

// The reasons. An answer whose reason is not among them has Other.
const (
	EndTurn       StopKind = "end_turn"
	StopSequence  StopKind = "stop_sequence"
	MaxTokens     StopKind = "max_tokens"
	ContextWindow StopKind = "context_window"
	ToolUse       StopKind = "tool_calls"
	Refused       StopKind = "refusal"
	ContentFilter StopKind = "content_filter"
	PromptBlocked StopKind = "prompt_blocked"
	Malformed     StopKind = "malformed_tool_call"
	Pause         StopKind = "pause"
	Other         StopKind = "other"
)

// Stop is how an answer ended.
type Stop struct {
	Kind        StopKind
	Matched     string // the stop sequence that was hit
	Category    string // of a refusal
	Explanation string
	Raw         string // the source's own word
}
