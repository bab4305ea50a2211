package config

import (
	"slices"
	"strconv"

	"github.com/isogloss-gateway/isogloss/internal/targets/params"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol/all"
)

func (f *paramsFile) resolve() params.Values {
	if f.Has("max_tokens") && f.MaxTokens < 1 {
		f.Wrong("max_tokens", "is not an output limit; write a number of tokens such as 4096")
	}
	v := params.Values{Effort: f.Effort, Temperature: f.number("temperature", f.Temperature), TopP: f.number("top_p", f.TopP), MaxTokens: int64(f.MaxTokens)}
	for i, m := range f.Body {
		if instead, reserved := reservedMember(m.Name); reserved {
			f.WrongItem("body", i, "is a member that the gateway itself writes or acts on; %s", instead)
			continue
		}
		v.Body = append(v.Body, m)
	}
	return v
}

// number returns a number as JSON, and "" if the file does not set it.
func (f *paramsFile) number(key string, value float64) llm.Number {
	if !f.Has(key) {
		return ""
	}
	return llm.Number(strconv.FormatFloat(value, 'f', -1, 64))
}

// reservedMember reports whether body must not have a member, and what to do instead.
func reservedMember(name string) (instead string, reserved bool) {
	switch name {
	case "temperature", "top_p", "max_tokens":
		return "write " + name + " beside body, and not in it", true
	case "max_completion_tokens", "max_output_tokens", "maxOutputTokens":
		return "write max_tokens beside body", true
	case "generationConfig", "generation_config":
		return "write temperature, top_p, max_tokens and effort beside body", true
	case "background", "conversation", "previous_response_id", "cachedContent", "cached_content":
		return "remove it", true
	}
	for _, d := range all.Dialects() {
		members := append([]string{d.CacheSalt, d.Prompt.System, d.Prompt.Tools, d.Prompt.Turns, "system_instruction"}, d.Members...)
		if slices.Contains(members, name) {
			return "remove it", true
		}
	}
	return "", false
}
