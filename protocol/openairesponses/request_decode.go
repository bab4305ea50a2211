package openairesponses

import (
	"errors"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// DecodeRequest decodes a responses request. References to OpenAI's store are
// kept; see [codec.StoredResponses].
func (Codec) DecodeRequest(in protocol.Incoming) (*llm.Request, *llm.Error) {
	var w Request
	if err := wire.Unmarshal(in.Body, &w); err != nil {
		return nil, invalid("", err)
	}
	if _, stored := w.Extra.Get("prompt"); !stored && !w.Input.IsSet() && !w.PreviousResponseID.IsSet() && value(w.Conversation) == "" {
		return nil, &llm.Error{Kind: llm.InvalidRequest, Code: "missing_required_parameter", Param: "input",
			Message: "input is missing; send a text or a list of items"}
	}
	items := inputReader{}
	if err := items.read(&w); err != nil {
		return nil, err
	}
	tools, err := decodeTools(w.Tools.Value())
	if err != nil {
		return nil, err
	}
	choice := llm.ToolChoice{}
	if c, ok := w.ToolChoice.Get(); ok {
		if choice, err = decodeToolChoice(c); err != nil {
			return nil, err
		}
	}
	req := &llm.Request{
		Model: w.Model.Value(), Turns: items.turns, Tools: append(tools, items.tools...), ToolChoice: choice,
		Parallel: w.ParallelToolCalls.Clone(), Stream: w.Stream.Value(), IncludeUsage: true,
		Sampling: llm.Sampling{Temperature: number(w.Temperature), TopP: number(w.TopP),
			PresencePenalty: number(w.PresencePenalty), FrequencyPenalty: number(w.FrequencyPenalty)},
		Cache: llm.Cache{Key: w.PromptCacheKey.Value(), Retention: w.PromptCacheRetention.Value()},
		State: llm.State{Store: w.Store.Clone(), PreviousID: w.PreviousResponseID.Value(), Conversation: value(w.Conversation),
			Background: w.Background.Clone(), Truncation: w.Truncation.Value()},
		Identity: llm.Identity{User: w.User.Value(), SafetyID: w.SafetyIdentifier.Value(), Metadata: codec.Members(w.Metadata.Value())},
		Service:  llm.Service{Tier: w.ServiceTier.Value()},
		Ext:      extOf(w.Extra),
	}
	if r, ok := w.Reasoning.Get(); ok {
		req.Reasoning = llm.Reasoning{Effort: r.Effort.Value(), Show: r.Summary.Value(), Ext: extOf(r.Extra)}
	}
	if err := decodeOutput(&w, req); err != nil {
		return nil, err
	}
	settleSearch(req)
	return req, nil
}

// number returns a number's text, also if it came as a string.
func number(o wire.Opt[wire.Number]) llm.Number {
	return llm.Number(strings.Trim(string(o.Value()), `"`))
}

// decodeInclude decodes include. Log probabilities are a setting, and sealed
// reasoning is always included; only other values are lost in translation.
func decodeInclude(req *llm.Request) {
	at := slices.IndexFunc(req.Ext.Members, func(m llm.Member) bool { return m.Name == "include" })
	if at < 0 {
		return
	}
	var asked []string
	if json.Unmarshal([]byte(req.Ext.Members[at].Value), &asked) != nil {
		return
	}
	rest := slices.DeleteFunc(slices.Clone(asked), func(what string) bool {
		return what == "message.output_text.logprobs" || what == "reasoning.encrypted_content"
	})
	if len(rest) == 0 {
		req.Ext.Members[at].Name = spelled("include")
	}
	if slices.Contains(asked, "message.output_text.logprobs") {
		yes := true
		req.Output.Logprobs = &yes
	}
}

// invalid returns the error for a request that cannot be decoded.
func invalid(at string, err error) *llm.Error {
	e := &llm.Error{Kind: llm.InvalidRequest, Code: "invalid_value", Message: err.Error()}
	if w, ok := errors.AsType[*wire.Error](err); ok {
		e.Message = w.Message
		if rest := strings.Trim(w.Pointer, "/"); rest != "" {
			if at != "" {
				at += "."
			}
			at += strings.ReplaceAll(rest, "/", ".")
		}
	}
	if at == "" {
		e.Code = "invalid_json"
		return e
	}
	e.Param, e.Message = at, at+": "+e.Message
	return e
}

// checkExpanded rejects a request that depends on OpenAI's own state, for upstreams
// that do not have it: previous_response_id, conversation, item_reference, prompt,
// background.
func checkExpanded(req *llm.Request) *llm.Error {
	var param string
	switch {
	case req.State.PreviousID != "":
		return unknownReference("previous_response_id", "previous_response_not_found", req.State.PreviousID)
	case req.State.Conversation != "":
		param = "conversation"
	case req.State.Background != nil && *req.State.Background:
		return &llm.Error{Kind: llm.InvalidRequest, Code: "unsupported_parameter", Param: "background",
			Message: "background jobs run at OpenAI only, and this model is not served by OpenAI's Responses API; send the request without background instead, and with stream if it takes long"}
	case isOwn(req.Ext) && req.Ext.Get("prompt") != "":
		param = "prompt"
	default:
		if id, refers := refersTo(req); refers {
			return unknownReference("item_reference", "item_not_found", id)
		}
		return nil
	}
	return &llm.Error{Kind: llm.InvalidRequest, Code: "unsupported_parameter", Param: param,
		Message: param + " refers to data stored by OpenAI, and this model is not served by OpenAI's Responses API; send the complete conversation as input instead"}
}

// refersTo returns the id of a request's first item_reference.
func refersTo(req *llm.Request) (id string, ok bool) {
	for _, t := range req.Turns {
		for _, b := range t.Blocks {
			if o, ok := b.(*llm.Opaque); ok && o.Protocol == own && o.Type == "item_reference" {
				return itemIDOf([]byte(o.Raw)), true
			}
		}
	}
	return "", false
}
