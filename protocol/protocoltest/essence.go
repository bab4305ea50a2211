package protocoltest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/llm"
)

// facts holds the content of a request or a response by name, in a form that is the same
// for all protocols.
type facts map[string]string

// requestFacts returns the facts of a request.
func requestFacts(r *llm.Request) facts {
	f := facts{
		"sampling.temperature": string(r.Sampling.Temperature),
		"sampling.top_p":       string(r.Sampling.TopP),
		"sampling.top_k":       string(r.Sampling.TopK),
		"sampling.seed":        string(r.Sampling.Seed),
		"output.stops":         strings.Join(r.Output.Stops, "|"),
		"output.format":        formatFact(r.Output.Format),
		"reasoning.effort":     r.Reasoning.Effort,
		"tool_choice":          choiceFact(r.ToolChoice),
		"turns":                turnsFact(r.Turns),
	}
	if r.Output.MaxTokens != nil {
		f["output.max_tokens"] = fmt.Sprint(*r.Output.MaxTokens)
	}
	if r.Parallel != nil && !*r.Parallel {
		f["parallel"] = "false"
	}
	for _, t := range r.Tools {
		f["tools."+t.Namespace+"."+t.Name] = fmt.Sprintf("%s %q %s", t.Kind, t.Description, schemaFact(t.Schema))
	}
	return f
}

func formatFact(f llm.Format) string {
	if f.Kind == "" || f.Kind == "text" {
		return ""
	}
	return f.Kind + " " + schemaFact(f.Schema)
}

// schemaFact returns a schema with its members in a fixed order. A missing schema is the
// schema that accepts everything.
func schemaFact(raw llm.Raw) string {
	if len(flatten([]byte(raw))) <= 1 {
		return ""
	}
	leaves := flatten([]byte(raw))
	// Missing properties mean the same as empty properties.
	if len(leaves) == 2 && leaves["$.type"] == `"object"` || len(leaves) == 3 && leaves["$.properties"] == "{}" && leaves["$.type"] == `"object"` {
		return ""
	}
	var out []string
	for path, value := range leaves {
		out = append(out, path+"="+value)
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func choiceFact(c llm.ToolChoice) string {
	if c.Mode == "" || c.Mode == "auto" {
		return ""
	}
	s := c.Mode + " " + c.Allowed
	for _, n := range c.Names {
		s += " " + n.Namespace + "/" + n.Name
	}
	return s
}

// turnsFact returns a conversation as lines of role and content. It identifies a tool
// result by the position of its call, because ids may change. It sorts results in the
// order of the calls, because some protocols require that.
func turnsFact(turns []llm.Turn) string {
	var b strings.Builder
	var calls, results []string
	flush := func() {
		slices.Sort(results)
		b.WriteString(strings.Join(results, ""))
		results = nil
	}
	for _, t := range turns {
		if t.Role != llm.ToolRole {
			flush()
		}
		role := string(t.Role)
		if t.Role == llm.Developer {
			role = "system"
		}
		for _, block := range t.Blocks {
			switch x := block.(type) {
			case *llm.ToolCall:
				calls = append(calls, x.CallID)
				fmt.Fprintf(&b, "call %d: %s/%s %s\n", len(calls)-1, x.Namespace, x.Name, argsFact(x.Args))
			case *llm.ToolResult:
				results = append(results, fmt.Sprintf("result %d: %s\n", slices.Index(calls, x.CallID), blocksFact(x.Blocks)))
			default:
				if s := blocksFact([]llm.Block{block}); s != "" {
					b.WriteString(role + ": " + s + "\n")
				}
			}
		}
	}
	flush()
	return b.String()
}

func blocksFact(blocks []llm.Block) string {
	var out []string
	for _, b := range blocks {
		switch x := b.(type) {
		case *llm.Text:
			if x.Text != "" {
				out = append(out, x.Text)
			}
		case *llm.Refusal:
			out = append(out, x.Text)
		case *llm.Media:
			out = append(out, fmt.Sprintf("<%s %s %s%s>", x.Kind, x.MIME, x.Data, x.URL))
		}
	}
	return strings.Join(out, " ")
}

// argsFact returns arguments with their members in a fixed order and numbers unchanged.
func argsFact(args string) string {
	if args == "" {
		args = "{}"
	}
	if !jsontext.Value(args).IsValid(jsontext.AllowInvalidUTF8(true)) {
		return args
	}
	return schemaFact(llm.Raw(args))
}

// stopFacts maps a stop reason to the group of reasons that every protocol can express.
var stopFacts = map[llm.StopKind]string{
	llm.EndTurn: "end", llm.StopSequence: "end", llm.ToolUse: "tool", llm.MaxTokens: "length", llm.ContextWindow: "length",
	llm.Refused: "filtered", llm.ContentFilter: "filtered", llm.PromptBlocked: "filtered",
}

// answerFacts returns the facts of a response.
func answerFacts(r *llm.Response) facts {
	f := facts{"choices": fmt.Sprint(len(r.Choices))}
	for i, c := range r.Choices {
		name := func(s string) string { return fmt.Sprintf("choice %d %s", i, s) }
		for _, b := range c.Blocks {
			switch x := b.(type) {
			case *llm.Text:
				f[name("said")] += x.Text
			case *llm.Refusal: // some protocols send a refusal as text
				f[name("said")] += x.Text
			case *llm.Thought:
				f[name("thought")] += x.Text("")
			case *llm.ToolCall:
				f[name("calls")] += fmt.Sprintf("%s %s/%s %s\n", x.Kind, x.Namespace, x.Name, argsFact(x.Args))
			}
		}
		f[name("stop")] = stopFacts[c.Stop.Kind]
	}
	if r.Usage != nil {
		f["usage"] = fmt.Sprintf("in %d (cached %d) out %d", r.Usage.TotalInput(), r.Usage.CacheRead, r.Usage.TotalOutput())
	}
	return f
}

// diff returns the facts in which f and other differ.
func (f facts) diff(other facts) map[string]string {
	out := map[string]string{}
	for name, value := range f {
		if other[name] != value {
			out[name] = fmt.Sprintf("%q became %q", value, other[name])
		}
	}
	for name, value := range other {
		if _, known := f[name]; !known && value != "" {
			out[name] = fmt.Sprintf("%q is new", value)
		}
	}
	return out
}

// reported reports whether a loss in the report explains a changed fact.
func reported(r *llm.Report, fact string) bool {
	for _, l := range r.Losses {
		head, _, _ := strings.Cut(l.Path, "[")
		if strings.HasPrefix(fact, head) || strings.HasPrefix(head, fact) {
			return true
		}
	}
	return false
}
