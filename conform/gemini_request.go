package conform

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// gemini is Gemini generateContent.
type gemini struct{ limits }

func (gemini) credential(h http.Header, key string) { h.Set("X-Goog-Api-Key", key) }

func (v gemini) writeRequest(a Request, _ string, _ bool) []byte {
	a = v.fitRequest(a)
	o := object{}
	turns := a.Turns
	var system []any
	for len(turns) > 0 && turns[0].Role == "system" {
		system = append(system, object{"text": joined(turns[0].Pieces, kindText)})
		turns = turns[1:]
	}
	if system != nil {
		o["systemInstruction"] = object{"parts": system}
	}
	o["contents"] = v.contents(turns)
	c := object{}
	number(c, "maxOutputTokens", a.Max)
	number(c, "temperature", a.Temperature)
	number(c, "topP", a.TopP)
	number(c, "topK", a.TopK)
	number(c, "seed", a.Seed)
	number(c, "frequencyPenalty", a.Frequency)
	number(c, "presencePenalty", a.Presence)
	number(c, "candidateCount", a.Choices)
	setIf(len(a.Stop) > 0, c, "stopSequences", a.Stop)
	setIf(a.Reasoning != "", c, "thinkingConfig", object{"includeThoughts": true, "thinkingLevel": strings.ToUpper(a.Reasoning)})
	if a.Format != nil {
		c["responseMimeType"], c["responseJsonSchema"] = "application/json", raw(a.Format.Schema)
	}
	setIf(len(c) > 0, o, "generationConfig", c)
	tools := make([]any, 0, len(a.Tools))
	for _, t := range a.Tools {
		d := object{"name": t.Name, "description": t.About}
		setIf(t.Schema != "", d, "parametersJsonSchema", raw(t.Schema))
		tools = append(tools, d)
	}
	setIf(len(tools) > 0, o, "tools", []any{object{"functionDeclarations": tools}})
	if m := map[string]string{"auto": "AUTO", "none": "NONE", "required": "ANY"}[a.Choice]; m != "" {
		o["toolConfig"] = object{"functionCallingConfig": object{"mode": m}}
	} else if a.Choice != "" {
		o["toolConfig"] = object{"functionCallingConfig": object{"mode": "ANY", "allowedFunctionNames": []string{a.Choice}}}
	}
	return encode(o)
}

func (v gemini) contents(turns []Turn) []any {
	list := []any{}
	names := map[int]string{}
	lastRole := ""
	for _, t := range turns {
		role := map[string]string{"assistant": "model"}[t.Role]
		if role == "" {
			role = "user"
		}
		var parts []any
		if l, ok := t.echo.([]any); ok {
			parts = l
		}
		for _, p := range inCallOrder(t.Pieces) {
			if p.Kind == kindCall {
				names[p.number] = p.Name
			}
			if p.Kind == kindResult && p.Name == "" {
				p.Name = names[p.number]
			}
			if t.echo == nil {
				parts = append(parts, v.part(p))
			}
		}
		if role == lastRole && t.Role != "tool" {
			last, _ := list[len(list)-1].(object)
			old, _ := last["parts"].([]any)
			if first, _ := old[0].(object); first["functionResponse"] == nil {
				last["parts"] = append(old, parts...)
				continue
			}
		}
		lastRole = role
		list = append(list, object{"role": role, "parts": parts})
	}
	return list
}

// inCallOrder sorts results by their calls. Without ids only the order assigns them.
func inCallOrder(pieces []Piece) []Piece {
	out := slices.Clone(pieces)
	slices.SortStableFunc(out, func(a, b Piece) int {
		if a.Kind != kindResult || b.Kind != kindResult {
			return 0
		}
		return a.number - b.number
	})
	return out
}

