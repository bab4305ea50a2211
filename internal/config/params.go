package config

import (
	"slices"
	"strconv"

	"github.com/isogloss-gateway/isogloss/internal/targets/params"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/all"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

type effortName string

func (effortName) options() []string { return protocol.Efforts() }

func (f *paramsFile) resolve(ps *Problems) params.Values {
	f.checkRange("temperature", f.Temperature, 2, ps)
	f.checkRange("top_p", f.TopP, 1, ps)
	if f.has("max_tokens") && f.MaxTokens < 1 {
		ps.addKey(&f.at, "max_tokens", "is not an output limit; write a number of tokens such as 4096")
	}
	v := params.Values{Effort: string(f.Effort), Temperature: f.number("temperature", f.Temperature), TopP: f.number("top_p", f.TopP), MaxTokens: int64(f.MaxTokens)}
	for i, m := range f.Body {
		if instead, reserved := reservedMember(m.Name); reserved {
			ps.add(f.node.child("body").children[i], "is a member that the gateway itself writes or acts on; %s", instead)
			continue
		}
		v.Body = append(v.Body, m)
	}
	return v
}

func (f *paramsFile) checkRange(key string, value, highest float64, ps *Problems) {
	if f.has(key) && !(value >= 0 && value <= highest) {
		ps.addKey(&f.at, key, "is not in its range; write a number from 0 to %g", highest)
	}
}

// number returns a number as JSON, and "" if the file does not set it.
func (f *paramsFile) number(key string, value float64) llm.Number {
	if !f.has(key) {
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

// jsonObject is an object that is sent as JSON.
type jsonObject []llm.Member

func (o *jsonObject) decode(n *node, ps *Problems) {
	for _, c := range n.children {
		*o = append(*o, llm.Member{Name: c.key, Value: llm.Raw(appendJSON(nil, c, ps))})
	}
}

// appendJSON appends a node as JSON.
func appendJSON(to []byte, n *node, ps *Problems) []byte {
	switch n.kind {
	case mapping:
		return appendList(to, n, '{', '}', ps)
	case sequence:
		return appendList(to, n, '[', ']', ps)
	case scalar:
		if !n.plain {
			return wire.AppendQuote(to, n.text)
		}
		if _, err := wire.IndexObject([]byte(`{"a":` + n.text + `}`)); err != nil {
			ps.add(n, "%q is not a number or a boolean of JSON; write it in quotes, or as JSON does", n.written)
		}
		return append(to, n.text...)
	default:
		return append(to, "null"...)
	}
}

func appendList(to []byte, n *node, start, end byte, ps *Problems) []byte {
	to = append(to, start)
	for i, c := range n.children {
		if i > 0 {
			to = append(to, ',')
		}
		if start == '{' {
			to = append(wire.AppendQuote(to, c.key), ':')
		}
		to = appendJSON(to, c, ps)
	}
	return append(to, end)
}
