package codec_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/all"
)

// TestCloudErrors checks the kind and the delay of the errors with which clouds report limits,
// in every dialect that a cloud offers.
func TestCloudErrors(t *testing.T) {
	aws := func(name string) http.Header { return http.Header{"X-Amzn-Errortype": {name + ":http://internal/"}} }
	google := `{"error":{"code":429,"message":"Quota exceeded","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"7s"}]}}`
	for name, c := range map[string]struct {
		status int
		header http.Header
		body   string
		kind   llm.Kind
		wait   time.Duration
	}{
		"throttling":        {429, aws("ThrottlingException"), `{"message":"m"}`, llm.RateLimit, 0},
		"service quota":     {400, aws("ServiceQuotaExceededException"), `{"message":"m"}`, llm.Quota, 0},
		"not ready":         {429, aws("ModelNotReadyException"), `{"message":"m"}`, llm.Overloaded, 0},
		"model timeout":     {408, aws("ModelTimeoutException"), `{"message":"m"}`, llm.Timeout, 0},
		"model error":       {424, aws("ModelErrorException"), `{"message":"m"}`, llm.Upstream, 0},
		"unavailable":       {503, aws("ServiceUnavailableException"), `{"message":"m"}`, llm.Overloaded, 0},
		"validation":        {400, aws("ValidationException"), `{"message":"m"}`, llm.InvalidRequest, 0},
		"Google":            {429, nil, google, llm.RateLimit, 7 * time.Second},
		"Azure":             {429, http.Header{"Retry-After-Ms": {"7300"}, "Retry-After": {"8"}}, `{"error":{"code":"429","message":"m"}}`, llm.RateLimit, 7300 * time.Millisecond},
		"Azure, own header": {429, http.Header{"X-Ms-Retry-After-Ms": {"7300"}}, `{"error":{"code":"429","message":"m"}}`, llm.RateLimit, 7300 * time.Millisecond},
	} {
		for _, codec := range all.Codecs() {
			if codec.Name() == protocol.Gemini && c.header != nil && c.header.Get("X-Amzn-Errortype") != "" || codec.Name() == protocol.Converse && c.body == google {
				continue // not at this cloud
			}
			if e := codec.DecodeError(c.status, c.header, []byte(c.body)); e.Kind != c.kind || e.RetryAfter != c.wait {
				t.Errorf("%s, %s: %s after %s, want %s after %s", name, codec.Name(), e.Kind, e.RetryAfter, c.kind, c.wait)
			}
		}
	}
}
