package gemini

import (
	"strconv"
	"strings"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// EncodeRequest writes a request for an upstream.
func (Codec) EncodeRequest(req *llm.Request, target protocol.Target, report *llm.Report) (protocol.Outgoing, *llm.Error) {
	w := writer{req: req, target: target, report: report}
	if w.target.Model == "" {
		w.target.Model = req.Model
	}
	body := w.body()
	out := protocol.Outgoing{Names: w.names}
	verb := Generate
	if req.Stream {
		verb = StreamGenerate
	}
	out.Path = Path(target.Version, w.target.Model, verb)
	if err := report.Err(); err != nil {
		return out, err
	}
	b, err := requestShape.Marshal(body)
	if err != nil { // a number or a name in the neutral request that no JSON can hold
		return out, &llm.Error{Kind: llm.InvalidRequest, Code: "invalid_value", Message: err.Error(), Cause: err}
	}
	out.Body = b
	return out, nil
}

// writer turns a neutral request into a body.
type writer struct {
	req      *llm.Request
	target   protocol.Target
	report   *llm.Report
	names    map[string]llm.ToolRef
	contents []content
	ids      map[string]int           // how often a call's id has been sent
	sent     map[*llm.ToolCall]string // the id that a call was sent with, "" for none
	answered map[*llm.ToolResult]bool // results that stand behind their calls
	cached   bool                     // something was marked for the cache
	tooled   bool                     // tools are sent
}

// content is a content in the making.
type content struct {
	Content
	parts   []Part
	own     bool // it came from a client of this protocol, and is left as it was
	results bool // it holds results of functions
}

func at(list string, i int) string { return list + "[" + strconv.Itoa(i) + "]" }

func (w *writer) body() *Request {
	body := &Request{Extra: extra(w.req.Ext, "")}
	w.foreign()
	first := w.system(body)
	w.turns(first)
	contents := make([]Content, 0, len(w.contents))
	for i := range w.contents {
		c := &w.contents[i]
		c.Parts = listOf(c.parts)
		contents = append(contents, c.Content)
	}
	if len(contents) == 0 {
		w.report.Refuse("turns", "turns.empty", "there is nothing to answer; send a message of the user")
	}
	body.Contents = listOf(contents)
	if tools := w.tools(); len(tools) > 0 {
		body.Tools, w.tooled = listOf(tools), true
	}
	body.ToolConfig = w.toolChoice()
	body.GenerationConfig = w.generation()
	w.service(body)
	w.rest()
	return body
}

// system writes the system text before the first turn, and returns where the
// others begin.
func (w *writer) system(body *Request) int {
	var c Content
	var parts []Part
	i := 0
	for ; i < len(w.req.Turns); i++ {
		t := &w.req.Turns[i]
		if t.Role != llm.System && t.Role != llm.Developer {
			break
		}
		c.Extra = extra(t.Ext, "")
		for j, b := range t.Blocks {
			parts = append(parts, w.part(b, at("turns", i)+"."+at("blocks", j))...)
		}
	}
	if len(parts) > 0 {
		c.Parts = listOf(parts)
		body.SystemInstruction = wire.Some(c)
	}
	return i
}

func (w *writer) service(body *Request) {
	s := &w.req.Service
	switch s.Tier {
	case "", "auto":
	case "default", "standard":
		body.ServiceTier = wire.Some("standard")
	case "flex", "priority":
		body.ServiceTier = wire.Some(s.Tier)
	default:
		if w.req.Ext.Protocol == own {
			body.ServiceTier = wire.Some(s.Tier)
		} else {
			w.report.Drop("service.tier", "tier.unsupported", "there is no such tier")
		}
	}
	if s.Speed == "fast" {
		w.report.Approximate("service.speed", "speed.as_tier", "the priority tier is the nearest")
		body.ServiceTier = wire.Some("priority")
	}
	store := w.req.State.Store
	switch {
	case store == nil:
	case w.req.Ext.Protocol == own:
		body.Store = wire.Some(*store)
	case *store:
		w.report.Drop("state.store", "store.unsupported", "an answer cannot be kept for later requests")
	}
}

// rest reports what this protocol has no place for.
func (w *writer) rest() {
	r := w.req
	drop := func(lost bool, path, code, note string) {
		if lost {
			w.report.Drop(path, code, note)
		}
	}
	refuse := func(lost bool, path, code, note string) {
		if lost {
			w.report.Refuse(path, code, note)
		}
	}
	drop(w.cached, "cache", "cache.mark", "the API caches by itself and takes no marks")
	drop(r.Cache.Auto != nil, "cache.auto", "cache.automatic", "the API caches by itself")
	drop(r.Cache.Key != "", "cache.key", "cache.key_unsupported", "there is no cache key")
	drop(r.Cache.Retention != "", "cache.retention", "cache.retention_unsupported", "there is no such setting")
	drop(r.Identity.User != "", "identity.user", "user.dropped", "there is no place for the user's id")
	drop(r.Identity.SafetyID != "", "identity.safety_id", "user.dropped", "there is no place for the user's id")
	drop(len(r.Identity.Metadata) > 0, "identity.metadata", "metadata.unsupported", "there is no place for metadata")
	drop(r.State.Truncation == "auto", "state.truncation", "truncation.unsupported", "nothing is cut off by itself")
	refuse(r.State.PreviousID != "", "state.previous_id", "state.previous_response", "send the whole conversation; the upstream keeps none")
	refuse(r.State.Conversation != "", "state.conversation", "state.conversation", "send the whole conversation; the upstream keeps none")
	refuse(r.State.Background != nil && *r.State.Background, "state.background", "state.background", "there is no background mode")
	names := protocol.Lost(r.Ext, protocol.Gemini)
	drop(len(names) > 0, "ext", "ext.unknown_field", strings.Join(names, ", "))
}
