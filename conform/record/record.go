package record

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/tools/txtar"

	"github.com/isogloss-gateway/isogloss/conform"
)

// Exchange is what has happened, on both sides of a gateway.
type Exchange struct {
	Comment    []string // for people
	Client     conform.Dialect
	Upstream   conform.Dialect
	Stream     bool
	Asked      string // the model, as the client named it
	Given      string // and as the upstream was asked for it
	Path       string // where the client has sent it
	Header     http.Header
	Configured bool // it depends on settings of the gateway

	Ask    []byte
	Heard  []byte // nil where the upstream was not asked
	Answer Answer
	Seen   Answer
}

// Answer is one side's.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
	Broken bool // it broke off
}

func (a Answer) streamed() bool {
	kind, _, _ := strings.Cut(a.Header.Get("Content-Type"), ";")
	return strings.TrimSpace(strings.ToLower(kind)) == "text/event-stream"
}

// ErrNoAnswer is that an upstream was asked and said nothing, so that there is
// nothing to play.
var ErrNoAnswer = errors.New("the upstream gave no answer, so there is nothing that could be played again")

// Texts says what is done with what was said.
type Texts int

// What may be done.
const (
	Masked Texts = iota // made unreadable
	Clear               // kept
)

// Write writes the exchange as a case.
func Write(x Exchange, texts Texts) ([]byte, error) {
	if x.Heard != nil && x.Answer.Status == 0 {
		return nil, ErrNoAnswer
	}
	if texts == Masked {
		x = masked(x)
	}
	f := &file{}
	f.add("ask."+string(x.Client)+".json", ask(x))
	if x.Heard != nil {
		f.add("heard."+string(x.Upstream)+".json", ownIDs(string(x.Heard), string(x.Ask), false))
		f.answer(x)
	}
	ext := ".json"
	if x.Seen.streamed() {
		ext = ".sse"
	}
	f.add("seen."+string(x.Client)+ext, ownIDs(string(x.Seen.Body), string(x.Answer.Body), ext == ".sse"))
	f.add("run", settings(x, texts))
	f.archive.Comment = []byte(comment(x))
	text := txtar.Format(&f.archive)
	if _, err := conform.ParseCase("recorded", text); err != nil {
		return nil, fmt.Errorf("the exchange cannot be told as a case: %w", err)
	}
	return text, nil
}

// masked is the exchange with nothing left to read.
func masked(x Exchange) Exchange {
	r := newRedactor()
	r.declare(string(x.Ask))
	r.declare(string(x.Heard))
	x.Ask = []byte(r.document(string(x.Ask)))
	if x.Heard != nil {
		x.Heard = []byte(r.document(string(x.Heard)))
	}
	for _, a := range []*Answer{&x.Answer, &x.Seen} {
		if a.streamed() {
			a.Body = []byte(r.stream(string(a.Body)))
		} else {
			a.Body = []byte(r.document(string(a.Body)))
		}
	}
	x.Header = known(x.Header)
	return x
}

// headerForms are what the values of headers look like that are kept.
var headerForms = map[string]*regexp.Regexp{
	"Anthropic-Version":      regexp.MustCompile(`^\d{4}-\d{2}-\d{2}$`),
	"Anthropic-Beta":         regexp.MustCompile(`^[a-z0-9-]+-\d{4}-\d{2}-\d{2}(, ?[a-z0-9-]+-\d{4}-\d{2}-\d{2})*$`),
	"Openai-Beta":            regexp.MustCompile(`^[a-z_]+=v\d+$`),
	"Isogloss-Fidelity-Mode": regexp.MustCompile(`^[a-z]+$`),
}

func known(h http.Header) http.Header {
	out := http.Header{}
	for name, form := range headerForms {
		for _, v := range h.Values(name) {
			if form.MatchString(v) {
				out.Add(name, v)
			}
		}
	}
	return out
}

// ask is the request's body with a place for the model.
func ask(x Exchange) string {
	s := string(x.Ask)
	n, err := parse(s)
	if err != nil {
		return s
	}
	var edits []edit
	if m := n.get("model"); m != nil && m.kind == '"' && x.Client != conform.Gemini {
		edits = append(edits, edit{m.start, m.end, `"$MODEL"`})
	}
	out, _ := apply(s, edits)
	return out
}

// file is a case on its way.
type file struct{ archive txtar.Archive }

var marker = regexp.MustCompile(`(?m)^-- .* --`)

func (f *file) add(name, text string) {
	// A line that looks like the beginning of a section would be one.
	text = marker.ReplaceAllString(text, " $0")
	if !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	f.archive.Files = append(f.archive.Files, txtar.File{Name: name, Data: []byte(text)})
}

