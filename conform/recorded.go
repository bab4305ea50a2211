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

// recording has the settings of a recorded case. The runner compares both sides with the
// recording and does not read them strictly, because a client or an upstream that breaks
// the rules is often the reason for a recording.
type recording struct {
	status        int    // the status of the client response; 0 if the case is not a recording
	cut           bool   // the client response broke off
	masked        bool   // texts are masked
	reset         bool   // the upstream closed the connection after its response
	configured    bool   // the case needs a gateway with the same settings
	clientModel   string // the model name in the client request
	upstreamModel string // the model name in the upstream request
	path          string // the path of the client request, if it is not DefaultPath
	fidelity      string // the header
}

// Recorded reports whether the case is a recording.
func (c *Case) Recorded() bool { return c.record.status != 0 }

// Configured reports whether the case depends on settings of a gateway.
func (c *Case) Configured() bool { return c.record.configured }

// Rounds returns the number of requests.
func (c *Case) Rounds() int { return len(c.rounds) }

// Cells returns the cells in which the case runs.
func (c *Case) Cells() []Cell {
	return (&Runner{Target: Target{Models: map[Dialect]string{Chat: "-", Responses: "-", Anthropic: "-", Gemini: "-"}, Configured: true}}).Cells(c)
}

// UpstreamModel returns the model of a recording's upstream request.
func (c *Case) UpstreamModel() string { return c.record.upstreamModel }

// ClientModel returns the model of a recording's client request.
func (c *Case) ClientModel() string { return c.record.clientModel }

// setting reads a setting of a recording.
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
		r.clientModel, r.upstreamModel, _ = strings.Cut(rest, " ")
		if r.upstreamModel == "" {
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

// Difference is a difference between a recording and its replay.
type Difference struct {
	Side string `json:"side"` // heard (the upstream request) or seen (the client response)
	At   string `json:"at"`   // a path in the JSON, after the number of the event in a stream
	Was  string `json:"was"`  // empty if the recording has no value
	Is   string `json:"is"`   // empty if the replay has no value
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
func (p *caseRun) checkRecorded(rd *round) []Difference {
	c := comparison{masked: p.cs.record.masked}
	if !p.checkUpstreamRequest(rd, &c) {
		return c.found
	}
	c.side = "seen"
	if p.cell.Client == Responses && p.cell.Upstream != Responses { // the gateway expands the reference
		c.ignored = append(c.ignored, "/previous_response_id", "/response/previous_response_id")
	}
	x, was := p.last, p.cs.record
	if x.broken != nil != was.cut {
		c.add("transfer", transfer(was.cut), transfer(x.broken != nil))
	}
	if x.status != was.status {
		c.add("status", strconv.Itoa(was.status), strconv.Itoa(x.status))
	}
	if f := x.header.Get("Isogloss-Fidelity"); f != was.fidelity {
		c.add("fidelity", was.fidelity, f)
	}
	for ext, text := range rd.wantRawResponse[p.cell.Client] {
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

func times(sent bool) string {
	if sent {
		return "sent"
	}
	return "not sent"
}

// checkUpstreamRequest compares the upstream request. It returns false if the upstream
// received a request in another dialect, so that it could not respond.
func (p *caseRun) checkUpstreamRequest(rd *round, c *comparison) bool {
	c.side = "heard"
	want, sent := rd.wantRawRequest[p.cell.Upstream]
	n := len(p.last.upstream) // the number of attempts depends on the configuration
	if sent != (n > 0) {
		c.add("request", times(sent), times(n > 0))
	}
	if !sent || n == 0 {
		return true
	}
	r := p.last.upstream[n-1]
	if r.dialect != p.cell.Upstream {
		c.add("dialect", string(p.cell.Upstream), string(r.dialect))
		return false
	}
	if !p.runner.Target.AnyModel && !p.runner.Target.Configured {
		c.ignored = append(c.ignored, "/model")
	}
	c.documents(want, string(r.body))
	return true
}

// comparison collects differences.
type comparison struct {
	side    string
	event   string
	masked  bool
	ignored []string
	found   []Difference
}

// mostDifferences is the maximum number of differences.
const mostDifferences = 50

func (c *comparison) add(at, was, is string) {
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
			c.add("/", was, is)
		}
		return
	}
	c.values(w.v, g.v, "")
}

// streams compares two streams event by event.
func (c *comparison) streams(was, is string) {
	w, _ := readEvents([]byte(was + "\n\n"))
	g, _ := readEvents([]byte(is + "\n\n"))
	for i := range max(len(w), len(g)) {
		c.event = fmt.Sprintf("event %d ", i+1)
		switch {
		case i >= len(w):
			c.add("", "", g[i].String())
		case i >= len(g):
			c.add("", w[i].String(), "")
		default:
			if w[i].name != g[i].name {
				c.add("name", w[i].name, g[i].name)
			}
			c.documents(w[i].data, g[i].data)
		}
	}
	c.event = ""
}

func (e event) String() string { return strings.TrimSpace(e.name + " " + e.data) }

// volatile lists members that differ with every response.
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
		c.add(orRoot(at), string(encode(was)), string(encode(is)))
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
			c.add(here, "", string(encode(g)))
		case !has:
			c.add(here, string(encode(w)), "")
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
			c.add(here, "", string(encode(is[i])))
		case i >= len(is):
			c.add(here, string(encode(was[i])), "")
		default:
			c.values(was[i], is[i], here)
		}
	}
}

// same reports whether two texts are equal. It compares JSON objects in texts as JSON and
// masked texts by their shape.
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

// sameShape reports whether each character is equal or masked.
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

// respondRecorded responds with the recorded bytes.
func (c *Case) respondRecorded(exts map[string]string, w http.ResponseWriter) {
	switch {
	case exts["http"] != "":
		rawHTTP(w, exts["http"])
	case exts["bytes"] != "":
		stream(w, Chat, [][]byte{[]byte(exts["bytes"])})
	default:
		whole(w, http.StatusOK, "application/json", []byte(strings.TrimSpace(exts["json"])))
	}
	if c.record.reset {
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
}
