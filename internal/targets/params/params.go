// Package params applies the parameters that the configuration sets for a model: defaults
// for values that the client does not send, and values that replace the client's own.
package params

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/isogloss-gateway/isogloss/llm"
)

// Values are parameters of a request, in neutral names. A zero value is not set.
type Values struct {
	Effort      string
	Temperature llm.Number
	TopP        llm.Number
	MaxTokens   int64
	Body        []llm.Member // top-level members in the upstream's own dialect
}

// empty reports whether no value is set.
func (v *Values) empty() bool {
	return v.Effort == "" && v.Temperature == "" && v.TopP == "" && v.MaxTokens == 0 && len(v.Body) == 0
}

// MarshalJSON encodes the values for a person. Of the body it has only the names, because a
// value may be secret.
func (v Values) MarshalJSON() ([]byte, error) {
	out := struct {
		Effort      string      `json:"effort,omitempty"`
		Temperature json.Number `json:"temperature,omitempty"`
		TopP        json.Number `json:"top_p,omitempty"`
		MaxTokens   int64       `json:"max_tokens,omitempty"`
		Body        []string    `json:"body,omitempty"`
	}{v.Effort, json.Number(v.Temperature), json.Number(v.TopP), v.MaxTokens, nil}
	for _, m := range v.Body {
		out.Body = append(out.Body, m.Name)
	}
	return json.Marshal(out)
}

// Set is the parameters of a model. It is immutable. A nil Set has none.
type Set struct {
	Defaults Values `json:"defaults"` // where the client does not set the value
	Override Values `json:"override"` // in place of the client's value
}

// New returns a set, and nil if no value is set.
func New(defaults, override Values) *Set {
	if defaults.empty() && override.empty() {
		return nil
	}
	return &Set{Defaults: defaults, Override: override}
}

// reportOverride reports a client's value that the configuration replaces.
func reportOverride(report *llm.Report, path string) {
	report.Approximate(path, "model.override", "the configuration of the model replaces the client's value")
}

// MaxOutput returns the output limit that is sent for a client's own limit; 0: none.
func (s *Set) MaxOutput(sent int64) int64 {
	switch {
	case s == nil:
		return sent
	case s.Override.MaxTokens > 0:
		return s.Override.MaxTokens
	case sent == 0:
		return s.Defaults.MaxTokens
	}
	return sent
}

// Cacheable reports whether a request that is cacheable without the parameters is so with
// them. A member of the body may have any effect.
func (s *Set) Cacheable() bool {
	if s == nil {
		return true
	}
	hot, err := strconv.ParseFloat(string(s.Override.Temperature), 64)
	return len(s.Defaults.Body)+len(s.Override.Body) == 0 && (s.Override.Temperature == "" || err == nil && hot == 0)
}

// JSON returns the parameters for a person, and nil if there are none.
func (s *Set) JSON() json.RawMessage {
	if s == nil {
		return nil
	}
	text, _ := json.Marshal(s) // it has only texts and numbers
	return text
}

// Key returns a text that is different for different parameters, and "" if there are none.
func (s *Set) Key() string {
	if s == nil {
		return ""
	}
	return fmt.Sprintf("%#v", *s)
}

// The paths of the parameters in the neutral model.
const (
	reasoning   = "reasoning"
	temperature = "sampling.temperature"
	topP        = "sampling.top_p"
	maxTokens   = "output.max_tokens"
)

// Apply sets the parameters in a request. It reports each value of the client that it
// replaces. The report then ignores losses of the configured values.
func (s *Set) Apply(req *llm.Request, report *llm.Report) {
	if s == nil {
		return
	}
	w := writer{report: report}
	set(&w, temperature, &req.Sampling.Temperature, s.Defaults.Temperature, s.Override.Temperature)
	set(&w, topP, &req.Sampling.TopP, s.Defaults.TopP, s.Override.TopP)
	var limit int64
	preset := s.Defaults.MaxTokens
	if sent := req.Output.MaxTokens; sent != nil {
		limit, preset = *sent, 0 // a limit of 0 has a meaning too
	}
	if set(&w, maxTokens, &limit, preset, s.Override.MaxTokens) {
		req.Output.MaxTokens = &limit
	}
	r := &req.Reasoning
	effort := effortOf(r)
	if set(&w, reasoning, &effort, s.Defaults.Effort, s.Override.Effort) {
		*r = llm.Reasoning{Mode: "on", Effort: effort, Show: r.Show}
		if effort == "none" {
			r.Mode = "off"
		}
	}
	report.Own = append(report.Own, w.own...)
}

// effortOf returns a word for the client's own amount of reasoning, and "" if the client
// does not set it.
func effortOf(r *llm.Reasoning) string {
	switch {
	case r.Effort != "" && r.Budget == nil:
		return r.Effort
	case r.Budget != nil:
		return "budget"
	case r.Mode == "off":
		return "none"
	}
	return r.Mode
}

// writer sets parameters.
type writer struct {
	report *llm.Report
	own    []string // the paths of values that are not the client's
}

// set sets a value to the configured one, and reports whether it is.
func set[T comparable](w *writer, path string, value *T, preset, override T) bool {
	var unset T
	sent := *value
	switch {
	case override != unset:
		*value = override
	case sent == unset && preset != unset:
		*value = preset
	default:
		return false
	}
	if sent != unset && !equal(sent, *value) {
		reportOverride(w.report, path)
	}
	w.own = append(w.own, path)
	return true
}

// equal reports whether two values are the same. Numbers may be written differently.
func equal[T comparable](a, b T) bool {
	x, isNumber := any(a).(llm.Number)
	if !isNumber {
		return a == b
	}
	y, _ := any(b).(llm.Number)
	first, err := strconv.ParseFloat(string(x), 64)
	second, fault := strconv.ParseFloat(string(y), 64)
	return err == nil && fault == nil && first == second
}
