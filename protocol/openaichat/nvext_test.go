package openaichat

import (
	"testing"

	"github.com/isogloss-gateway/isogloss/llm"
)

func TestCheckNvExt(t *testing.T) {
	for raw, param := range map[string]string{
		`{}`:                                     "",
		`{"unknown":1,"max_thinking_tokens":-7}`: "",
		`{"half":"\ud83d"}`:                      "",
		`[]`:                                     "nvext",
		`"x"`:                                    "nvext",
		`7`:                                      "nvext",
		`{"ignore_eos":true}`:                    "",
		`{"ignore_eos":null}`:                    "",
		`{"ignore_eos":"true"}`:                  "nvext.ignore_eos",
		`{"greed_sampling":false}`:               "",
		`{"greed_sampling":0}`:                   "nvext.greed_sampling",
		`{"greedy_sampling":true}`:               "",
		`{"greedy_sampling":1}`:                  "nvext.greedy_sampling",
		`{"use_raw_prompt":false}`:               "",
		`{"use_raw_prompt":[]}`:                  "nvext.use_raw_prompt",
		`{"top_k":-1}`:                           "",
		`{"top_k":1}`:                            "",
		`{"top_k":9223372036854775807}`:          "",
		`{"top_k":9223372036854775808}`:          "nvext.top_k",
		`{"top_k":0}`:                            "nvext.top_k",
		`{"top_k":-2}`:                           "nvext.top_k",
		`{"top_k":1.0}`:                          "nvext.top_k",
		`{"top_k":"1"}`:                          "nvext.top_k",
		`{"repetition_penalty":2}`:               "",
		`{"repetition_penalty":0.0001}`:          "",
		`{"repetition_penalty":2e0}`:             "",
		`{"repetition_penalty":0}`:               "nvext.repetition_penalty",
		`{"repetition_penalty":-1}`:              "nvext.repetition_penalty",
		`{"repetition_penalty":2.0001}`:          "nvext.repetition_penalty",
		`{"repetition_penalty":"1"}`:             "nvext.repetition_penalty",
		`{"annotations":[]}`:                     "",
		`{"annotations":["a","\ud83d"]}`:         "",
		`{"annotations":null}`:                   "",
		`{"annotations":"a"}`:                    "nvext.annotations",
		`{"annotations":["a",null]}`:             "nvext.annotations",
		`{"annotations":[{}]}`:                   "nvext.annotations",
	} {
		err := CheckNvExt([]byte(raw))
		switch {
		case param == "" && err != nil:
			t.Errorf("%s: %v", raw, err)
		case param != "" && (err == nil || err.Param != param || err.Kind != llm.InvalidRequest || err.Code != "invalid_value"):
			t.Errorf("%s: %+v, want %s", raw, err, param)
		}
	}
}