func (f *file) answer(x Exchange) {
	name := "answer." + string(x.Upstream)
	a := x.Answer
	kind := a.Header.Get("Content-Type")
	switch {
	case a.Status == http.StatusOK && a.streamed() && len(a.Body) > 0:
		f.add(name+".bytes", string(a.Body))
	case a.Status == http.StatusOK && strings.HasPrefix(kind, "application/json") && len(a.Body) > 0:
		f.add(name+".json", string(a.Body))
	default:
		head := fmt.Sprintf("%d %s\n", a.Status, cmp.Or(kind, "text/plain"))
		for _, h := range []string{"Retry-After", "Retry-After-Ms", "X-Should-Retry"} {
			if v := a.Header.Get(h); retryForm.MatchString(v) {
				head += h + ": " + v + "\n"
			}
		}
		f.add(name+".http", head+"\n"+string(a.Body))
	}
}

// retryForm is what a header about trying again looks like.
var retryForm = regexp.MustCompile(`^([0-9.]+|true|false|[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} [0-9:]{8} GMT)$`)

// ownIDs puts "…" in the place of ids that the gateway has made up: they are others
// the next time. Those that come from the side that spoke are kept.
func ownIDs(s, source string, events bool) string {
	if !events {
		return withoutOwn(s, source)
	}
	var out strings.Builder
	r := newRedactor()
	for _, b := range split(s) {
		var kept []line
		for _, l := range b.lines {
			if !strings.HasPrefix(l.text, ":") { // comments are of the moment
				kept = append(kept, l)
			}
		}
		b.lines = kept
		r.write(&out, b, withoutOwn(b.data, source))
	}
	return out.String()
}

func withoutOwn(s, source string) string {
	n, err := parse(s)
	if err != nil {
		return s
	}
	var edits []edit
	ownOf(n, "", source, &edits)
	out, _ := apply(s, edits)
	return out
}

func ownOf(n *node, name, source string, edits *[]edit) {
	switch n.kind {
	case '{':
		for _, m := range n.members {
			ownOf(m.value, m.name, source, edits)
		}
	case '[':
		for _, v := range n.items {
			ownOf(v, name, source, edits)
		}
	case '"':
		if ids[name] && n.text != "" && !strings.Contains(source, `"`+n.text+`"`) {
			*edits = append(*edits, edit{n.start, n.end, `"…"`})
		}
	}
}

// settings are the lines of the section run.
func settings(x Exchange, texts Texts) string {
	mode := "whole"
	if x.Stream {
		mode = "stream"
	}
	lines := []string{fmt.Sprintf("cells %s>%s", x.Client, x.Upstream), "modes " + mode}
	recorded := fmt.Sprintf("recorded %d", x.Seen.Status)
	if x.Seen.Broken {
		recorded += " cut"
	}
	lines = append(lines, recorded)
	if texts == Masked {
		lines = append(lines, "masked")
	}
	if x.Configured {
		lines = append(lines, "configured")
	}
	if x.Answer.Broken {
		lines = append(lines, "reset")
	}
	if isModel(x.Asked) && isModel(x.Given) {
		lines = append(lines, "model "+x.Asked+" "+x.Given)
	}
	if path := pathOf(x); path != "" {
		lines = append(lines, "path "+path)
	}
	if f := x.Seen.Header.Get("Isogloss-Fidelity"); f != "" {
		lines = append(lines, "fidelity "+f)
	}
	for _, name := range []string{"Anthropic-Version", "Anthropic-Beta", "Openai-Beta", "Isogloss-Fidelity-Mode"} {
		if v := x.Header.Values(name); len(v) > 0 {
			lines = append(lines, "header "+name+": "+strings.Join(v, ","))
		}
	}
	return strings.Join(lines, "\n")
}

// versions of Gemini's paths.
var versions = []string{"v1", "v1alpha"}

// pathOf is where a client of Gemini's dialect has sent its request, where it is not
// where its SDK does.
func pathOf(x Exchange) string {
	if x.Client != conform.Gemini {
		return ""
	}
	first, _, _ := strings.Cut(strings.TrimPrefix(x.Path, "/"), "/")
	array := x.Stream && !x.Seen.streamed() && x.Seen.Status == http.StatusOK
	verb := "{verb}"
	if array {
		verb = "streamGenerateContent"
	}
	if !slices.Contains(versions, first) {
		first = "v1beta"
	}
	if first == "v1beta" && !array {
		return ""
	}
	return "/" + first + "/models/{model}:" + verb
}

// comment is for people. Its lines begin no section.
func comment(x Exchange) string {
	mode := "whole"
	if x.Stream {
		mode = "streamed"
	}
	title := fmt.Sprintf("Recorded: a client of %s on an upstream of %s, %s, answered with %d", x.Client, x.Upstream, mode, x.Seen.Status)
	lines := append([]string{title, ""}, x.Comment...)
	for i := range lines {
		lines[i] = marker.ReplaceAllString(strings.ReplaceAll(lines[i], "\n", " "), " $0")
	}
	return strings.Join(lines, "\n") + "\n"
}
