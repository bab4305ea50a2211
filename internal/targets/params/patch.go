package params

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// Patch writes the parameters into the body of a request of a dialect for an upstream of
// the same dialect. Every other byte stays as it is. The codec knows the forms of the
// parameters that the model accepts: Patch encodes a short request with the parameters and
// one without, and writes the members in which the two differ.
func (s *Set) Patch(body []byte, d *codec.Dialect, target protocol.Target, report *llm.Report) ([]byte, *llm.Error) {
	if s == nil {
		return body, nil
	}
	before, err := read(body, d, target)
	if err != nil {
		return nil, err
	}
	after, own := *before, llm.Report{}
	s.Apply(&after, &own)
	if len(own.Own) == 0 {
		return s.SetBody(body, report)
	}
	first, second := llm.Report{Mode: llm.Loose}, llm.Report{Mode: llm.Loose, Own: own.Own}
	old, err := encode(before, d, target, &first)
	if err != nil {
		return nil, err
	}
	text, err := encode(&after, d, target, &second)
	if err != nil {
		return nil, err
	}
	for _, path := range own.Own {
		for _, place := range d.Parameters[path] {
			old = mark(old, strings.Split(place, "."))
		}
	}
	if body, err = merge(body, d, old, text); err != nil {
		return nil, err
	}
	report.Losses = append(report.Losses, own.Losses...)
	for _, l := range second.Losses {
		if !slices.Contains(first.Losses, l) {
			report.Losses = append(report.Losses, l)
		}
	}
	return s.SetBody(body, report)
}

// read returns a short request with the client's own parameters.
func read(body []byte, d *codec.Dialect, target protocol.Target) (*llm.Request, *llm.Error) {
	index, fault := wire.IndexObject(body)
	if fault != nil {
		return nil, codec.InvalidBody(fault)
	}
	short := &llm.Request{Turns: []llm.Turn{{Role: llm.User, Blocks: []llm.Block{&llm.Text{Text: "-"}}}}}
	out, err := d.Codec.EncodeRequest(short, target, &llm.Report{Mode: llm.Loose})
	if err != nil {
		return nil, err
	}
	base, fault := wire.IndexObject(out.Body)
	if fault != nil {
		return nil, codec.InvalidBody(fault)
	}
	turns, actual := base.Raw(d.Prompt.Turns), false
	if slices.Contains(d.ParameterContext, d.Prompt.Turns) {
		if last := lastTurns(index.Raw(d.Prompt.Turns)); last != nil {
			turns, actual = last, true
		}
	}
	members := wire.Object{{Name: d.Prompt.Turns, Value: turns}}
	if d.SetModel != nil {
		members = append(members, wire.Member{Name: "model", Value: wire.Raw(wire.Quote(target.Model))})
	}
	for _, name := range parameterMembers(d) {
		if v := index.Raw(name); v != nil && name != d.Prompt.Turns {
			members = append(members, wire.Member{Name: name, Value: v})
		}
	}
	text, fault := wire.Marshal(members)
	if fault != nil {
		return nil, codec.InvalidBody(fault)
	}
	sent, err := d.Codec.DecodeRequest(protocol.Incoming{Body: text, Path: out.Path, Version: target.Version})
	if err != nil {
		return nil, err
	}
	// Without the client's own extensions the codec writes what the model accepts, and not
	// what the client wrote.
	r := sent.Reasoning
	if actual {
		short.Turns = sent.Turns
	}
	short.Tools, short.ToolChoice = sent.Tools, sent.ToolChoice
	short.Output.MaxTokens = sent.Output.MaxTokens
	short.Sampling = llm.Sampling{Temperature: sent.Sampling.Temperature, TopP: sent.Sampling.TopP, TopK: sent.Sampling.TopK}
	short.Reasoning = llm.Reasoning{Mode: r.Mode, Effort: r.Effort, Budget: r.Budget, Show: r.Show}
	return short, nil
}

