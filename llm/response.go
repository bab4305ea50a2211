package llm

// Response is a complete response.
type Response struct {
	ID      string
	Model   string
	Created int64 // Unix time in seconds; 0 if the source has none
	Choices []Choice
	Usage   *Usage
	Tier    string
	// UsageTier is the tier of a UsageUpdate. Encoders do not write it.
	UsageTier string
	Ext       Ext
}

// Choice is one of the alternatives of a response.
type Choice struct {
	Index  int
	Blocks []Block
	Stop   Stop
	Ext    Ext
}

// StopKind is the reason why a model stopped.
type StopKind string

// The stop reasons. Other stands for any reason that is not listed.
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

// Stop describes why a choice ended.
type Stop struct {
	Kind        StopKind
	Matched     string // the stop sequence that the model produced
	Category    string // of a refusal
	Explanation string
	Raw         string // the source's stop reason
}