func (v gemini) part(p Piece) object {
	o := object{}
	switch p.Kind {
	case kindThink:
		o["text"], o["thought"] = p.Text, true
	case kindImage, kindDocument:
		if p.Image.Type == "" {
			kind := "application/pdf"
			if p.Kind == kindImage {
				kind = "image/png"
			}
			o["fileData"] = object{"fileUri": p.Image.Data, "mimeType": kind}
			break
		}
		f := object{"mimeType": p.Image.Type, "data": p.Image.Data}
		setIf(p.Name != "", f, "displayName", p.Name)
		o["inlineData"] = f
	case kindCall:
		f := object{"name": p.Name, "args": raw(p.Args)}
		setIf(p.ID != "", f, "id", p.ID)
		o["functionCall"] = f
	case kindResult:
		key := "output"
		if p.Failed {
			key = "error"
		}
		f := object{"name": p.Name, "response": object{key: p.Text}}
		setIf(p.Missing, f, "response", object{})
		setIf(p.ID != "", f, "id", p.ID)
		media := make([]any, 0, len(p.Images))
		for _, i := range p.Images {
			media = append(media, object{"inlineData": object{"mimeType": i.Type, "data": i.Data}})
		}
		setIf(len(media) > 0, f, "parts", media)
		o["functionResponse"] = f
	default:
		o["text"] = p.Text
	}
	setIf(p.Sig != "", o, "thoughtSignature", p.Sig)
	return o
}

