package openai

import (
	"testing"

	"github.com/isogloss-gateway/isogloss/llm"
)

func TestStrict(t *testing.T) {
	for schema, want := range map[string]bool{
		`{"type":"object","properties":{},"additionalProperties":false}`:                                       true,
		`{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],"additionalProperties":false}`: true,
		`{"type":"object","properties":{"a":{"type":["string","null"]},"b":{"$ref":"#/$defs/x"}},"required":["b","a"],"additionalProperties":false,"$defs":{"x":{"type":"array","items":{"anyOf":[{"type":"number"}]}}}}`: true,
		`{"type":"object","properties":{"a":{"type":"string"}},"additionalProperties":false}`:                                                                                                                             false,
		`{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}`:                                                                                                                                         false,
		`{"type":"object","properties":{"a":{"type":"object","properties":{"b":{}}}},"required":["a"],"additionalProperties":false}`:                                                                                      false,
		`{"type":"object","properties":{"a":{"items":{"type":"object"}}},"required":["a"],"additionalProperties":false}`:                                                                                                  false,
		`{"type":"object","properties":{"a":{"oneOf":[{"type":"string"}]}},"required":["a"],"additionalProperties":false}`:                                                                                                false,
		`{"type":"object","properties":{"a":{"anyOf":[{"type":"object"}]}},"required":["a"],"additionalProperties":false}`:                                                                                                false,
		`{"type":"object","properties":3}`: false,
		`true`:                             false,
		``:                                 false,
	} {
		report := &llm.Report{}
		got := Strict(new(true), llm.Raw(schema), "tools[0].strict", report)
		if got == nil || *got != want || (len(report.Losses) == 0) != want {
			t.Errorf("%s: %v, %v", schema, *got, report.Losses)
		}
	}
	for _, setting := range []*bool{nil, new(false)} {
		report := &llm.Report{}
		if got := Strict(setting, "", "x", report); got != setting || len(report.Losses) > 0 {
			t.Errorf("%v became %v, %v", setting, got, report.Losses)
		}
	}
}
