package anthropic

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// Dialect describes the protocol to the gateway.
func Dialect() *codec.Dialect {
	own := Codec{}
	routes := []codec.Route{
		{Name: "messages", Operation: codec.Generate, Path: messagesPath, Span: "chat", Cacheable: cacheable()},
		{Name: "count_tokens", Operation: codec.CountTokens, Path: countPath, Cacheable: &codec.CacheRule{}},
		{Name: "models", Operation: codec.ListModels, Path: "/v1/models", Models: &codec.ModelList{List: listModels, One: listedModel}},
	}
	clouds := &locator{messages: &routes[0], count: &routes[1], vertex: vertexEnvelope(), bedrock: bedrockEnvelope()}
	return &codec.Dialect{
		Name:           protocol.Anthropic,
		Codec:          own,
		Routes:         routes,
		Locate:         clouds.locate,
		Envelopes:      []*codec.Envelope{clouds.vertex, clouds.bedrock},
		Claims:         claims,
		Setup:          codec.Setup{SDK: "Anthropic", Variable: "ANTHROPIC_BASE_URL"},
		Fields:         fields(),
		UpstreamModels: &codec.ModelSource{Path: "/v1/models?limit=1000", Read: readModels},
		Members:        []string{"model", "stream", "max_tokens"},
		Read:           readHead,
		Labels:         codec.Labels{Users: []string{"metadata.user_id"}, Tags: "tags"},
		SetModel:       codec.SetMember("model"),
		SetStream:      codec.SetTrue("stream"),
		Prompt:         codec.Prompt{System: "system", Tools: "tools", Turns: "messages"},
		Parameters: map[string][]string{"sampling.temperature": {"temperature"}, "sampling.top_p": {"top_p"},
			"output.max_tokens": {"max_tokens"}, "reasoning": {"thinking", "output_config.effort"}},
		ParameterContext: []string{"top_k", "tools", "tool_choice", "messages"}, // a model that thinks accepts not all of them
		SealMarks:        []string{`"signature"`, `"redacted_thinking"`},
		Finishes:         []string{"end_turn", "max_tokens", "tool_use", "stop_sequence"},
		Overflow:         tooLong,
		Ping:             []byte(ping),
		NewAssembler:     newAssembler,
		Versions:         versions(),
		Headers: codec.Headers{
			Vendor: "anthropic",
			Request: []codec.RequestHeader{
				{Name: "Anthropic-Version", Default: Versions()[0].Name}, // the vendor rejects a request without it
				{Name: "Anthropic-Beta", Beta: true, Loss: "header.anthropic_beta"},
				{Name: "Anthropic-User-Profile-Id", Loss: "header.anthropic_user_profile_id"},
				{Name: "Anthropic-Workspace-Id", Loss: "header.anthropic_workspace_id"},
			},
			RateLimits:    []string{limitPrefix, "Anthropic-Priority-"},
			SetRateLimits: setRateLimits,
			RequestID:     "Request-Id",
		},
		Agent:      agent(),
		VendorHost: "api.anthropic.com",
		CheckState: checkThread,
		State:      vendorState(),
		Count: &codec.Counter{DecodeRequest: own.DecodeCountRequest, EncodeRequest: own.EncodeCountRequest,
			DecodeResponse: own.DecodeCount, EncodeResponse: own.EncodeCount},
	}
}

func readHead(_ codec.Location, body *wire.Index) (codec.Head, *llm.Error) {
	head, err := codec.ReadModel(body, "model", "stream")
	head.MaxOutput = codec.MaxOutput(body.Raw("max_tokens"))
	head.SideEffects = body.Raw("thread") != nil
	head.Inner = codec.FindModels(body, "fallbacks", "tools[].model", "compaction.model", "context_management.edits[].model")
	for i := range head.Inner {
		if m := &head.Inner[i]; m.Param == "fallbacks" && m.Name == "default" {
			m.Name = codec.AnyModel
		}
	}
	return head, err
}

// claims recognizes the vendor's SDKs by the headers that they always send.
func claims(req *http.Request) bool {
	return req.Header.Get(VersionHeader) != "" || req.Header.Get("Anthropic-Beta") != ""
}

// checkThread rejects a request that continues a thread. The vendor's SDKs then send the
// whole conversation.
func checkThread(body *wire.Index) *llm.Error {
	if body.Raw("thread") == nil {
		return nil
	}
	e := errThread
	return &e
}

