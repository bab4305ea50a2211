package relay

import (
	"cmp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/internal/provider"
)

// edit replaces a range of a body. All bytes outside the edits reach the upstream
// as the client sent them.
type edit struct {
	at   span
	text string
}

// patch applies edits to a body. Without edits it is the body itself.
func patch(body []byte, edits []edit) []byte {
	if len(edits) == 0 {
		return body
	}
	slices.SortStableFunc(edits, func(a, b edit) int { return cmp.Compare(a.at.start, b.at.start) })
	size := len(body)
	for _, e := range edits {
		size += len(e.text) - (e.at.end - e.at.start)
	}
	out := make([]byte, 0, size)
	from := 0
	for _, e := range edits {
		out = append(out, body[from:e.at.start]...)
		out = append(out, e.text...)
		from = e.at.end
	}
	return append(out, body[from:]...)
}

// set gives a member a value: at its own place, or after the last member where
// there is none. At most one new member is set in an object, so that commas are
// right.
func (o *object) set(name, value string) edit {
	if m, ok := o.find(name); ok {
		return edit{m.at, value}
	}
	text := quote(name) + ":" + value
	if len(o.members) > 0 {
		text = "," + text
	}
	return edit{span{o.end, o.end}, text}
}

// remove takes a member out, with the comma that goes with it.
func (o *object) remove(name string) (edit, bool) {
	i := slices.IndexFunc(o.members, func(m member) bool { return m.name == name })
	if i < 0 {
		return edit{}, false
	}
	m := o.members[i]
	switch {
	case i > 0: // from the end of the value before, so that the comma goes too
		return edit{at: span{o.members[i-1].at.end, m.at.end}}, true
	case len(o.members) > 1:
		return edit{at: span{m.nameAt.start, o.members[1].nameAt.start}}, true
	}
	return edit{at: span{m.nameAt.start, m.at.end}}, true
}

// rename gives a member another name. A request that has both keeps both.
func (o *object) rename(from, to string) []edit {
	m, ok := o.find(from)
	if _, both := o.find(to); !ok || both {
		return nil
	}
	return []edit{{m.nameAt, quote(to)}}
}

// askUsage makes sure that stream_options asks for usage and keeps what else is
// in it.
func (p *projection) askUsage() edit {
	if p.raw("stream_options") == nil {
		return p.set("stream_options", `{"include_usage":true}`)
	}
	opts, err := p.inner("stream_options", nil)
	if err != nil {
		return p.set("stream_options", `{"include_usage":true}`)
	}
	return opts.set("include_usage", "true")
}

// inNvExt begins the names that quirks have for members of nvext.
const inNvExt = "nvext."

// applyQuirks gives members the names that a provider knows them by.
func (p *projection) applyQuirks(quirks []provider.Quirk) []edit {
	var edits []edit
	for _, q := range quirks {
		if !strings.HasPrefix(q.Rename, inNvExt) {
			edits = append(edits, p.rename(q.Rename, q.To)...)
		}
	}
	return edits
}

// applyNvExtQuirks does the same inside nvext, which is known to be an object. It
// is apart because an nvext that is taken out must not be edited as well.
func (p *projection) applyNvExtQuirks(quirks []provider.Quirk) []edit {
	o, err := p.inner("nvext", nil)
	if err != nil {
		return nil
	}
	var edits []edit
	for _, q := range quirks {
		if from, ok := strings.CutPrefix(q.Rename, inNvExt); ok {
			edits = append(edits, o.rename(from, strings.TrimPrefix(q.To, inNvExt))...)
		}
	}
	return edits
}

// quote writes a string as JSON. Invalid UTF-8 cannot come here: the body that
// the string is from was checked.
func quote(s string) string {
	b, _ := jsontext.AppendQuote(nil, s)
	return string(b)
}
