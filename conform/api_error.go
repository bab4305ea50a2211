package conform

// errorKind describes how each vendor reports one kind of error.
type errorKind struct {
	openAI, anthropic, gemini, converse int // HTTP status
	typ, code                           string
	anthropicType                       string
	geminiStatus                        string
	exception                           string // of Bedrock
}

func errorKinds() map[string]errorKind {
	return map[string]errorKind{
		"invalid":    {400, 400, 400, 400, "invalid_request_error", "", "invalid_request_error", "INVALID_ARGUMENT", "ValidationException"},
		"context":    {400, 400, 400, 400, "invalid_request_error", "context_length_exceeded", "invalid_request_error", "INVALID_ARGUMENT", "ValidationException"},
		"auth":       {401, 401, 401, 403, "invalid_request_error", "invalid_api_key", "authentication_error", "UNAUTHENTICATED", "UnrecognizedClientException"},
		"permission": {403, 403, 403, 403, "permission_error", "", "permission_error", "PERMISSION_DENIED", "AccessDeniedException"},
		"not_found":  {404, 404, 404, 404, "invalid_request_error", "", "not_found_error", "NOT_FOUND", "ResourceNotFoundException"},
		"too_large":  {413, 413, 413, 413, "invalid_request_error", "", "request_too_large", "INVALID_ARGUMENT", "RequestEntityTooLargeException"},
		"rate_limit": {429, 429, 429, 429, "rate_limit_error", "rate_limit_exceeded", "rate_limit_error", "RESOURCE_EXHAUSTED", "ThrottlingException"},
		"server":     {500, 500, 500, 500, "server_error", "", "api_error", "INTERNAL", "InternalServerException"},
		"overloaded": {503, 529, 503, 503, "server_error", "server_is_overloaded", "overloaded_error", "UNAVAILABLE", "ServiceUnavailableException"},
		"timeout":    {504, 504, 504, 408, "server_error", "timeout", "timeout_error", "DEADLINE_EXCEEDED", "ModelTimeoutException"},
	}
}

// status returns the HTTP status of the error in a dialect.
func (f APIError) status(d Dialect) int {
	if f.Status != 0 {
		return f.Status
	}
	k := errorKinds()[f.Kind]
	switch d {
	case Anthropic:
		return k.anthropic
	case Gemini:
		return k.gemini
	case Converse:
		return k.converse
	default:
		return k.openAI
	}
}

// orNull returns s, or nil if s is empty.
func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}
