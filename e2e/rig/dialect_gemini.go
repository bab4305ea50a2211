package rig

import (
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

func geminiModels(ids []string) string {
	var models []any
	for _, id := range ids {
		models = append(models, report{"name": "models/" + id, "displayName": id, "supportedGenerationMethods": []string{"generateContent"}})
	}
	return testrig.Compact(report{"models": models})
}

func geminiAsked(rec *Received) Facts {
	o := testrig.Parse(rec.Body)
	_, model, _ := strings.Cut(rec.Path(), "/models/")
	model, verb, _ := strings.Cut(model, ":")
	var f Facts
	if whole := o.Obj("generateContentRequest"); verb == "countTokens" && whole != nil {
		f.checkGeminiCount(o)
		o = whole
	}
	config := o.Obj("generationConfig")
	f.Model, f.Stream, f.Counts, f.MaxTokens = model, verb == "streamGenerateContent", verb == "countTokens", config.Num("maxOutputTokens")
	f.System = o.Obj("systemInstruction").Text("parts")
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
	if f.Stream && !strings.Contains(rec.URI, "alt=sse") {
		f.Wrong = append(f.Wrong, "a stream that is not asked for as events")
	}
	return f
}

func (f *Facts) geminiTurn(h *history, content testrig.Object) {
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
			h.call(call.Str("id"), call.Str("name"), testrig.Compact(call["args"]))
		case result != nil:
			h.result(f, result.Str("id"), testrig.Compact(geminiResult(result)))
		}
	}
}

// geminiResult returns the result of a tool. The AI SDK puts it beside the tool's name.
func geminiResult(result testrig.Object) any {
	response := result.Obj("response")
	if content, ok := response["content"]; ok && len(response) == 2 && response.Str("name") == result.Str("name") {
		return content
	}
	return result["response"]
}
