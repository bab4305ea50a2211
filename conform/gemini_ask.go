package conform

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// gemini is Gemini generateContent.
type gemini struct{}

func (gemini) credential(h http.Header, key string) { h.Set("X-Goog-Api-Key", key) }

// canAsk: system text stands before the conversation or in it as the user's; there
// is no switch for serial calls and no name for a schema.
func (gemini) canAsk(a Ask) Ask {
	a.Serial = false
	if a.Format != nil {
		a.Format = &Format{Schema: a.Format.Schema}
	}
	a.Turns = mapTurns(a.Turns, func(_ string, p *Piece) bool {
		if p.Kind == kindRefusal {
			p.Kind = kindText
		}
		return true
	})
	talk := false
	for i, t := range a.Turns {
		if t.Role == "system" && talk {
			a.Turns[i].Role = "user"
		}
		talk = talk || t.Role != "system"
	}
	return a
}

func (v gemini) writeAsk(a Ask, _ string, _ bool) []byte {
	a = v.canAsk(a)
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
	if len(a.Stop) > 0 {
		c["stopSequences"] = a.Stop
	}
	if a.Reasoning != "" {
		c["thinkingConfig"] = object{"includeThoughts": true, "thinkingLevel": strings.ToUpper(a.Reasoning)}
	}
	if a.Format != nil {
		c["responseMimeType"], c["responseJsonSchema"] = "application/json", raw(a.Format.Schema)
	}
	if len(c) > 0 {
		o["generationConfig"] = c
	}
	tools := make([]any, 0, len(a.Tools))
	for _, t := range a.Tools {
		d := object{"name": t.Name, "description": t.About}
		if t.Schema != "" {
			d["parametersJsonSchema"] = raw(t.Schema)
		}
		tools = append(tools, d)
	}
	if len(tools) > 0 {
		o["tools"] = []any{object{"functionDeclarations": tools}}
	}
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

// inCallOrder sorts results: without ids the order is all that pairs them.
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
	case kindImage:
		o["inlineData"] = object{"mimeType": p.Image.Type, "data": p.Image.Data}
	case kindCall:
		f := object{"name": p.Name, "args": raw(p.Args)}
		if p.ID != "" {
			f["id"] = p.ID
		}
		o["functionCall"] = f
	case kindResult:
		key := "output"
		if p.Failed {
			key = "error"
		}
		f := object{"name": p.Name, "response": object{key: p.Text}}
		if p.ID != "" {
			f["id"] = p.ID
		}
		media := make([]any, 0, len(p.Images))
		for _, i := range p.Images {
			media = append(media, object{"inlineData": object{"mimeType": i.Type, "data": i.Data}})
		}
		if len(media) > 0 {
			f["parts"] = media
		}
		o["functionResponse"] = f
	default:
		o["text"] = p.Text
	}
	if p.Sig != "" {
		o["thoughtSignature"] = p.Sig
	}
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

func (v gemini) readAsk(body []byte, h http.Header, path string) heard {
	var out heard
	var bad complaints
	o, err := parse(body)
	if err != nil || !o.isObject() {
		return heard{problems: []string{fmt.Sprintf("the body is no JSON object: %v", err)}}
	}
	bad.unknown(o, geminiFields, "")
	if h.Get("X-Goog-Api-Key") == "" && h.Get("Authorization") == "" {
		bad.say("no credential")
	}
	out.stream = strings.Contains(path, ":streamGenerateContent")
	_, rest, _ := strings.Cut(path, "/models/")
	out.model, _, _ = strings.Cut(rest, ":")
	c := o.at("generationConfig")
	bad.unknown(c, geminiConfigFields, "generationConfig.")
	out.Max, out.Temperature, out.TopP = c.at("maxOutputTokens").number(), c.at("temperature").number(), c.at("topP").number()
	out.Stop = oneOrMany(c.at("stopSequences"))
	if len(out.Stop) > 5 {
		bad.say("%d stop sequences, at most 5", len(out.Stop))
	}
	t := c.at("thinkingConfig")
	if t.at("thinkingLevel").here && t.at("thinkingBudget").here {
		bad.say("thinkingLevel and thinkingBudget together")
	}
	if t.isObject() && t.at("thinkingBudget").number() != "0" {
		out.Reasoning = "on"
	}
	v.readFormat(c, &out, &bad)
	v.readTools(o, &out, &bad)
	for _, p := range o.at("systemInstruction", "parts").list() {
		out.Turns = append(out.Turns, Turn{Role: "system", Pieces: []Piece{{Kind: kindText, Text: p.at("text").str()}}})
	}
	v.readContents(o.at("contents").list(), &out, &bad)
	out.problems = bad
	return out
}

func (gemini) readFormat(c value, out *heard, bad *complaints) {
	s := c.at("responseJsonSchema")
	if !s.here {
		s = c.at("responseSchema")
	}
	if s.here {
		out.Format = &Format{Schema: s.text()}
		if c.at("responseMimeType").str() != "application/json" {
			bad.say("a response schema without responseMimeType application/json")
		}
	}
}

