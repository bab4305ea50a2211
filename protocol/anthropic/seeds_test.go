package anthropic

import (
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/llm"
)

// K63 of docs/evidence/seeds.md: which stop sequence was hit is not lost.
func TestSeedStopSequence(t *testing.T) {
	resp, err := Codec{}.DecodeResponse([]byte(`{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"a"}],"stop_reason":"stop_sequence","stop_sequence":"END","usage":{"input_tokens":1,"output_tokens":1}}`))
	if err != nil {
		t.Fatal(err)
	}
	if got := resp.Choices[0].Stop; got.Kind != llm.StopSequence || got.Matched != "END" {
		t.Errorf("%+v", got)
	}
	if got := string(Codec{}.EncodeResponse(resp, nil, &llm.Report{})); !strings.Contains(got, `"stop_reason":"stop_sequence","stop_sequence":"END"`) {
		t.Error(got)
	}
}
