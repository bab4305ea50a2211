package ingress_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/edge/ingress"
	"github.com/isogloss-gateway/isogloss/protocol/all"
)

func TestUnknownPaths(t *testing.T) {
	table := ingress.NewTable(all.Dialects())
	for _, tt := range []struct {
		path    string
		headers []string
		likely  string // empty: nothing is near
		twice   bool
		dialect string
	}{
		{"/chat/completions", nil, "/v1/chat/completions", false, "openai-chat"},
		{"/completions", nil, "/v1/completions", false, "openai-chat"},
		{"/v1/chat/completion", nil, "/v1/chat/completions", false, "openai-chat"},
		{"/v1/chat/complitions", nil, "/v1/chat/completions", false, "openai-chat"},
		{"/v1/embeding", nil, "/v1/embeddings", false, "openai-chat"},
		{"/v1/message", nil, "/v1/messages", false, "anthropic"},
		{"/v1/chat/completions/", nil, "/v1/chat/completions", false, "openai-chat"},
		{"//v1/Chat/Completions", nil, "/v1/chat/completions", false, "openai-chat"},
		{"/openai/v1/chat/completions", nil, "/v1/chat/completions", false, "openai-chat"},
		{"/v1/v1/chat/completions", nil, "/v1/chat/completions", true, "openai-chat"},
		{"/v1/v1/models", nil, "/v1/models", true, "openai-chat"},
		{"/messages", nil, "/v1/messages", false, "anthropic"},
		{"/v1/v1/messages", nil, "/v1/messages", true, "anthropic"},
		{"/v1/v1/messages/count_tokens", nil, "/v1/messages/count_tokens", true, "anthropic"},
		{"/messages", []string{"X-Goog-Api-Key", "k"}, "/v1/messages", false, "gemini"},
		{"/responses", nil, "/v1/responses", false, "openai-responses"},
		{"/v1/responses/compct", nil, "/v1/responses/compact", false, "openai-responses"},
		{"/v1/responses/resp_1", nil, "", false, "openai-chat"},
		{"/v1/responses/resp_0123abcd", nil, "", false, "openai-chat"},
		{"/models", nil, "/v1/models", false, "openai-chat"},
		{"/", nil, "", false, "openai-chat"},
		{"/v1", nil, "", false, "openai-chat"},
		{"/v1/audio/speech", nil, "", false, "openai-chat"},
		{"/wp-login.php", nil, "", false, "openai-chat"},
	} {
		req := httptest.NewRequest(http.MethodPost, "http://gateway"+tt.path, nil)
		for i := 0; i < len(tt.headers); i += 2 {
			req.Header.Set(tt.headers[i], tt.headers[i+1])
		}
		dialect, err := table.Unknown(req)
		want := "a provider's own path"
		if tt.likely != "" {
			want = "did you mean " + tt.likely + "?"
		}
		if string(dialect.Name) != tt.dialect || !strings.Contains(err.Message, want) || strings.Contains(err.Message, "twice") != tt.twice {
			t.Errorf("%s: %s %s, want %s: %s", tt.path, dialect.Name, err.Message, tt.dialect, want)
		}
	}
	long := httptest.NewRequest(http.MethodGet, "http://gateway/"+strings.Repeat("x/", 20_000), nil)
	if _, err := table.Unknown(long); len(err.Message) > 400 {
		t.Errorf("the message has %d bytes", len(err.Message))
	}
}
