package gemini

import (
	"testing"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

func TestJSONSchema(t *testing.T) {
	for in, want := range map[string]string{
		`{"type":"OBJECT","properties":{"type":{"type":"STRING"},"nullable":{"type":"NUMBER","nullable":true}},"propertyOrdering":["type"]}`: `{"type":"object","properties":{"type":{"type":"string"},"nullable":{"type":["number","null"]}}}`,
		`{"type":"STRING","enum":["a"],"nullable":true,"format":"enum"}`:                                                                     `{"type":["string","null"],"enum":["a",null]}`,
		`{"any_of":[{"type":"STRING"},{"type":"INTEGER"}],"nullable":true}`:                                                                  `{"anyOf":[{"type":"string"},{"type":"integer"},{"type":"null"}]}`,
		`{"type":"ARRAY","items":{"type":"TYPE_UNSPECIFIED"},"min_items":"1","maxItems":2,"example":[]}`:                                     `{"type":"array","items":{},"minItems":1,"maxItems":2,"examples":[[]]}`,
		`true`: `true`,
	} {
		if got := string(jsonSchema(wire.Raw(in))); got != want {
			t.Errorf("\n  in %s\n got %s\nwant %s", in, got, want)
		}
	}
}

func TestFitSchema(t *testing.T) {
	const moved, added = "approximated schema.keyword_moved x\n", "approximated schema.items_added x\n"
	for in, want := range map[string][2]string{
		// all of it is taken: the same bytes
		`{ "type":"object", "$defs":{"u":{"type":"string","enum":["C","°"]}},"properties":{"u":{"$ref":"#/$defs/u"},"n":{"type":["string","null"]}},"additionalProperties":false}`: {`{ "type":"object", "$defs":{"u":{"type":"string","enum":["C","°"]}},"properties":{"u":{"$ref":"#/$defs/u"},"n":{"type":["string","null"]}},"additionalProperties":false}`, ""},
		// GEM-22
		`{"$schema":"x","type":"object","properties":{"a":{"type":"string","description":"d","minLength":1,"pattern":"^a","default":"a"}}}`: {`{"type":"object","properties":{"a":{"type":"string","description":"d (minLength: 1; pattern: \"^a\"; default: \"a\")"}}}`, moved},
		`{"$schema":"x","type":"object"}`: {`{"type":"object"}`, ""},
		// GEM-23
		`{"type":"object","properties":{"const":{"type":"string"},"$schema":{"type":"string"},"properties":{"type":"object","properties":{"default":{"type":"string"}}},"$ref":{"type":"string"}},"required":["const","$ref"]}`: {`{"type":"object","properties":{"const":{"type":"string"},"$schema":{"type":"string"},"properties":{"type":"object","properties":{"default":{"type":"string"}}},"$ref":{"type":"string"}},"required":["const","$ref"]}`, ""},
		// GEM-24
		`{"type":"string","nullable":true}`:                               {`{"type":["string","null"]}`, ""},
		`{"anyOf":[{"type":"string"},{"type":"null","description":"d"}]}`: {`{"anyOf":[{"type":"string"},{"type":"null","description":"d"}]}`, ""},
		// GEM-25
		`{"type":"string","enum":["a",null]}`: {`{"type":["string","null"],"enum":["a"]}`, ""},
		`{"type":"string","enum":[""]}`:       {`{"type":"string","description":"enum: an empty string is allowed too"}`, moved},
		`{"type":"integer","enum":[1,2]}`:     {`{"type":"integer","enum":[1,2]}`, ""},
		// GEM-26
		`{"const":"x"}`: {`{"enum":["x"]}`, ""},
		`{"definitions":{"n":{"type":"object","properties":{"next":{"$ref":"#/definitions/n"}}}},"$ref":"#/definitions/n"}`: {`{"$defs":{"n":{"type":"object","properties":{"next":{"$ref":"#/$defs/n"}}}},"$ref":"#/$defs/n"}`, ""},
		`{"properties":{"a":{"$ref":"#/$defs/n","description":"d"}}}`:                                                       {`{"properties":{"a":{"description":"d","anyOf":[{"$ref":"#/$defs/n"}]}}}`, ""},
		// GEM-27
		`{"type":"array"}`:                                    {`{"type":"array","items":{"type":"string"}}`, added},
		`{"type":["array","null"]}`:                           {`{"type":["array","null"],"items":{"type":"string"}}`, added},
		`{"type":"array","items":[{"type":"string"},true]}`:   {`{"type":"array","prefixItems":[{"type":"string"},{}]}`, ""},
		`{"allOf":[{"type":"object","properties":{"a":{}}}]}`: {`{"type":"object","properties":{"a":{}}}`, ""},
		`{"properties":{"a":{"type":"string"}},"required":["a"],"allOf":[{"properties":{"a":{},"b":{}},"required":["a","b"]},{"title":"t"}]}`: {`{"properties":{"a":{"type":"string"},"b":{}},"required":["a","b"],"title":"t"}`, moved},
	} {
		report := &llm.Report{}
		got := string(fitSchema(llm.Raw(in), "x", report))
		if got != want[0] || losses(report) != want[1] {
			t.Errorf("\n  in %s\n got %s\nwant %s\n%s", in, got, want[0], losses(report))
		}
		// What was fitted once fits.
		if again := string(fitSchema(llm.Raw(got), "x", &llm.Report{})); again != got {
			t.Errorf("\n got %s\nthen %s", got, again)
		}
	}
}