func versions() *codec.Versions {
	v := &codec.Versions{Header: "Anthropic-Version", Check: CheckVersion}
	for _, known := range Versions() {
		v.Known = append(v.Known, codec.Version{Name: known.Name, NoSampling: !known.Sampling})
	}
	return v
}

// listModels writes the list as one page that is the last.
func listModels(models []codec.Model) []byte {
	if len(models) == 0 {
		return []byte(`{"data":[],"has_more":false,"first_id":null,"last_id":null}`)
	}
	b := []byte(`{"data":[`)
	for i, m := range models {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, listedModel(m)...)
	}
	b = wire.AppendQuote(append(b, `],"has_more":false,"first_id":`...), models[0].ID)
	b = wire.AppendQuote(append(b, `,"last_id":`...), models[len(models)-1].ID)
	return append(b, '}')
}

func listedModel(m codec.Model) []byte {
	b := wire.AppendQuote([]byte(`{"type":"model","id":`), m.ID)
	b = wire.AppendQuote(append(b, `,"display_name":`...), cmp.Or(m.Name, m.ID))
	b = wire.AppendQuote(append(b, `,"created_at":`...), m.Created.UTC().Format(time.RFC3339))
	if m.Context > 0 {
		b = strconv.AppendInt(append(b, `,"max_input_tokens":`...), m.Context, 10)
	}
	if m.MaxOutput > 0 {
		b = strconv.AppendInt(append(b, `,"max_tokens":`...), m.MaxOutput, 10)
	}
	if len(m.Capabilities) > 0 {
		b = append(b, `,"capabilities":{`...)
		for i, c := range codec.Capabilities() {
			if i > 0 {
				b = append(b, ',')
			}
			b = strconv.AppendBool(append(wire.AppendQuote(b, string(c)), `:{"supported":`...), slices.Contains(m.Capabilities, c))
			b = append(b, '}')
		}
		b = append(b, '}')
	}
	if !m.Shutdown.IsZero() {
		b = wire.AppendQuote(append(b, `,"lifecycle":"deprecated","retires_at":`...), m.Shutdown.UTC().Format(time.RFC3339))
	}
	return append(b, '}')
}

func readModels(body []byte) ([]codec.Model, error) {
	entries, err := codec.ReadModelList(body, "data")
	if err != nil {
		return nil, err
	}
	list := make([]codec.Model, 0, len(entries))
	for _, e := range entries {
		m := codec.Model{ID: e.Text("id"), Name: e.Text("display_name"), Created: e.Time("created_at"), Context: e.Int("max_input_tokens"), MaxOutput: e.Int("max_tokens"), Shutdown: e.Time("retires_at")}
		if e.Text("lifecycle") == "retired" {
			continue
		}
		own := e.Object("capabilities")
		for _, c := range codec.Capabilities() {
			if own.Object(string(c)).True("supported") || c == codec.Tools && own != nil { // every model of the vendor has tools
				m.Capabilities = append(m.Capabilities, c)
			}
		}
		list = append(list, m)
	}
	return list, nil
}

// cacheable returns the rule for messages. container and mcp_servers are not in it,
// because they run something at the vendor.
func cacheable() *codec.CacheRule {
	members := codec.AllowMembers(map[string]codec.MemberRule{"temperature": codec.OnlyZero, "tools": codec.OnlyClientTools},
		"model", "messages", "system", "max_tokens", "top_p", "top_k", "stop_sequences", "stream", "tool_choice", "metadata",
		"service_tier", "thinking", "output_config", "output_format", "cache_control")
	return &codec.CacheRule{Members: members, Required: []string{"temperature"}}
}

// fields says where a request has the fields of the neutral model.
func fields() codec.Fields {
	return codec.Fields{Turns: "messages", System: "system", Parts: "content", Names: [][2]string{
		{"sampling.temperature", "temperature"}, {"sampling.top_p", "top_p"}, {"sampling.top_k", "top_k"}, {"sampling", "temperature"},
		{"output.max_tokens", "max_tokens"}, {"output.stops", "stop_sequences"}, {"output.format", "output_config.format"},
		{"reasoning.effort", "output_config.effort"}, {"reasoning.budget", "thinking.budget_tokens"}, {"reasoning.show", "thinking.display"}, {"reasoning.mode", "thinking.type"}, {"reasoning", "thinking"},
		{"cache", "cache_control"}, {"cache.auto", "cache_control"}, {"identity.user", "metadata.user_id"}, {"identity.metadata", "metadata"},
		{"service.tier", "service_tier"}, {"service.speed", "speed"}, {"parallel", "tool_choice.disable_parallel_tool_use"},
	}}
}