var (
	geminiFields = strings.Fields(`contents systemInstruction tools toolConfig safetySettings cachedContent generationConfig serviceTier
		store continuationToken labels modelArmorConfig`)
	geminiConfigFields = strings.Fields(`temperature topP topK candidateCount maxOutputTokens stopSequences seed presencePenalty
		frequencyPenalty responseLogprobs logprobs responseMimeType responseSchema responseJsonSchema responseModalities speechConfig
		imageConfig mediaResolution thinkingConfig audioTimestamp routingConfig enableEnhancedCivicAnswers audioTranscriptionConfig responseFormat`)
	geminiToolName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.:-]{0,127}$`)
	geminiData     = strings.Fields("text inlineData fileData functionCall functionResponse executableCode codeExecutionResult toolCall toolResponse")
)

func (v gemini) readRequest(body []byte, h http.Header, path string) Received {
	out, o := v.open(body, h.Get("X-Goog-Api-Key")+h.Get("Authorization") != "", strings.HasSuffix(path, ":countTokens"))
	bad := &out.Problems
	out.Stream = strings.Contains(path, ":streamGenerateContent")
	_, rest, _ := strings.Cut(path, "/models/")
	out.Model, _, _ = strings.Cut(rest, ":")
	c := inCamelCase(o.at("generationConfig"))
	bad.unknown(c, geminiConfigFields, "generationConfig.")
	out.Max, out.Temperature, out.TopP = c.at("maxOutputTokens").number(), c.at("temperature").number(), c.at("topP").number()
	out.TopK, out.Seed, out.Choices = c.at("topK").number(), c.at("seed").number(), c.at("candidateCount").number()
	out.Frequency, out.Presence = c.at("frequencyPenalty").number(), c.at("presencePenalty").number()
	if out.Choices == "1" {
		out.Choices = ""
	}
	out.Stop = oneOrMany(c.at("stopSequences"))
	bad.addIf(len(out.Stop) > 5, "%d stop sequences, at most 5", len(out.Stop))
	t := inCamelCase(c.at("thinkingConfig"))
	bad.addIf(t.at("thinkingLevel").here && t.at("thinkingBudget").here, "thinkingLevel and thinkingBudget together")
	if t.isObject() && t.at("thinkingBudget").number() != "0" {
		out.Reasoning = "on"
		if level := t.at("thinkingLevel").str(); level != "" {
			out.Reasoning = strings.ToLower(level)
		}
	}
	v.readFormat(c, out, bad)
	v.readTools(o, out, bad)
	for _, p := range o.at("systemInstruction", "parts").list() {
		out.Turns = append(out.Turns, Turn{Role: "system", Pieces: []Piece{{Kind: kindText, Text: p.at("text").str()}}})
	}
	v.readContents(o.at("contents").list(), out, bad)
	return *out
}

func (gemini) readFormat(c value, out *Received, bad *problemList) {
	s := c.at("responseJsonSchema")
	if !s.here {
		s = c.at("responseSchema")
	}
	if s.here {
		out.Format = &Format{Schema: s.String()}
		bad.addIf(c.at("responseMimeType").str() != "application/json", "a response schema without responseMimeType application/json")
	}
}

func (gemini) readTools(o value, out *Received, bad *problemList) {
	vendors := false // there are server tools
	for _, t := range o.at("tools").list() {
		vendors = vendors || !t.at("functionDeclarations").here
		for _, d := range t.at("functionDeclarations").list() {
			d = inCamelCase(d)
			tool := Tool{Name: d.at("name").str(), About: d.at("description").str()}
			if s := d.at("parametersJsonSchema"); s.here {
				tool.Schema = s.String()
			} else if s := d.at("parameters"); s.here {
				tool.Schema = s.String()
				checkOpenAPI(s, "parameters of "+tool.Name, bad)
			}
			checkTool(tool, geminiToolName, out.Tools, bad)
			out.Tools = append(out.Tools, tool)
		}
	}
	if vendors && len(out.Tools) > 0 && !o.at("toolConfig", "includeServerSideToolInvocations").yes() {
		bad.add("the vendor's tools beside functions, without includeServerSideToolInvocations")
	}
	f := o.at("toolConfig", "functionCallingConfig")
	mode := f.at("mode").str()
	out.Choice = map[string]string{"AUTO": "auto", "NONE": "none", "ANY": "required", "VALIDATED": "auto"}[mode]
	if names := oneOrMany(f.at("allowedFunctionNames")); mode == "ANY" && len(names) == 1 {
		out.Choice = names[0]
	}
	bad.addIf(mode != "" && out.Choice == "", "functionCallingConfig.mode is %q", mode)
}

var openAPIKeywords = strings.Fields(`type format title description nullable default items minItems maxItems enum properties
	propertyOrdering required minProperties maxProperties minimum maximum minLength maxLength pattern example anyOf`)

// checkOpenAPI checks the OpenAPI subset that the member parameters accepts (GEM-22).
func checkOpenAPI(s value, at string, bad *problemList) {
	for _, name := range s.names() {
		bad.addIf(!slices.Contains(openAPIKeywords, name), "%s: the keyword %s is not in the subset (GEM-22)", at, name)
	}
	bad.addIf(s.at("type").here && !s.at("type").isString(), "%s: type is %s (GEM-24)", at, s.at("type"))
	for _, name := range s.at("properties").names() {
		checkOpenAPI(s.at("properties", name), at+"."+name, bad)
	}
	if s.at("items").isObject() {
		checkOpenAPI(s.at("items"), at+"[]", bad)
	}
	for _, sub := range s.at("anyOf").list() {
		checkOpenAPI(sub, at+"|", bad)
	}
}

func (v gemini) readContents(list []value, out *Received, bad *problemList) {
	bad.addIf(len(list) == 0 || list[0].at("role").str() == "model", "no contents, or the first is the model's")
	before := ""
	var open []Piece
	for i, c := range list {
		role := c.at("role").str()
		bad.addIf(role != "user" && role != "model" || role == before, "contents[%d]: role %q after %q (CRQ-12)", i, role, before)
		var pieces []Piece
		for _, p := range c.at("parts").list() {
			piece := v.readPart(requestPart(p), role, bad)
			bad.addIf(piece.Kind == kindCall && !geminiToolName.MatchString(piece.Name), "a functionCall that is not one: %s", p)
			pieces = append(pieces, piece)
		}
		bad.addIf(len(pieces) == 0, "contents[%d] has no parts (GEM-28)", i)
		results := ofKind(pieces, kindResult)
		if len(results) != len(open) || len(open) > 0 && len(pieces) != len(results) {
			bad.add("contents[%d]: %d calls, then %d results among %d parts (GEM-05)", i, len(open), len(results), len(pieces))
		}
		for n := range results {
			// A result without an id belongs to the call in its place: Google's SDK for Python sends such.
			if n < len(open) && (results[n].Name != open[n].Name || results[n].ID != "" && results[n].ID != open[n].ID) {
				bad.add("contents[%d]: result %d is for %s %q, the call was %s %q (GEM-04)", i, n, results[n].Name, results[n].ID, open[n].Name, open[n].ID)
			}
		}
		open = ofKind(pieces, kindCall)
		bad.addIf(strings.Contains(out.Model, "gemini-3") && len(open) > 0 && open[0].Sig == "", "contents[%d]: the first call has no thoughtSignature", i)
		if before = role; len(results) > 0 {
			before = "results" // text of the user follows in a separate content
		}
		neutral := map[string]string{"model": "assistant"}[role]
		if neutral == "" {
			neutral = "user"
			if len(results) > 0 {
				neutral = "tool"
			}
		}
		out.Turns = append(out.Turns, Turn{Role: neutral, Pieces: pieces})
	}
	bad.addIf(len(open) > 0, "%d calls at the end have no results", len(open))
	pairByOrder(out.Turns)
}

// pairByOrder gives calls without ids new ids, and results the ids of their calls by order.
func pairByOrder(turns []Turn) {
	var calls []string
	n := 0
	for _, t := range turns {
		for i := range t.Pieces {
			p := &t.Pieces[i]
			switch {
			case p.Kind == kindCall:
				if p.ID == "" {
					n++
					p.ID = fmt.Sprintf("by order %d", n)
				}
				calls = append(calls, p.ID)
			case p.Kind == kindResult && len(calls) > 0:
				if p.ID == "" {
					p.ID = calls[0]
				}
				calls = calls[1:]
			}
		}
	}
}

// readPart reads a part of a message. A call has any name: a response has the names of its client.
func (gemini) readPart(p value, role string, bad *problemList) Piece {
	data := 0
	for _, name := range geminiData {
		if p.at(name).here {
			data++
		}
	}
	bad.addIf(data != 1, "a part with %d data members: %.120s", data, p)
	out := Piece{Kind: kindText, Text: p.at("text").str(), Sig: p.at("thoughtSignature").str()}
	switch {
	case p.at("thought").yes():
		out.Kind = kindThink
	case p.at("inlineData").here:
		out.Kind, out.Image = kindImage, Image{p.at("inlineData", "mimeType").str(), p.at("inlineData", "data").str()}
		if !strings.HasPrefix(out.Image.Type, "image/") {
			out.Kind, out.Name = kindDocument, p.at("inlineData", "displayName").str()
		}
	case p.at("fileData").here:
		out.Kind, out.Image = kindImage, Image{Data: p.at("fileData", "fileUri").str()}
		if strings.HasSuffix(out.Image.Data, ".pdf") {
			out.Kind = kindDocument
		}
	case p.at("functionCall").here:
		f := p.at("functionCall")
		out.Kind, out.ID, out.Name, out.Args = kindCall, f.at("id").str(), f.at("name").str(), f.at("args").String()
		bad.addIf(out.Name == "" || f.at("args").here && !f.at("args").isObject() || role != "model", "a functionCall that is not one: %s", f)
		if !f.at("args").here {
			out.Args = "{}"
		}
	case p.at("functionResponse").here:
		f := p.at("functionResponse")
		out.Kind, out.ID, out.Name = kindResult, f.at("id").str(), f.at("name").str()
		bad.addIf(!f.at("response").isObject() || out.Name == "" || role != "user", "a functionResponse that is not one: %s", f)
		out.Failed = f.at("response", "error").here
		out.Text = f.at("response").String()
		if names := f.at("response").names(); len(names) == 0 {
			out.Text, out.Missing = "", true
		} else if len(names) == 1 && slices.Contains([]string{"output", "result", "error", "content"}, names[0]) && f.at("response", names[0]).isString() {
			out.Text = f.at("response", names[0]).str()
		}
		for _, m := range f.at("parts").list() {
			out.Images = append(out.Images, Image{m.at("inlineData", "mimeType").str(), m.at("inlineData", "data").str()})
		}
	}
	return out
}
