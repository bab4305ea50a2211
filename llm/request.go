package llm

// Request is a request to a model. A nil pointer or an empty string is an unset
// field, which is different from zero.
type Request struct {
	Model        string
	Turns        []Turn // in order; system turns may be anywhere
	Tools        []Tool
	ToolChoice   ToolChoice
	Parallel     *bool // the model may call several tools at once
	Output       Output
	Sampling     Sampling
	Reasoning    Reasoning
	Cache        Cache
	State        State
	Identity     Identity
	Service      Service
	Stream       bool
	IncludeUsage bool // request usage on the stream, for protocols where it is optional
	Ext          Ext
}

// Role is the author of a turn.
type Role string

// The roles.
const (
	System    Role = "system"
	Developer Role = "developer"
	User      Role = "user"
	Assistant Role = "assistant"
	ToolRole  Role = "tool" // the turn contains only tool results
)

// Turn is one message of a conversation.
type Turn struct {
	Role   Role
	Name   string // of the author, if the source has one
	Blocks []Block
	Joined bool // the source had this turn and the previous one as one message
	List   bool // the source wrote the content as an array where a string was possible
	Ext    Ext
}

// Output limits and formats the response.
type Output struct {
	MaxTokens   *int64 // including reasoning tokens
	Choices     *int64
	Stops       []string
	Format      Format
	Verbosity   string
	Modalities  []string
	Logprobs    *bool
	TopLogprobs *int64
}

// Format is the format of a structured response.
type Format struct {
	Kind        string // "", text, json_object, json_schema, enum
	Name        string
	Description string
	Schema      Raw
	Strict      *bool
	Ext         Ext
}

// Sampling holds the sampling parameters.
type Sampling struct {
	Temperature      Number
	TopP             Number
	TopK             Number
	FrequencyPenalty Number
	PresencePenalty  Number
	Seed             Number
	LogitBias        Raw
}

// Reasoning sets how much the model reasons and how much of it the response contains.
type Reasoning struct {
	Mode   string // "", off, on, auto, between_tools
	Effort string // "", none, minimal, low, medium, high, xhigh, max
	Budget *int64 // tokens; -1 lets the model decide
	Show   string // "", none, auto, concise, detailed, full
	Ext    Ext
}

// Cache controls the vendor's prompt cache.
type Cache struct {
	Key       string
	Retention string
	Auto      *CacheMark // caches the whole prompt
}

// CacheMark requests that the vendor caches the prompt up to and including the block
// that has the mark.
type CacheMark struct {
	TTL string // in the source's notation: 5m, 1h, 30m, 12h
	Ext Ext
}

// State controls what the vendor stores between requests.
type State struct {
	Store        *bool
	PreviousID   string
	Conversation Raw
	Background   *bool
	Truncation   string
	CachedPrompt Raw // the name of a prompt that the vendor has cached and that precedes the turns
}

// Identity names the end user of a request.
type Identity struct {
	User     string
	SafetyID string
	Metadata []Member
}

// Service selects the vendor's service level.
type Service struct {
	Tier  string // auto, default, flex, priority, scale, …
	Speed string
}

// ToolKind is the type of a tool.
type ToolKind string

// The kinds of tools.
const (
	FunctionTool ToolKind = "function" // the client runs it, with JSON as input
	CustomTool   ToolKind = "custom"   // the client runs it, with plain text as input
	HostedTool   ToolKind = "hosted"   // the vendor runs it
	SearchTool   ToolKind = "search"   // the client runs it to find more tools, with JSON as input
)

// Tool describes a tool that the model may call.
type Tool struct {
	Kind        ToolKind
	Name        string
	Namespace   string // the group of tools that declares it
	Description string
	Schema      Raw // of a function's arguments
	Strict      *bool
	Grammar     Raw    // of a custom tool's input; the source's JSON
	Hosted      string // the function of a hosted tool: web_search, web_fetch, code, file_search, image, computer, mcp, …
	Raw         Raw    // a hosted or search tool; the source's JSON
	Cache       *CacheMark
	Ext         Ext
}

// ToolChoice controls which tools the model calls.
type ToolChoice struct {
	Mode    string // "", auto, none, required, named, allowed, validated, hosted
	Names   []ToolRef
	Allowed string // in mode allowed: auto or required
	Raw     Raw    // in mode hosted; the source's JSON
}

// ToolRef identifies a tool of the request.
type ToolRef struct {
	Kind      ToolKind
	Name      string
	Namespace string
}
