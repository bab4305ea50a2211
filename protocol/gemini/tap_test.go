package gemini

import (
	"testing"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
)

func TestTap(t *testing.T) {
	tap := Codec{}.NewTap(1)
	feed := func(want protocol.Mark, data string) {
		t.Helper()
		if got := tap.Event([]byte(data)); got != want {
			t.Errorf("%s: mark %d, want %d", data, got, want)
		}
	}
	feed(protocol.Keepalive, " ")
	feed(protocol.Content, `{"candidates":[{"content":{"parts":[{"text":"a"}]}}],"responseId":"r","modelVersion":"m"}`)
	feed(protocol.Content, `{"candidates":[{"content":{"parts":[{"text":"\"usageMetadata\":{\"promptTokenCount\":9}"}]}}],"usageMetadata": {"promptTokenCount":7,"cachedContentTokenCount":2}}`)
	if s := tap.Summary(); s.ID != "r" || s.Model != "m" || s.Complete || *s.Usage != (llm.Usage{Input: 5, CacheRead: 2}) {
		t.Errorf("%+v %+v", s, s.Usage) // USE-19: known though the answer has not ended
	}
	feed(protocol.Content, `{"candidates":[{"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":7,"candidatesTokenCount":3}}`)
	feed(protocol.Content, `{"candidates":[{"finishReason":"STOP"}]}`)
	if s := tap.Summary(); !s.Complete || s.Finish != "STOP" || *s.Usage != (llm.Usage{Input: 5, CacheRead: 2, Output: 3}) {
		t.Errorf("%+v %+v", s, s.Usage)
	}
	feed(protocol.Failed, `[{"error":{"code":503,"message":"over"}}]`)
	if s := tap.Summary(); s.Complete || s.Err == nil || s.Err.Kind != llm.Overloaded {
		t.Errorf("%+v", s)
	}
	two := Codec{}.NewTap(2)
	two.Event([]byte(`{"candidates":[{"finishReason":"STOP","index":1}]}`))
	if two.Summary().Complete {
		t.Error("one of two choices has ended")
	}
	blocked := Codec{}.NewTap(1)
	blocked.Event([]byte(`{"promptFeedback":{"blockReason":"SAFETY"}}`))
	if s := blocked.Summary(); !s.Complete || s.Finish != "SAFETY" {
		t.Errorf("%+v", s)
	}
	for _, body := range []string{"", "<html>", `{"error":{"message":"m"}}`, `{"candidates":[`} {
		if err := (&Tap{}).Body([]byte(body)); err == nil {
			t.Errorf("%q was taken for an answer", body)
		}
	}
}
