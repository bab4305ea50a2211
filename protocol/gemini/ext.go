package gemini

import (
	"slices"
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// These prefixes are the paths of members that the neutral model has no field
// for. A report can then name what was lost, such as
// generationConfig.speechConfig.
const (
	atGeneration = "generationConfig."
	atToolConfig = "toolConfig."
	atCalling    = "toolConfig.functionCallingConfig."
	atCall       = "functionCall."
	atResponse   = "functionResponse."
	atBlob       = "inlineData."
	atFile       = "fileData."
	atUsage      = "usageMetadata."
	atFeedback   = "promptFeedback."
)

// levels lists the prefixes above, longer ones first.
var levels = []string{atCalling, atToolConfig, atGeneration, atCall, atResponse, atBlob, atFile, atUsage, atFeedback}

// keep adds unknown members.
func keep(e *llm.Ext, level string, members wire.Object) {
	e.Protocol = own
	for _, m := range members {
		if slices.Contains(read, level+m.Name) {
			note(e, level+m.Name, m.Value)
		} else {
			keepRaw(e, level+m.Name, m.Value)
		}
	}
}

// read lists members that the neutral model has a field for, and whose original
// JSON is kept for clients of this protocol.
var read = []string{"createTime", "finishMessage", "citationMetadata", "logprobsResult", atBlob + "displayName", atFile + "displayName"}

// note keeps a member that other protocols do not report as lost.
func note(e *llm.Ext, name string, value wire.Raw) { keepRaw(e, codec.MarkPrefix+name, value) }

// keepRaw adds a member unless it is absent or null.
func keepRaw(e *llm.Ext, name string, value wire.Raw) {
	if len(value) > 0 && value.Kind() != 'n' {
		e.Members = append(e.Members, llm.Member{Name: name, Value: llm.Raw(value)})
	}
}

// kept returns the members of a level, or nil if they are another protocol's.
func kept(e llm.Ext, level string) wire.Object {
	if e.Protocol != own {
		return nil
	}
	var o wire.Object
	for _, m := range e.Members {
		if name := strings.TrimPrefix(m.Name, codec.MarkPrefix); levelOf(name) == level {
			o = append(o, wire.Member{Name: name[len(level):], Value: wire.Raw(m.Value)})
		}
	}
	return o
}

func levelOf(name string) string {
	for _, l := range levels {
		if strings.HasPrefix(name, l) {
			return l
		}
	}
	return ""
}

// extra returns the kept members in the form that a wire struct takes.
func extra(e llm.Ext, level string) wire.Extra { return wire.NewExtra(kept(e, level)) }
