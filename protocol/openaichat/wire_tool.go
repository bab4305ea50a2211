package openaichat

import "github.com/isogloss-gateway/isogloss/protocol/wire"

// ToolType is the kind of a tool, of a call or of a choice. It is an open set.
type ToolType string

// The tool types. ToolTypeAllowed occurs in a choice only.
const (
	ToolTypeFunction ToolType = "function"
	ToolTypeCustom   ToolType = "custom"
	ToolTypeAllowed  ToolType = "allowed_tools"
)

// Tool is a tool that the model may call.
type Tool struct {
	Type     wire.Opt[ToolType]   `json:"type"`
	Function wire.Opt[Function]   `json:"function"`
	Custom   wire.Opt[CustomTool] `json:"custom"`
	Extra    wire.Extra           `json:"-"`
}

// Function is a tool whose arguments are a JSON object.
type Function struct {
	Name        wire.Opt[string]    `json:"name"`
	Description wire.Opt[wire.Text] `json:"description"`
	Parameters  wire.Raw            `json:"parameters"` // a JSON schema
	Strict      wire.Opt[bool]      `json:"strict"`
	Extra       wire.Extra          `json:"-"`
}

// CustomTool is a tool whose input is free text.
type CustomTool struct {
	Name        wire.Opt[string]       `json:"name"`
	Description wire.Opt[wire.Text]    `json:"description"`
	Format      wire.Opt[CustomFormat] `json:"format"`
	Extra       wire.Extra             `json:"-"`
}

// CustomFormat is the form of a custom tool's input.
type CustomFormat struct {
	Type    wire.Opt[string]  `json:"type"` // text, grammar
	Grammar wire.Opt[Grammar] `json:"grammar"`
	Extra   wire.Extra        `json:"-"`
}

// Grammar is a grammar that a custom tool's input follows.
type Grammar struct {
	Definition wire.Opt[wire.Text] `json:"definition"`
	Syntax     wire.Opt[string]    `json:"syntax"` // lark, regex
	Extra      wire.Extra          `json:"-"`
}

// ToolChoice says whether and which tools are called: a mode, or an object that
// names a tool or a set of tools.
type ToolChoice struct {
	Mode   wire.Opt[ToolMode]    `wire:"string"`
	Object wire.Opt[NamedChoice] `wire:"object"`
}

// ToolMode is a tool choice without a name. It is an open set.
type ToolMode string

// The tool modes.
const (
	ToolModeNone     ToolMode = "none"
	ToolModeAuto     ToolMode = "auto"
	ToolModeRequired ToolMode = "required"
)

// NamedChoice is a tool choice that names tools: one function, one custom tool,
// or those that are allowed.
type NamedChoice struct {
	Type         wire.Opt[ToolType]     `json:"type"`
	Function     wire.Opt[Named]        `json:"function"`
	Custom       wire.Opt[Named]        `json:"custom"`
	AllowedTools wire.Opt[AllowedTools] `json:"allowed_tools"`
	Extra        wire.Extra             `json:"-"`
}

// Named is something called by its name.
type Named struct {
	Name  wire.Opt[string] `json:"name"`
	Extra wire.Extra       `json:"-"`
}

// AllowedTools is a choice among some of the request's tools.
type AllowedTools struct {
	Mode  wire.Opt[ToolMode]      `json:"mode"` // auto, required
	Tools wire.Opt[[]NamedChoice] `json:"tools"`
	Extra wire.Extra              `json:"-"`
}

// FunctionCallChoice is the deprecated form of a tool choice: "none", "auto", or
// an object with a function's name.
type FunctionCallChoice struct {
	Mode     wire.Opt[ToolMode] `wire:"string"`
	Function wire.Opt[Named]    `wire:"object"`
}

// ToolCall is a call that the model has made.
type ToolCall struct {
	ID       wire.Opt[string]       `json:"id"`
	Type     wire.Opt[ToolType]     `json:"type"`
	Function wire.Opt[FunctionCall] `json:"function"`
	Custom   wire.Opt[CustomCall]   `json:"custom"`
	Extra    wire.Extra             `json:"-"`
}

// FunctionCall is the name of a function and what it is called with. In a
// stream both may be fragments.
type FunctionCall struct {
	Name      wire.Opt[string]    `json:"name"`
	Arguments wire.Opt[Arguments] `json:"arguments"`
	Extra     wire.Extra          `json:"-"`
}

// CustomCall is the name of a custom tool and its input.
type CustomCall struct {
	Name  wire.Opt[string]    `json:"name"`
	Input wire.Opt[wire.Text] `json:"input"`
	Extra wire.Extra          `json:"-"`
}

// Arguments are a call's arguments: a string that should hold a JSON object, or
// with some servers the object itself.
type Arguments struct {
	Text  wire.Opt[wire.Text] `wire:"string"`
	Value wire.Raw            `wire:"any"`
}

// NewArguments returns the arguments with that JSON text.
func NewArguments(json string) Arguments { return Arguments{Text: wire.Some(wire.NewText(json))} }

// String returns the arguments' JSON text.
func (a Arguments) String() string { return a.asText().String() }

// asText returns arguments of either form as a string's literal, number text and
// order of members kept.
func (a Arguments) asText() wire.Text {
	if t, ok := a.Text.Get(); ok {
		return t
	}
	return wire.NewText(string(wire.Compact(a.Value)))
}