func (gemini) readTools(o value, out *heard, bad *complaints) {
	vendors := false // there are tools that the vendor runs
	for _, t := range o.at("tools").list() {
		vendors = vendors || !t.at("functionDeclarations").here
		for _, d := range t.at("functionDeclarations").list() {
			tool := Tool{Name: d.at("name").str(), About: d.at("description").str()}
			if s := d.at("parametersJsonSchema"); s.here {
				tool.Schema = s.text()
			} else if s := d.at("parameters"); s.here {
				tool.Schema = s.text()
				checkOpenAPI(s, "parameters of "+tool.Name, bad)
			}
			checkTool(tool, geminiToolName, bad)
			out.Tools = append(out.Tools, tool)
		}
	}
	if vendors && len(out.Tools) > 0 && !o.at("toolConfig", "includeServerSideToolInvocations").yes() {
		bad.say("the vendor's tools beside functions, without includeServerSideToolInvocations")
	}
	f := o.at("toolConfig", "functionCallingConfig")
	mode := f.at("mode").str()
	out.Choice = map[string]string{"AUTO": "auto", "NONE": "none", "ANY": "required", "VALIDATED": "auto"}[mode]
	if names := oneOrMany(f.at("allowedFunctionNames")); mode == "ANY" && len(names) == 1 {
		out.Choice = names[0]
	}
	if mode != "" && out.Choice == "" {
		bad.say("functionCallingConfig.mode is %q", mode)
	}
}

var openAPIKeywords = strings.Fields(`type format title description nullable default items minItems maxItems enum properties
	propertyOrdering required minProperties maxProperties minimum maximum minLength maxLength pattern example anyOf`)

// checkOpenAPI holds the subset that the older field takes (GEM-22).
func checkOpenAPI(s value, at string, bad *complaints) {
	for _, name := range s.names() {
		if !slices.Contains(openAPIKeywords, name) {
			bad.say("%s: the keyword %s is not in the subset (GEM-22)", at, name)
		}
	}
	if s.at("type").here && !s.at("type").isString() {
		bad.say("%s: type is %s (GEM-24)", at, s.at("type").text())
	}
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

func (v gemini) readContents(list []value, out *heard, bad *complaints) {
	if len(list) == 0 || list[0].at("role").str() == "model" {
		bad.say("no contents, or the first is the model's")
	}
	before := ""
	var open []Piece
	for i, c := range list {
		role := c.at("role").str()
		if role != "user" && role != "model" || role == before {
			bad.say("contents[%d]: role %q after %q (CRQ-12)", i, role, before)
		}
		var pieces []Piece
		for _, p := range c.at("parts").list() {
			pieces = append(pieces, v.readPart(p, role, bad))
		}
		if len(pieces) == 0 {
			bad.say("contents[%d] has no parts (GEM-28)", i)
		}
		results := ofKind(pieces, kindResult)
		if len(results) != len(open) || len(open) > 0 && len(pieces) != len(results) {
			bad.say("contents[%d]: %d calls, then %d results among %d parts (GEM-05)", i, len(open), len(results), len(pieces))
		}
		for n := range results {
			if n < len(open) && (results[n].Name != open[n].Name || results[n].ID != open[n].ID) {
				bad.say("contents[%d]: result %d is for %s %q, the call was %s %q (GEM-04)", i, n, results[n].Name, results[n].ID, open[n].Name, open[n].ID)
			}
		}
		open = ofKind(pieces, kindCall)
		if before = role; len(results) > 0 {
			before = "results" // the user's own words follow in a content of their own
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
	if len(open) > 0 {
		bad.say("%d calls at the end have no results", len(open))
	}
	pairByOrder(out.Turns)
}

// pairByOrder gives calls without ids made-up ones, and results the same by order.
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

func (gemini) readPart(p value, role string, bad *complaints) Piece {
	data := 0
	for _, name := range geminiData {
		if p.at(name).here {
			data++
		}
	}
	if data != 1 {
		bad.say("a part with %d data members: %.120s", data, p.text())
	}
	out := Piece{Kind: kindText, Text: p.at("text").str(), Sig: p.at("thoughtSignature").str()}
	switch {
	case p.at("thought").yes():
		out.Kind = kindThink
	case p.at("inlineData").here:
		out.Kind, out.Image = kindImage, Image{p.at("inlineData", "mimeType").str(), p.at("inlineData", "data").str()}
	case p.at("functionCall").here:
		f := p.at("functionCall")
		out.Kind, out.ID, out.Name, out.Args = kindCall, f.at("id").str(), f.at("name").str(), f.at("args").text()
		if !geminiToolName.MatchString(out.Name) || f.at("args").here && !f.at("args").isObject() || role != "model" {
			bad.say("a functionCall that is not one: %s", f.text())
		}
		if !f.at("args").here {
			out.Args = "{}"
		}
	case p.at("functionResponse").here:
		f := p.at("functionResponse")
		out.Kind, out.ID, out.Name = kindResult, f.at("id").str(), f.at("name").str()
		if !f.at("response").isObject() || out.Name == "" || role != "user" {
			bad.say("a functionResponse that is not one: %s", f.text())
		}
		out.Failed = f.at("response", "error").here
		out.Text = f.at("response").text()
		if names := f.at("response").names(); len(names) == 1 && f.at("response", names[0]).isString() {
			out.Text = f.at("response", names[0]).str()
		}
		for _, m := range f.at("parts").list() {
			out.Images = append(out.Images, Image{m.at("inlineData", "mimeType").str(), m.at("inlineData", "data").str()})
		}
	}
	return out
}
