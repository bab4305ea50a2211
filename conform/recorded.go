package conform

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// recording is what a case says of itself that was not written but recorded. Both
// sides are then compared with what was recorded, and not read strictly: a client or
// an upstream that breaks the rules is often why there is a recording.
type recording struct {
	status     int    // that the client got; 0 where the case was written
	cut        bool   // and its answer broke off
	masked     bool   // texts are told by their shape only
	reset      bool   // the upstream's connection broke after its bytes
	configured bool   // it depends on settings of a provider, so only a gateway that has them can be held to it
	asked      string // the model as the client named it
	given      string // the model as the upstream was asked for it
	path       string // where the client has sent it, if not where its SDK does
	fidelity   string // the header
}

// Recorded says whether the case is a recording.
func (c *Case) Recorded() bool { return c.record.status != 0 }

// Configured says whether the case depends on settings of a gateway.
func (c *Case) Configured() bool { return c.record.configured }

// Rounds is how many requests the case is made of.
func (c *Case) Rounds() int { return len(c.rounds) }

// Cells are the ways through a gateway that the case is about.
func (c *Case) Cells() []Cell {
	return (&Runner{Target: Target{Models: map[Dialect]string{Chat: "-", Responses: "-", Anthropic: "-", Gemini: "-"}, Configured: true}}).Cells(c)
}

// Given is the model that a recording's upstream was asked for.
func (c *Case) Given() string { return c.record.given }

// Asked is the model that a recording's client asked for.
func (c *Case) Asked() string { return c.record.asked }

// recordSetting takes the settings of recordings.
func (r *recording) setting(verb, rest string) (known bool, err error) {
	switch verb {
	case "recorded":
		number, how, _ := strings.Cut(rest, " ")
		r.cut = how == "cut"
		r.status, err = strconv.Atoi(number)
		if err != nil || r.status < 100 || how != "" && !r.cut {
			return true, fmt.Errorf("recorded %q; write the status that the client got", rest)
		}
	case "masked":
		r.masked = true
	case "configured":
		r.configured = true
	case "reset":
		r.reset = true
	case "model":
		r.asked, r.given, _ = strings.Cut(rest, " ")
		if r.given == "" {
			return true, fmt.Errorf("model %q; write the name that the client used and the one that the upstream was given", rest)
		}
	case "path":
		r.path = rest
	case "fidelity":
		r.fidelity = rest
	default:
		return false, nil
	}
	return true, nil
}

// Difference is one place where a recording does not come out as it was.
type Difference struct {
	Side string `json:"side"` // heard or seen
	At   string `json:"at"`   // a path in the JSON, with the event before it in a stream
	Was  string `json:"was"`  // empty where there was nothing
	Is   string `json:"is"`   // empty where there is nothing now
}

func (d Difference) String() string {
	switch {
	case d.Was == "":
		return fmt.Sprintf("%s %s: is new: %.200s", d.Side, d.At, d.Is)
	case d.Is == "":
		return fmt.Sprintf("%s %s: is gone: %.200s", d.Side, d.At, d.Was)
	}
	return fmt.Sprintf("%s %s: was %.200s, is %.200s", d.Side, d.At, d.Was, d.Is)
}

func texts(list []Difference) []string {
	var out []string
	for _, d := range list {
		out = append(out, d.String())
	}
	return out
}

// checkRecorded compares both sides with the recording.
func (p *play) checkRecorded(rd *round) []Difference {
	c := comparison{masked: p.cs.record.masked}
	if !p.compareHeard(rd, &c) {
		return c.found
	}
	c.side = "seen"
	if p.cell.Client == Responses && p.cell.Upstream != Responses { // the request says what it went on from, and names it no more
		c.ignored = append(c.ignored, "/previous_response_id", "/response/previous_response_id")
	}
	x, was := p.last, p.cs.record
	if x.broken != nil != was.cut {
		c.say("transfer", transfer(was.cut), transfer(x.broken != nil))
	}
	if x.status != was.status {
		c.say("status", strconv.Itoa(was.status), strconv.Itoa(x.status))
	}
	if f := x.header.Get("Isogloss-Fidelity"); f != was.fidelity {
		c.say("fidelity", was.fidelity, f)
	}
	for ext, text := range rd.seenRaw[p.cell.Client] {
		if ext == "sse" {
			c.streams(text, string(x.body))
		} else {
			c.documents(text, string(x.body))
		}
	}
	return c.found
}

func transfer(cut bool) string {
	if cut {
		return "broken off"
	}
	return "whole"
}

func times(asked bool) string {
	if asked {
		return "sent"
	}
	return "not sent"
}

