package sdks

import (
	"fmt"
	"strings"

	"github.com/isogloss-gateway/isogloss/e2e/rig"
)

// failed is what an SDK reports of an answer with an error status. Class is the
// name of the exception; see sdk.class.
func failed(class string, status int, kind, param, code, message string) string {
	return fmt.Sprintf(`{"error":{"class":%q,"status":%d,"type":%q,"param":%q,"code":%q,"message":%q,"retry_after":"","request_id":"*"}}`,
		class, status, kind, param, code, message)
}

func errorScenarios() []scenario {
	const invalid = "invalid_request_error"
	notFound := problem("The model does not exist.", invalid, `"model"`, `"model_not_found"`)
	limited := problem("Slow down.", "requests", "null", `"rate_limit_exceeded"`)
	badKey := problem("Incorrect API key provided.", invalid, "null", `"invalid_api_key"`)
	return []scenario{
		{
			name: "error_model_not_found", local: true,
			steps: []rig.Step{rig.Whole(404, notFound)},
			want:  failed("NotFoundError", 404, invalid, "model", "model_not_found", "*"),
		},
		{
			name: "error_model_retrieve", local: true,
			steps: []rig.Step{rig.Whole(404, notFound)},
			want:  failed("NotFoundError", 404, invalid, "model", "model_not_found", "*"),
		},
		{
			name: "error_auth", local: true, key: "isogloss-e2e-some-other-key",
			steps: []rig.Step{rig.Whole(401, badKey)},
			want:  failed("AuthenticationError", 401, invalid, "*?", "invalid_api_key", "*"),
		},
		{
			name: "error_media_type", local: true,
			steps: []rig.Step{rig.Whole(415, problem("Send application/json.", invalid, "null", `"unsupported_media_type"`))},
			want:  failed("StatusError", 415, invalid, "*?", "*?", "*"),
		},
		{
			name: "error_body_limit", local: true, // refused while the client is still sending
			steps: []rig.Step{rig.Whole(413, problem("The request is too large.", invalid, "null", `"request_too_large"`))},
			want:  failed("StatusError", 413, invalid, "*?", "*?", "*"),
		},
		{
			name:  "error_bad_request",
			steps: []rig.Step{rig.Whole(400, problem("Too many stop sequences: 9.", invalid, `"stop"`, `"array_above_max_length"`))},
			want:  failed("BadRequestError", 400, invalid, "stop", "array_above_max_length", "Too many stop sequences: 9."),
		},
		{
			name:  "error_too_large",
			steps: []rig.Step{rig.Whole(413, problem("The request is too large.", invalid, "null", `"request_too_large"`))},
			want:  failed("StatusError", 413, invalid, "", "request_too_large", "The request is too large."),
		},
		{
			name: "error_rate_limit", faulty: true,
			steps: []rig.Step{rig.Whole(429, limited, "Retry-After", "7")},
			want:  `{"error":{"class":"RateLimitError","status":429,"type":"requests","param":"","code":"rate_limit_exceeded","message":"Slow down.","retry_after":"7","request_id":"*"}}`,
		},
		{
			name: "error_rate_limit_stream", faulty: true,
			steps: []rig.Step{rig.Whole(429, limited, "Retry-After", "7")},
			want:  `{"error":{"class":"RateLimitError","status":429,"type":"requests","param":"","code":"rate_limit_exceeded","message":"Slow down.","retry_after":"7","request_id":"*"}}`,
		},
		{
			name: "retry_after_rate_limit", faulty: true, // the SDK's own retry, once
			steps: []rig.Step{rig.Whole(429, limited, "Retry-After", "0", "Retry-After-Ms", "1"), rig.Whole(200, says("second try"))},
			want:  chatReport("second try"),
		},
		{
			name: "error_server", faulty: true,
			steps: []rig.Step{rig.Whole(500, problem("The engine fell over.", "server_error", "null", "null"))},
			want:  failed("InternalServerError", 500, "server_error", "", "", "The engine fell over."),
		},
		{
			name: "error_provider_key", faulty: true, // ERR-15: the client's key was fine
			steps:  []rig.Step{rig.Whole(401, badKey)},
			direct: failed("AuthenticationError", 401, invalid, "", "invalid_api_key", "*"),
			want:   failed("InternalServerError", 502, "*", "*?", "*?", "*"),
		},
		{
			name: "error_not_json", faulty: true, // ERR-13
			steps:  []rig.Step{rig.Typed("text/html", 502, "<html><h1>502 Bad Gateway</h1></html>")},
			direct: `{"error":{"class":"InternalServerError","status":502,"type":"*?","param":"*?","code":"*?","message":"*?","retry_after":"","request_id":"*"}}`,
			want:   failed("InternalServerError", 502, "*", "*?", "*?", "*"),
		},
	}
}

