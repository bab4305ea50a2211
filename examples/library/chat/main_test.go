package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/gateway"
)

// TestChat talks to a server of Messages, which gets the whole conversation, and is told when it fails.
func TestChat(t *testing.T) {
	turns := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if turns++; strings.Count(string(body), `"role":"user"`) != turns {
			t.Errorf("turn %d has %s", turns, body)
		}
		w.Header().Set("Content-Type", "application/json")
		if turns == 3 {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"type":"error","error":{"type":"invalid_request_error","message":"that is enough"}}`)
			return
		}
		_, _ = fmt.Fprintf(w, `{"id":"m1","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"Answer %d."}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":1}}`, turns)
	}))
	defer server.Close()
	g, err := gateway.New([]byte(`
providers:
  vendor: { protocol: anthropic, base_url: "`+server.URL+`", auth: none }
models:
  fast: { targets: [vendor/m] }
`), gateway.Options{Log: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close(context.Background())
	var out bytes.Buffer
	err = talk(g.Client(), "fast", strings.NewReader("One\nTwo\nThree\n"), &out)
	if out.String() != "Answer 1.\nAnswer 2.\n" || err == nil || !strings.Contains(err.Error(), "that is enough") {
		t.Errorf("%q, %v", &out, err)
	}
}
