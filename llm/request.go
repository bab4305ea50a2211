package llm

// Request is one request to a model. Pointers and empty strings are unset: unset
// is not zero.
type Request struct {
	Model        string
	Turns        []Turn // in order; system text may stand anywhere
	Tools        []Tool
	ToolChoice   ToolChoice
	Parallel     *bool // whether several tools may be called at once
	Output       Output
	Sampling     Sampling
	Reasoning    Reasoning
	Cache        Cache
	State        State
	Identity     Identity
	Service      Service
	Stream       bool
	IncludeUsage bool // usage is wanted on a stream, where that has to be asked for
	Ext          Ext
}

// Role is who speaks in a turn.
type Role string

// The roles.
const (
	System    Role = "system"
	Developer Role = "developer"
	User      Role = "user"
	Assistant Role = "assistant"
	ToolRole  Role = "tool" // results of calls, and nothing else
)

// Turn is what one speaker says at once.
type Turn struct {
	Role   Role
	Name   string // of the participant
	Blocks []Block
	Joined bool // it was one message with the turn before it
	List   bool // its content was a list although plain text would have done
	Ext    Ext
}

// Output is what the answer may look like.
type Output struct {
	MaxTokens   *int64 // reasoning included
	Choices     *int64
	Stops       []string
	Format      Format
	Verbosity   string
	Modalities  []string
	Logprobs    *bool
	TopLogprobs *int64
}

// Format is the form of a structured answer.
type Format struct {
	Kind        string // "", text, json_object, json_schema, enum
	Name        string
	Description string
	Schema      Raw
	Strict      *bool
	Ext         Ext
}

// Sampling is how tokens are drawn.
type Sampling struct {
	Temperature      Number
	TopP             Number
	TopK             Number
	FrequencyPenalty Number
	PresencePenalty  Number
	Seed             Number
	LogitBias        Raw
}

// Reasoning is how much a model thinks, and what of it is shown.
type Reasoning struct {
	Mode   string // "", off, on, auto, between_tools
	Effort string // "", none, minimal, low, medium, high, xhigh, max
	Budget *int64 // tokens; -1 lets the model decide
	Show   string // "", none, auto, concise, detailed, full
	Ext    Ext
}

// Cache is how the prompt is cached.
type Cache struct {
	Key       string
	Retention string
	Auto      *CacheMark // the whole prompt is marked
}

// CacheMark asks a provider to cache the prompt up to a block.
type CacheMark struct {
	TTL string // as the source spells it: 5m, 1h, 30m, 12h
	Ext Ext
}

// State is what the vendor keeps between requests.
type State struct {
	Store        *bool
	PreviousID   string
	Conversation Raw
	Background   *bool
	Truncation   string
}

// Identity is on whose behalf a request is made.
type Identity struct {
	User     string
	SafetyID string
	Metadata []Member
}

// Service is how a request is served.
type Service struct {
	Tier  string // auto, default, flex, priority, scale, …
	Speed string
}

// ToolKind is what a tool is.
type ToolKind string

// The kinds of tool.
const (
	FunctionTool ToolKind = "function" // called with JSON
	CustomTool   ToolKind = "custom"   // called with free text
	HostedTool   ToolKind = "hosted"   // run by the vendor
	SearchTool   ToolKind = "search"   // called with JSON, finds further tools of the client's
)

// Tool is what a model may call.
type Tool struct {
	Kind        ToolKind
	Name        string
	Namespace   string // the group that it was declared in
	Description string
	Schema      Raw // of a function's arguments
	Strict      *bool
	Grammar     Raw    // of a custom tool's text, as the source has it
	Hosted      string // what a hosted tool does: web_search, web_fetch, code, file_search, image, computer, mcp, …
	Raw         Raw    // a hosted or a search tool as the source has it
	Cache       *CacheMark
	Ext         Ext
}

// ToolChoice says which tools must, may or must not be called.
type ToolChoice struct {
	Mode    string // "", auto, none, required, named, allowed, validated, hosted
	Names   []ToolRef
	Allowed string // with allowed: auto or required
	Raw     Raw    // a choice of a hosted tool, as the source has it
}

// ToolRef names a tool.
type ToolRef struct {
	Kind      ToolKind
	Name      string
	Namespace string
}