// lastTurns returns the last two items of a list of turns: results and their calls. It
// returns nil if there are fewer.
func lastTurns(list wire.Raw) wire.Raw {
	var items []json.RawMessage
	if list.Kind() != '[' || json.Unmarshal(list, &items) != nil || len(items) < 2 {
		return nil
	}
	last := items[len(items)-2:]
	return slices.Concat(wire.Raw("["), wire.Raw(last[0]), wire.Raw(","), wire.Raw(last[1]), wire.Raw("]"))
}

// parameterMembers returns the names of the top-level members that hold parameters, or
// that decide which are allowed.
func parameterMembers(d *codec.Dialect) []string {
	names := slices.Clone(d.ParameterContext)
	for _, places := range d.Parameters {
		for _, place := range places {
			name, _, _ := strings.Cut(place, ".")
			names = append(names, name)
			names = append(names, otherNames(d, name)...)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func otherNames(d *codec.Dialect, name string) []string {
	if d.OtherNames == nil {
		return nil
	}
	return d.OtherNames(name)
}

// encode encodes a request and returns the members of its body.
func encode(req *llm.Request, d *codec.Dialect, target protocol.Target, report *llm.Report) (members wire.Object, err *llm.Error) {
	out, err := d.Codec.EncodeRequest(req, target, report)
	if err != nil {
		return nil, err
	}
	return objectOf(out.Body), nil
}

// objectOf returns the members of an object, and none if the text is not an object.
func objectOf(text []byte) (members wire.Object) {
	if wire.Raw(text).Kind() != '{' || wire.Unmarshal(text, &members) != nil {
		return nil
	}
	return members
}

// changed is an old value that differs from every new one.
const changed = `"*"`

// mark makes the member at a path differ from every new one.
func mark(members wire.Object, path []string) wire.Object {
	if len(path) == 1 {
		return members.With(path[0], wire.Raw(changed))
	}
	inner, _ := members.Get(path[0])
	text, _ := wire.Marshal(mark(objectOf(inner), path[1:])) // it was valid before
	return members.With(path[0], text)
}

// merge writes the members in which two bodies of a dialect differ into a client's body.
func merge(body []byte, d *codec.Dialect, old, written wire.Object) ([]byte, *llm.Error) {
	names := parameterMembers(d)
	other := func(m wire.Member) bool {
		return m.Name == d.Prompt.Tools || m.Name == d.Prompt.Turns || !slices.Contains(names, m.Name)
	}
	text, err := merger{d}.merge(body, slices.DeleteFunc(old, other), slices.DeleteFunc(written, other))
	if err != nil {
		return nil, codec.InvalidBody(err)
	}
	return text, nil
}

// merger writes the differences of two objects into a third one.
type merger struct{ dialect *codec.Dialect }

func (m merger) merge(text []byte, old, written wire.Object) ([]byte, error) {
	index, err := wire.IndexObject(text)
	if err != nil {
		return nil, err
	}
	var edits []wire.Edit
	var added wire.Object
	for _, w := range written {
		was, _ := old.Get(w.Name)
		if bytes.Equal(was, w.Value) {
			continue
		}
		names := m.namesIn(&index, w.Name)
		if len(names) == 0 {
			added = append(added, w)
		}
		for _, name := range names {
			value := w.Value
			if sent := index.Raw(name); sent.Kind() == '{' && value.Kind() == '{' && string(was) != changed {
				if value, err = m.merge(sent, objectOf(was), objectOf(value)); err != nil {
					return nil, err
				}
			}
			edits = append(edits, index.Set(name, string(value)))
		}
	}
	if text = wire.Patch(text, edits); len(added) > 0 {
		if text, err = appendMembers(text, added); err != nil {
			return nil, err
		}
	}
	for _, o := range old {
		if m.has(written, o.Name) {
			continue
		}
		if text, err = m.remove(text, o); err != nil {
			return nil, err
		}
	}
	return text, nil
}

// namesIn returns the names under which an object has a member.
func (m merger) namesIn(index *wire.Index, name string) (names []string) {
	for _, n := range append([]string{name}, otherNames(m.dialect, name)...) {
		if index.Has(n) {
			names = append(names, n)
		}
	}
	return names
}

// remove removes a member of old from an object. It keeps an inner object with members
// that old does not have.
func (m merger) remove(text []byte, old wire.Member) ([]byte, error) {
	for {
		index, err := wire.IndexObject(text)
		if err != nil {
			return nil, err
		}
		names := m.namesIn(&index, old.Name)
		if len(names) == 0 {
			return text, nil
		}
		sent, known := objectOf(index.Raw(names[0])), objectOf(old.Value)
		if known == nil || !slices.ContainsFunc(sent, func(s wire.Member) bool { return !m.has(known, s.Name) }) {
			edit, _ := index.Remove(names[0])
			text = wire.Patch(text, []wire.Edit{edit})
			continue
		}
		inner, err := m.merge(index.Raw(names[0]), known, nil)
		if err != nil {
			return nil, err
		}
		return wire.Patch(text, []wire.Edit{index.Set(names[0], string(inner))}), nil
	}
}

// has reports whether an object has a member under any of its names.
func (m merger) has(o wire.Object, name string) bool {
	return slices.ContainsFunc(o, func(k wire.Member) bool {
		return k.Name == name || slices.Contains(otherNames(m.dialect, k.Name), name)
	})
}

// appendMembers adds members at the end of an object.
func appendMembers(text []byte, members wire.Object) ([]byte, error) {
	more, err := wire.Marshal(members)
	if err != nil {
		return nil, err
	}
	index, err := wire.IndexObject(text)
	if err != nil {
		return nil, err
	}
	edit := index.Set(members[0].Name, "0")
	comma := ""
	if index.Len() > 0 {
		comma = ","
	}
	edit.Text = comma + string(more[1:len(more)-1])
	return wire.Patch(text, []wire.Edit{edit}), nil
}

// SetBody sets the configured members of the body of an upstream request.
func (s *Set) SetBody(body []byte, report *llm.Report) ([]byte, *llm.Error) {
	if s == nil {
		return body, nil
	}
	return setMembers(body, s.Defaults.Body, s.Override.Body, report)
}

// PatchCompletion writes the parameters into the body of a text completion, which has no
// reasoning.
func (s *Set) PatchCompletion(body []byte, report *llm.Report) ([]byte, *llm.Error) {
	if s == nil {
		return body, nil
	}
	return setMembers(body, s.Defaults.completion(), s.Override.completion(), report)
}

// completion returns the values as members of a text completion.
func (v *Values) completion() []llm.Member {
	list := slices.Clone(v.Body)
	for _, m := range []llm.Member{{Name: "temperature", Value: llm.Raw(v.Temperature)}, {Name: "top_p", Value: llm.Raw(v.TopP)}} {
		if m.Value != "" {
			list = append(list, m)
		}
	}
	if v.MaxTokens > 0 {
		list = append(list, llm.Member{Name: "max_tokens", Value: llm.Raw(strconv.FormatInt(v.MaxTokens, 10))})
	}
	return list
}

// setMembers adds members that a body does not have, and replaces others.
func setMembers(body []byte, defaults, override []llm.Member, report *llm.Report) ([]byte, *llm.Error) {
	if len(defaults)+len(override) == 0 {
		return body, nil
	}
	index, err := wire.IndexObject(body)
	if err != nil {
		return nil, codec.InvalidBody(err)
	}
	var edits []wire.Edit
	var added wire.Object
	for i, m := range slices.Concat(override, defaults) {
		_, twice := added.Get(m.Name)
		switch sent := index.Raw(m.Name); {
		case twice || i >= len(override) && (sent != nil || slices.ContainsFunc(override, func(o llm.Member) bool { return o.Name == m.Name })):
		case !index.Has(m.Name):
			added = append(added, wire.Member{Name: m.Name, Value: wire.Raw(m.Value)})
		default:
			edits = append(edits, index.Set(m.Name, string(m.Value)))
			if sent != nil && string(sent) != string(m.Value) {
				reportOverride(report, m.Name)
			}
		}
	}
	if body = wire.Patch(body, edits); len(added) > 0 {
		if body, err = appendMembers(body, added); err != nil {
			return nil, codec.InvalidBody(err)
		}
	}
	return body, nil
}
