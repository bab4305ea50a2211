package openairesponses

import (
	"errors"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// DecodeRequest reads a client's request. What only OpenAI can act on, because it
// names something in OpenAI's store, is kept; see [Codec.Stateful].
func (Codec) DecodeRequest(in protocol.Incoming) (*llm.Request, *llm.Error) {
	var w Request
	if err := requestShape.Unmarshal(in.Body, &w); err != nil {
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
		Parallel: pointer(w.ParallelToolCalls), Stream: w.Stream.Value(), IncludeUsage: true,
		Sampling: llm.Sampling{Temperature: number(w.Temperature), TopP: number(w.TopP),
			PresencePenalty: number(w.PresencePenalty), FrequencyPenalty: number(w.FrequencyPenalty)},
		Cache: llm.Cache{Key: w.PromptCacheKey.Value(), Retention: w.PromptCacheRetention.Value()},
		State: llm.State{Store: pointer(w.Store), PreviousID: w.PreviousResponseID.Value(), Conversation: value(w.Conversation),
			Background: pointer(w.Background), Truncation: w.Truncation.Value()},
		Identity: llm.Identity{User: w.User.Value(), SafetyID: w.SafetyIdentifier.Value()},
		Service:  llm.Service{Tier: w.ServiceTier.Value()},
		Ext:      extOf(w.Extra),
	}
	for _, m := range w.Metadata.Value() {
		req.Identity.Metadata = append(req.Identity.Metadata, llm.Member{Name: m.Name, Value: llm.Raw(m.Value)})
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

// number is a number's text, also where it came as a string.
func number(o wire.Opt[wire.Number]) llm.Number {
	return llm.Number(strings.Trim(string(o.Value()), `"`))
}

// decodeInclude reads what an answer is to come with. Log probabilities are a setting,
// and sealed reasoning comes with every answer whose upstream has sealed any: only what
// else is asked for is lost on another protocol.
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

func decodeOutput(w *Request, req *llm.Request) *llm.Error {
	out := &req.Output
	for _, limit := range []struct {
		name string
		from wire.Opt[wire.Number]
		to   **int64
	}{{"max_output_tokens", w.MaxOutputTokens, &out.MaxTokens}, {"top_logprobs", w.TopLogprobs, &out.TopLogprobs}} {
		if n, ok := limit.from.Get(); ok {
			i, err := n.Int64()
			if err != nil {
				return invalid(limit.name, err)
			}
			*limit.to = &i
		}
	}
	decodeInclude(req)
	t, ok := w.Text.Get()
	if !ok {
		return nil
	}
	out.Verbosity = t.Verbosity.Value()
	if f, ok := t.Format.Get(); ok {
		out.Format = llm.Format{Kind: f.Type.Value(), Name: f.Name.Value(), Description: f.Description.Value(),
			Schema: value(f.Schema), Strict: pointer(f.Strict), Ext: extOf(f.Extra)}
	}
	if rest := extOf(t.Extra); len(rest.Members) > 0 {
		o := object{}
		o.ext(rest)
		req.Ext.Members = append(req.Ext.Members, llm.Member{Name: "text", Value: o.end()})
	}
	return nil
}

// invalid is the error for a request that cannot be read.
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

// Stateful is the refusal of a request that depends on what OpenAI has stored or
// runs in the background, for routes on which nobody has it: previous_response_id,
// conversation, item_reference, prompt, background. It is nil where the request
// says all that is needed.
func (Codec) Stateful(req *llm.Request) *llm.Error {
	var param string
	switch {
	case req.State.PreviousID != "":
		return unknown("previous_response_id", "previous_response_not_found", req.State.PreviousID)
	case req.State.Conversation != "":
		param = "conversation"
	case req.State.Background != nil && *req.State.Background:
		param = "background"
	case isOwn(req.Ext) && req.Ext.Get("prompt") != "":
		param = "prompt"
	default:
		if id, refers := refersTo(req); refers {
			return unknown("item_reference", "item_not_found", id)
		}
		return nil
	}
	return &llm.Error{Kind: llm.InvalidRequest, Code: "unsupported_parameter", Param: param,
		Message: param + " needs what OpenAI has stored, and this model is not served by OpenAI's Responses API; send the whole conversation as input instead"}
}

// refersTo finds the first item that a request only names.
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
