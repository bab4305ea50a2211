package wire_test

import (
	"testing"

	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

func TestTemplate(t *testing.T) {
	const before, event = `{"id":"c","choices":[{"delta":{"content":"a"},"finish_reason":null}]}`, `{"id":"c","choices":[{"delta":{"content":"ab"},"finish_reason":null}]}`
	var token wire.Template
	token.Learn([]byte(before))
	if token.Matches([]byte(before)) {
		t.Error("one event does not show which string differs")
	}
	token.Learn([]byte(event))
	for data, want := range map[string]bool{
		before: true, event: true,
		`{"id":"c","choices":[{"delta":{"content":""},"finish_reason":null}]}`:                  true,
		`{"id":"c","choices":[{"delta":{"content":"\n"},"finish_reason":null}]}`:                true,
		`{"id":"c","choices":[{"delta":{"content":"\"},"finish_reason":null}]}`:                 false,
		`{"id":"c","choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}`:               false,
		`{"id":"c","choices":[{"delta":{"content":"a","x":"b"},"finish_reason":null}]}`:         false,
		`{"id":"d","choices":[{"delta":{"content":"a"},"finish_reason":null}]}`:                 false,
		`{"id":"c","choices":[{"delta":{"content":"a"},"finish_reason":null}],"usage":{}}`:      false,
		`{"id":"c","choices":[{"delta":{"content":`:                                             false,
		`{"id":"c","choices":[{"delta":{"content":"},"finish_reason":null}]}`:                   false,
		`{"id":"c","choices":[{"delta":{"content":null},"finish_reason":null}]}`:                false,
		`{"id":"c","choices":[{"delta":{"content":"a"},"finish_reason":null}]},"finish_reason"`: false,
	} {
		if token.Matches([]byte(data)) != want {
			t.Errorf("%s: want %t", data, want)
		}
	}
	names := wire.Template{}
	names.Learn([]byte(`{"a":{}}`))
	names.Learn([]byte(`{"b":{}}`))
	if names.Matches([]byte(`{"usage":{}}`)) {
		t.Error("a name is not the text of a value")
	}
}