// compareHeard reports whether the upstream could answer.
func (p *play) compareHeard(rd *round, c *comparison) bool {
	c.side = "heard"
	want, asked := rd.heardRaw[p.cell.Upstream]
	n := len(p.last.upstream) // how often it was asked is up to the configuration
	if asked != (n > 0) {
		c.say("request", times(asked), times(n > 0))
	}
	if !asked || n == 0 {
		return true
	}
	r := p.last.upstream[n-1]
	if r.dialect != p.cell.Upstream {
		c.say("dialect", string(p.cell.Upstream), string(r.dialect))
		return false // and there was no answer in it
	}
	if !p.runner.Target.AnyModel && !p.runner.Target.Configured {
		c.ignored = append(c.ignored, "/model")
	}
	c.documents(want, string(r.body))
	return true
}

// comparison finds what differs.
type comparison struct {
	side    string
	event   string
	masked  bool
	ignored []string
	found   []Difference
}

// mostDifferences is enough for somebody who reads them.
const mostDifferences = 50

func (c *comparison) say(at, was, is string) {
	if len(c.found) < mostDifferences {
		c.found = append(c.found, Difference{c.side, c.event + at, was, is})
	}
}

func (c *comparison) documents(was, is string) {
	was, is = strings.TrimSpace(was), strings.TrimSpace(is)
	w, err1 := parse([]byte(was))
	g, err2 := parse([]byte(is))
	if err1 != nil || err2 != nil {
		if !c.same(was, is) {
			c.say("/", was, is)
		}
		return
	}
	c.values(w.v, g.v, "")
}

// streams compares event by event.
func (c *comparison) streams(was, is string) {
	w, _ := readEvents([]byte(was + "\n\n"))
	g, _ := readEvents([]byte(is + "\n\n"))
	for i := range max(len(w), len(g)) {
		c.event = fmt.Sprintf("event %d ", i+1)
		switch {
		case i >= len(w):
			c.say("", "", g[i].String())
		case i >= len(g):
			c.say("", w[i].String(), "")
		default:
			if w[i].name != g[i].name {
				c.say("name", w[i].name, g[i].name)
			}
			c.documents(w[i].data, g[i].data)
		}
	}
	c.event = ""
}

func (e event) String() string { return strings.TrimSpace(e.name + " " + e.data) }

// volatile are members that are of the moment.
var volatile = []string{"created", "created_at", "completed_at", "createTime"}

func (c *comparison) values(was, is any, at string) {
	if slices.Contains(c.ignored, at) {
		return
	}
	switch w := was.(type) {
	case object:
		if g, ok := is.(object); ok {
			c.objects(w, g, at)
			return
		}
	case []any:
		if g, ok := is.([]any); ok {
			c.lists(w, g, at)
			return
		}
	case string:
		if g, ok := is.(string); ok && c.same(w, g) {
			return
		}
	}
	if !reflect.DeepEqual(was, is) {
		c.say(orRoot(at), string(encode(was)), string(encode(is)))
	}
}

func (c *comparison) objects(was, is object, at string) {
	names := append(value{was, true}.names(), value{is, true}.names()...)
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		w, had := was[name]
		g, has := is[name]
		here := at + "/" + name
		switch {
		case slices.Contains(volatile, name), slices.Contains(c.ignored, here):
		case !had:
			c.say(here, "", string(encode(g)))
		case !has:
			c.say(here, string(encode(w)), "")
		default:
			c.values(w, g, here)
		}
	}
}

func (c *comparison) lists(was, is []any, at string) {
	for i := range max(len(was), len(is)) {
		here := at + "/" + strconv.Itoa(i)
		switch {
		case i >= len(was):
			c.say(here, "", string(encode(is[i])))
		case i >= len(is):
			c.say(here, string(encode(was[i])), "")
		default:
			c.values(was[i], is[i], here)
		}
	}
}

// same compares texts. JSON inside of a text is compared as such. What was masked is
// compared by its shape: the gateway's own words, which nobody has to hide, come out
// plain.
func (c *comparison) same(was, is string) bool {
	if was == is || was == "…" && is != "" {
		return true
	}
	if json.Valid([]byte(was)) && json.Valid([]byte(is)) && strings.HasPrefix(strings.TrimSpace(was), "{") {
		inner := comparison{masked: c.masked}
		inner.documents(was, is)
		return len(inner.found) == 0
	}
	return c.masked && sameShape(was, is)
}

// sameShape compares what was masked by its shape, and what was not by its letters:
// a dialect's own words are never masked.
func sameShape(was, is string) bool {
	if len(was) != len(is) {
		return false
	}
	w, g := []rune(was), []rune(is)
	return len(w) == len(g) && !slices.ContainsFunc(w, func(r rune) bool {
		now := g[0]
		g = g[1:]
		return r != now && r != MaskRune(now)
	})
}

// answerRecorded answers with the bytes that were recorded.
func (c *Case) answerRecorded(exts map[string]string, w http.ResponseWriter) {
	switch {
	case exts["http"] != "":
		rawHTTP(w, exts["http"])
	case exts["bytes"] != "":
		stream(w, [][]byte{[]byte(exts["bytes"])})
	default:
		whole(w, http.StatusOK, "application/json", []byte(strings.TrimSpace(exts["json"])))
	}
	if c.record.reset {
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
}
