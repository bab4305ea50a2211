package gemini

import (
	"slices"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// assembler keeps the members of a stream's events and of their candidates. The texts and the log
// probabilities of a candidate come in parts, which the neutral events join.
type assembler struct {
	response   codec.LateMembers
	candidates map[int]*codec.LateMembers
}

func newAssembler() codec.Assembler {
	return &assembler{candidates: map[int]*codec.LateMembers{}}
}

// Event reads an event.
func (a *assembler) Event(data []byte) {
	var event wire.Object
	if event.UnmarshalJSON(data) != nil {
		return
	}
	for _, m := range event {
		if m.Name != "candidates" {
			a.response.Keep(m.Name, m.Value)
			continue
		}
		for _, c := range objects(m.Value) {
			a.candidate(c)
		}
	}
}

func (a *assembler) candidate(c wire.Object) {
	at := indexOf(c)
	known := a.candidates[at]
	if known == nil {
		if len(a.candidates) == maxCandidates {
			return
		}
		known = &codec.LateMembers{}
		a.candidates[at] = known
	}
	for _, m := range c {
		if !slices.Contains([]string{"content", "index", "logprobsResult"}, m.Name) {
			known.Keep(m.Name, m.Value)
		}
	}
}

// Complete sets the members.
func (a *assembler) Complete(body []byte) []byte {
	var response wire.Object
	if response.UnmarshalJSON(body) != nil {
		return body
	}
	response = a.response.SetIn(response)
	if raw, ok := response.Get("candidates"); ok {
		var list wire.List[wire.Object]
		for _, c := range objects(raw) {
			if late := a.candidates[indexOf(c)]; late != nil {
				c = late.SetIn(c)
			}
			list.Append(&c)
		}
		if text, err := wire.Marshal(&list); err == nil {
			response = response.With("candidates", text)
		}
	}
	if text, err := response.MarshalJSON(); err == nil {
		return text
	}
	return body
}

// objects returns the objects of a list.
func objects(list wire.Raw) (all []wire.Object) {
	if list.Kind() != '[' {
		return nil
	}
	s := wire.NewScanner(list)
	for range s.Items() {
		var o wire.Object
		if o.UnmarshalJSON(s.Value()) == nil {
			all = append(all, o)
		}
	}
	return all
}

// indexOf returns the index of a candidate.
func indexOf(c wire.Object) int {
	raw, _ := c.Get("index")
	n := wire.ParseCount(raw)
	return int(n)
}
