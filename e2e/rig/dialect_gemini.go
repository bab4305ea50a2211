package rig

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

func geminiDialect() *Dialect {
	return &Dialect{
		Name: "gemini", Prefix: "/gemini", Target: "gemini-3-pro", Seal: geminiSignature, Counted: fmt.Sprintf(`{"totalTokens":%d}`, TokensCounted), Key: "X-Goog-Api-Key", KeyValue: UpstreamKey,
		Whole: geminiWhole, Stream: geminiStream, Problem: geminiProblem, Models: geminiModels, Asked: geminiAsked,
	}
}

// geminiSignature comes with the first call of a turn and has to come back with it.
const geminiSignature = "c2lnLWNhbGw="

func geminiParts(r Reply, each bool) []any {
	var parts []any
	add := func(pieces []string, more report) {
		if !each && len(pieces) > 0 {
			pieces = []string{strings.Join(pieces, "")}
		}
		for _, p := range pieces {
			parts = append(parts, merge(report{"text": p}, more))
		}
	}
	add(r.Thought, report{"thought": true})
	add(r.Text, report{})
	for i, c := range r.Calls {
		part := report{"functionCall": report{"name": c.Flat(), "args": json.RawMessage(c.JSON())}}
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
			"promptTokenCount": TokensIn, "cachedContentTokenCount": TokensCached, "candidatesTokenCount": TokensOut - TokensThought,
			"thoughtsTokenCount": TokensThought, "totalTokenCount": TokensIn + TokensOut,
		},
	}
}

func geminiWhole(r Reply) string { return Compact(geminiAnswer(geminiParts(r, false), "STOP")) }

func geminiStream(r Reply) []string {
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
	return Compact(report{"error": report{"code": status, "message": message, "status": names[status], "details": details}})
}

func geminiModels(ids []string) string {
	var models []any
	for _, id := range ids {
		models = append(models, report{"name": "models/" + id, "displayName": id, "supportedGenerationMethods": []string{"generateContent"}})
	}
	return Compact(report{"models": models})
}

func geminiAsked(rec *Received) Facts {
	o := Parse(rec.Body)
	_, model, _ := strings.Cut(rec.Path(), "/models/")
	model, verb, _ := strings.Cut(model, ":")
	config := o.Obj("generationConfig")
	f := Facts{Model: model, Stream: verb == "streamGenerateContent", MaxTokens: config.Num("maxOutputTokens")}
	f.System = strings.Join(o.Obj("systemInstruction").Texts("parts"), "")
	thinking := config.Obj("thinkingConfig")
	f.Thinking = thinking.Flag("includeThoughts") || thinking.Flag("include_thoughts")
	for _, t := range o.List("tools") {
		for _, d := range t.List("functionDeclarations") {
			f.Tools = append(f.Tools, d.Str("name"))
		}
	}
	f.Forced = o.Obj("toolConfig").Obj("functionCallingConfig").Str("mode") == "ANY"
	schema := config.Obj("responseJsonSchema")
	if schema == nil {
		schema = config.Obj("responseSchema") // whose types may be in upper case
	}
	f.Schema = properties(schema)
	for name, kind := range f.Schema {
		f.Schema[name] = strings.ToLower(kind)
	}
	var h history
	for _, c := range o.List("contents") {
		f.geminiTurn(&h, c)
	}
	f.Results = h.pairs(&f)
	f.checkNames(`^[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}$`)
	f.checkGeminiTools(o)
	f.checkGeminiTurns(o.List("contents"))
	if f.Stream && !strings.Contains(rec.Target, "alt=sse") {
		f.Wrong = append(f.Wrong, "a stream that is not asked for as events")
	}
	return f
}

func (f *Facts) geminiTurn(h *history, content Object) {
	if content.Str("role") != "model" {
		f.User = append(f.User, content.Texts("parts")...)
	} else {
		f.Said = append(f.Said, content.Texts("parts")...)
	}
	calls := 0
	for _, p := range content.List("parts") {
		inline := p.Obj("inlineData")
		call, result := p.Obj("functionCall"), p.Obj("functionResponse")
		switch {
		case inline != nil:
			// Google takes both spellings of a name and both alphabets, and its SDK for Python
			// uses the ones that its documentation does not.
			data := strings.NewReplacer("-", "+", "_", "/").Replace(inline.Str("data"))
			f.Images = append(f.Images, inline.Str("mimeType")+inline.Str("mime_type")+" "+data)
		case call != nil:
			if calls == 0 && p.Str("thoughtSignature") == "" {
				f.Wrong = append(f.Wrong, "Function call is missing a thought_signature")
			}
			f.Seal += p.Str("thoughtSignature")
			calls++
			h.call(call.Str("id"), call.Str("name"), Compact(call["args"]))
		case result != nil:
			h.result(f, result.Str("id"), Compact(geminiResult(result)))
		}
	}
}

// geminiResult is what a tool gave. The AI SDK puts it beside the tool's name.
func geminiResult(result Object) any {
	response := result.Obj("response")
	if content, ok := response["content"]; ok && len(response) == 2 && response.Str("name") == result.Str("name") {
		return content
	}
	return result["response"]
}