// cutScenarios hold that an answer without proof of its end is never a whole one.
func cutScenarios() []scenario {
	half := []string{role(0), text(0, "half an "), text(0, "ans")}
	chunks := `"chunks":["","half an ","ans"],"finish":""`
	const fell = `data: {"error":{"message":"The engine fell over.","type":"server_error","param":null,"code":"engine_dead"}}` + "\n\n"
	long := strings.Repeat("on and on ", 20_000)
	raised := `{` + chunks + `,"error":{"class":"APIError","message":"*"}}`
	return []scenario{
		{
			name: "cut_stream", faulty: true,
			steps:  []rig.Step{rig.CutStream(half...)},
			direct: `{` + chunks + `,"error":"*"}`,
			want:   raised,
		},
		{
			name: "cut_stream_clean", faulty: true, // SSE-19: the connection ends in order, the answer does not
			steps:  []rig.Step{rig.Stream(half...)},
			direct: `{` + chunks + `,"error":null}`,
			want:   raised,
		},
		{
			name: "cut_stream_helper", faulty: true,
			steps:  []rig.Step{rig.CutStream(half...)},
			direct: `{"content":null,"error":"*"}`,
			want:   `{"content":null,"error":{"class":"APIError","message":"*"}}`,
		},
		{
			name: "cut_tool_call", faulty: true,
			steps: []rig.Step{rig.CutStream(role(0),
				call(`{"index":0,"id":"call_1","type":"function","function":{"name":"get_weather","arguments":""}}`),
				call(`{"index":0,"function":{"arguments":"{\"city\": \"Par"}}`))},
			direct: `{"content":null,"error":"*"}`,
			want:   `{"content":null,"error":{"class":"APIError","message":"*"}}`,
		},
		{
			name: "cut_whole", faulty: true,
			steps: []rig.Step{rig.CutWhole(says("never to be seen"))},
			want:  `{"content":null,"error":"*"}`,
		},
		{
			name: "stream_error_event", faulty: true, // in one write with the text before it
			steps: []rig.Step{rig.Stream(strings.Join(half, "") + fell)},
			want:  `{` + chunks + `,"error":{"class":"APIError","message":"The engine fell over."}}`,
		},
		{
			name: "stream_error_event_late", faulty: true, // more text before it than any look ahead holds
			steps: []rig.Step{rig.Stream(role(0), text(0, long), fell)},
			want:  `{"chunks":["",` + rig.Quote(long) + `],"finish":"","error":{"class":"APIError","message":"The engine fell over."}}`,
		},
		{
			name: "stream_error_event_first", faulty: true, // nothing was said yet, so a status is as good
			steps: []rig.Step{rig.Stream(fell)},
			want:  `{"chunks":[],"finish":"","error":"*"}`,
		},
	}
}

func cancelScenarios() []scenario {
	return []scenario{
		{
			name: "cancel_stream", cancel: leaves,
			steps: []rig.Step{rig.Hang(role(0), text(0, "one "))},
			want:  `{"chunks":["","one "]}`,
		},
		{
			name: "cancel_waiting", cancel: leavesOnCue,
			steps: []rig.Step{rig.Hang()},
			want:  `{"cancelled":true}`,
		},
		{
			name: "cancel_whole", cancel: leavesOnCue,
			steps: []rig.Step{rig.Hang()},
			want:  `{"cancelled":true}`,
		},
	}
}
