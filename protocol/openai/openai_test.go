package openai

import (
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/isogloss-gateway/isogloss/llm"
)

// The envelope has the type and the code of every error kind.
func TestEveryKindIsEncoded(t *testing.T) {
	for kind, want := range errorTypes {
		var got struct {
			Error struct {
				Type string  `json:"type"`
				Code *string `json:"code"`
			} `json:"error"`
		}
		if err := json.Unmarshal(EncodeError(&llm.Error{Kind: kind, Message: "m"}), &got); err != nil {
			t.Fatal(err)
		}
		if got.Error.Type != want.typ || want.typ == "" || (got.Error.Code == nil) != (want.code == "") {
			t.Errorf("%s: %+v", kind, got)
		}
	}
}

func TestDescribesObject(t *testing.T) {
	for schema, want := range map[llm.Raw]bool{
		"": true, "{}": true, `{"type":"object"}`: true, `{"type":["object","null"]}`: true,
		`{"type":"string"}`: false, `[]`: false, `true`: false,
	} {
		if got := DescribesObject(schema); got != want {
			t.Errorf("%s: got %t", schema, got)
		}
	}
}
