package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

func geminiDialect() *dialect {
	return &dialect{
		name: "gemini", prefix: "/gemini", target: "gemini-3-pro", seal: geminiSignature, counted: fmt.Sprintf(`{"totalTokens":%d}`, tokensCounted), key: "X-Goog-Api-Key", keyValue: upstreamKey,
		whole: geminiWhole, stream: geminiStream, problem: geminiProblem, models: geminiModels, asked: geminiAsked,
	}
}

// geminiSignature comes with the first call of a turn and has to come back with it.
const geminiSignature = "c2lnLWNhbGw="

func geminiParts(r reply, each bool) []any {
	var parts []any
	add := func(pieces []string, more report) {
		if !each && len(pieces) > 0 {
			pieces = []string{strings.Join(pieces, "")}
		}
		for _, p := range pieces {
			parts = append(parts, merge(report{"text": p}, more))
		}
	}
	add(r.thought, report{"thought": true})
	add(r.text, report{})
	for i, c := range r.calls {
		part := report{"functionCall": report{"name": c.name, "args": json.RawMessage(c.json())}}
		if i == 0 {
			part["thoughtSignature"] = geminiSignature
		}
		parts = append(parts, part)
	}
	return parts
}

func geminiAnswer(parts []any, finish string) report {
	candidate := report{"index": 0, "content": report{"role": "model", "parts": parts}}
	if finish != "" {
		candidate["finishReason"] = finish
	}
	return report{
		"candidates": []any{candidate}, "modelVersion": "gemini-3-pro-0001", "responseId": "r-1",
		"usageMetadata": report{
			"promptTokenCount": tokensIn, "cachedContentTokenCount": tokensCached, "candidatesTokenCount": tokensOut - tokensThought,
			"thoughtsTokenCount": tokensThought, "totalTokenCount": tokensIn + tokensOut,
		},
	}
}

func geminiWhole(r reply) string { return compact(geminiAnswer(geminiParts(r, false), "STOP")) }

func geminiStream(r reply) []string {
	var out []string
	parts := geminiParts(r, true)
	for i, p := range parts {
		finish := ""
		if i == len(parts)-1 {
			finish = "STOP"
		}
		out = append(out, sseData(geminiAnswer([]any{p}, finish)))
	}
	return out
}

func geminiProblem(status int, message string) string {
	names := map[int]string{404: "NOT_FOUND", 429: "RESOURCE_EXHAUSTED"}
	details := []any{}
	if status == http.StatusTooManyRequests {
		details = append(details, report{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "7s"})
	}
	return compact(report{"error": report{"code": status, "message": message, "status": names[status], "details": details}})
}

func geminiModels(ids []string) string {
	var models []any
	for _, id := range ids {
		models = append(models, report{"name": "models/" + id, "displayName": id, "supportedGenerationMethods": []string{"generateContent"}})
	}
	return compact(report{"models": models})
}

func geminiAsked(rec *received) facts {
	o := parse(rec.body)
	_, model, _ := strings.Cut(rec.path(), "/models/")
	model, verb, _ := strings.Cut(model, ":")
	config := o.obj("generationConfig")
	f := facts{Model: model, Stream: verb == "streamGenerateContent", MaxTokens: config.num("maxOutputTokens")}
	f.System = strings.Join(o.obj("systemInstruction").texts("parts"), "")
	thinking := config.obj("thinkingConfig")
	f.Thinking = thinking.flag("includeThoughts") || thinking.flag("include_thoughts")
	for _, t := range o.list("tools") {
		for _, d := range t.list("functionDeclarations") {
			f.Tools = append(f.Tools, d.str("name"))
		}
	}
	schema := config.obj("responseJsonSchema")
	if schema == nil {
		schema = config.obj("responseSchema") // whose types may be in upper case
	}
	f.Schema = properties(schema)
	for name, kind := range f.Schema {
		f.Schema[name] = strings.ToLower(kind)
	}
	var h history
	for _, c := range o.list("contents") {
		f.geminiTurn(&h, c)
	}
	f.Results = h.pairs(&f)
	if f.Stream && !strings.Contains(rec.target, "alt=sse") {
		f.Wrong = append(f.Wrong, "a stream that is not asked for as events")
	}
	return f
}

func (f *facts) geminiTurn(h *history, content object) {
	if content.str("role") != "model" {
		f.User = append(f.User, content.texts("parts")...)
	}
	calls := 0
	for _, p := range content.list("parts") {
		inline := p.obj("inlineData")
		call, result := p.obj("functionCall"), p.obj("functionResponse")
		switch {
		case inline != nil:
			// Google takes both spellings of a name and both alphabets, and its SDK for Python
			// uses the ones that its documentation does not.
			data := strings.NewReplacer("-", "+", "_", "/").Replace(inline.str("data"))
			f.Images = append(f.Images, inline.str("mimeType")+inline.str("mime_type")+" "+data)
		case call != nil:
			if calls == 0 && p.str("thoughtSignature") == "" {
				f.Wrong = append(f.Wrong, "Function call is missing a thought_signature")
			}
			f.Seal += p.str("thoughtSignature")
			calls++
			h.call(call.str("id"), call.str("name"), compact(call["args"]))
		case result != nil:
			h.result(f, result.str("id"), compact(result["response"]))
		}
	}
}
