package openapi

import (
	"strings"
	"testing"
)

// TestMedia checks that a result of other media types is described by their names.
func TestMedia(t *testing.T) {
	op := ForMedia[struct{}]("run", "POST", "/run", "Run", "application/json", "text/event-stream")
	text, err := Document(Info{}, "", &op)
	if want := `"200":{"content":{"application/json":{},"text/event-stream":{}},"description":"OK"}`; err != nil || !strings.Contains(string(text), want) {
		t.Errorf("%v: %s", err, text)
	}
	if op.HasBody() || strings.Contains(string(text), `"requestBody"`) {
		t.Errorf("there is a body: %s", text)
	}
}
