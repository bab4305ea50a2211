package converse

import (
	"net/http"
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// Dialect describes the protocol to the gateway.
func Dialect() *codec.Dialect {
	routes := []codec.Route{
		{Name: "converse", Verb: converse, Operation: codec.Generate, Span: "chat"},
		{Name: "converse_stream", Verb: converseStream, Operation: codec.Generate, Span: "chat"},
	}
	return &codec.Dialect{
		Name:         protocol.Converse,
		Codec:        Codec{},
		Routes:       routes,
		Locate:       func(req *http.Request) (codec.Location, bool, *llm.Error) { return locate(routes, req) },
		Claims:       claims,
		UpstreamPath: upstreamPath,
		Frames:       frames(),
		Members:      []string{"inferenceConfig"},
		Read:         readHead,
		Labels:       codec.Labels{Tags: "requestMetadata"},
		Prompt:       codec.Prompt{System: "system", Tools: "toolConfig", Turns: "messages"},
		Parameters: map[string][]string{"sampling.temperature": {"inferenceConfig.temperature"}, "sampling.top_p": {"inferenceConfig.topP"},
			"output.max_tokens": {"inferenceConfig.maxTokens"}, "reasoning": {"additionalModelRequestFields.thinking", "outputConfig.effort"}},
		ParameterContext: []string{"toolConfig", "messages"},
		Maker:            maker,
		SealMarks:        []string{`"signature"`, `"redactedContent"`},
		Finishes:         []string{"end_turn", "max_tokens", "tool_use", "stop_sequence"},
		NamesMalformed:   true,
		Overflow:         tooLong,
		NoComments:       true, // frames have none
		NewAssembler:     newAssembler,
		Headers:          codec.Headers{Vendor: "aws", Response: []string{"X-Amzn-Errortype"}, RequestID: "X-Amzn-Requestid"},
		Count:            counter(),
		Setup:            codec.Setup{SDK: "AWS", Variable: "AWS_ENDPOINT_URL_BEDROCK_RUNTIME"},
		Fields:           fields(),
	}
}

// locate reads the model and the verb from a request's path.
func locate(routes []codec.Route, req *http.Request) (codec.Location, bool, *llm.Error) {
	model, stream, ok := parsePath(req.URL.EscapedPath())
	if !ok {
		return codec.Location{}, false, nil
	}
	at := codec.Location{Route: &routes[0], URLPath: req.URL.EscapedPath(), Model: model, Stream: stream}
	if stream {
		at.Route = &routes[1]
	}
	return at, true, nil
}

// claims recognizes the vendor's SDKs by their paths.
func claims(req *http.Request) bool { return strings.HasPrefix(req.URL.Path, "/model/") }

// upstreamPath is the path of the target's model, which may come from the client's path.
func upstreamPath(at codec.Location, target protocol.Target, stream bool) (string, *llm.Error) {
	if at.Operation == codec.CountTokens {
		return countPath(target.Model)
	}
	return path(target.Model, stream)
}

// readHead takes model and stream flag from the path and the limit from inferenceConfig.
func readHead(at codec.Location, body *wire.Index) (codec.Head, *llm.Error) {
	head := codec.Head{Model: at.Model, Stream: at.Stream}
	if body.Raw("inferenceConfig").Kind() == '{' {
		if config, err := body.Object("inferenceConfig"); err == nil {
			head.MaxOutput = codec.MaxOutput(config.Raw("maxTokens"))
		}
	}
	return head, nil
}

// fields says where a request has the fields of the neutral model.
func fields() codec.Fields {
	return codec.Fields{Turns: "messages", System: "system", Parts: "content", Names: [][2]string{
		{"sampling.temperature", "inferenceConfig.temperature"}, {"sampling.top_p", "inferenceConfig.topP"}, {"sampling.top_k", "additionalModelRequestFields.top_k"}, {"sampling", "inferenceConfig"},
		{"output.max_tokens", "inferenceConfig.maxTokens"}, {"output.stops", "inferenceConfig.stopSequences"}, {"output.format", "outputConfig.textFormat"},
		{"reasoning.effort", "outputConfig.effort"}, {"reasoning.budget", "additionalModelRequestFields.thinking.budget_tokens"}, {"reasoning", "additionalModelRequestFields.thinking"},
		{"tools", "toolConfig.tools"}, {"tool_choice", "toolConfig.toolChoice"},
		{"identity.metadata", "requestMetadata"}, {"service.tier", "serviceTier"},
	}}
}
