package exchange

import (
	"testing"

	"github.com/isogloss-gateway/isogloss/llm"
)

func TestNamesModel(t *testing.T) {
	for _, tt := range []struct {
		err    llm.Error
		status int
		model  string
		want   bool
	}{
		{llm.Error{Code: "model_not_found"}, 404, "x", true},
		{llm.Error{Code: "model_not_found"}, 400, "x", false},
		{llm.Error{Message: "model: claude-9", Relayed: true}, 404, "claude-9", true},
		{llm.Error{Message: "models/gemini-9 is not found", Relayed: true}, 404, "gemini-9", true},
		{llm.Error{Message: `model "llama3:8b" not found, try pulling it first`, Relayed: true}, 404, "llama3:8b", true},
		{llm.Error{Message: "The model `m` does not exist.", Relayed: true}, 404, "m", true},
		{llm.Error{Message: "no message m1, m-2 or 3m", Relayed: true}, 404, "m", false},
		{llm.Error{Message: "no conversation of that id", Relayed: true}, 404, "gpt-9", false},
		{llm.Error{Message: "m", Relayed: false}, 404, "m", false}, // the gateway's own text
		{llm.Error{Message: "gone", Relayed: true}, 404, "", false},
	} {
		if got := NamesModel(&tt.err, tt.status, tt.model); got != tt.want {
			t.Errorf("%d %+v of %q: %t", tt.status, tt.err, tt.model, got)
		}
	}
}
