package openairesponses

import (
	"testing"

	"github.com/isogloss-gateway/isogloss/protocol"
)

// Every agent that speaks the protocol asks for sealed reasoning, and gets it from every
// upstream that seals. That is no loss to be reported; whatever else is asked for is.
func TestInclude(t *testing.T) {
	for _, c := range []struct {
		include, name string
		logprobs      bool
	}{
		{`["reasoning.encrypted_content"]`, spelled("include"), false},
		{`["reasoning.encrypted_content","message.output_text.logprobs"]`, spelled("include"), true},
		{`[]`, spelled("include"), false},
		{`["reasoning.encrypted_content","file_search_call.results"]`, "include", false},
		{`["file_search_call.results","message.output_text.logprobs"]`, "include", true},
		{`"all"`, "include", false},
	} {
		req, err := Codec{}.DecodeRequest(protocol.Incoming{Body: []byte(`{"model":"m","input":"Hi","include":` + c.include + `}`)})
		if err != nil {
			t.Fatal(err)
		}
		if got := string(req.Ext.Get(c.name)); got != c.include {
			t.Errorf("%s is kept as %+v", c.include, req.Ext.Members)
		}
		if got := req.Output.Logprobs != nil; got != c.logprobs {
			t.Errorf("%s asks for log probabilities: %t", c.include, got)
		}
	}
}
