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

// Exchange is a client request and its upstream request, with their responses.
type Exchange struct {
	Comment       []string // lines for readers
	Client        conform.Dialect
	Upstream      conform.Dialect
	Stream        bool
	ClientModel   string // the model name in the client request
	UpstreamModel string // the model name in the upstream request
	Path          string // the path of the client request
	Header        http.Header
	Configured    bool // the exchange depends on settings of the gateway

	Request          []byte
	UpstreamRequest  []byte // nil if there was no upstream request
	UpstreamResponse Response
	ClientResponse   Response
}

// Response is an HTTP response.
type Response struct {
	Status int
	Header http.Header
	Body   []byte
	Broken bool // the body is incomplete
}

func (a Response) streamed() bool {
	kind, _, _ := strings.Cut(a.Header.Get("Content-Type"), ";")
	return strings.TrimSpace(strings.ToLower(kind)) == "text/event-stream"
}

// ErrNoResponse means that the upstream sent no response, so the exchange cannot be replayed.
var ErrNoResponse = errors.New("the upstream sent no response, so the exchange cannot be replayed")

// Texts is the treatment of message texts.
type Texts int

// The treatments.
const (
	Masked Texts = iota // masked
	Clear               // kept
)

// Write writes the exchange as a case.
func Write(x Exchange, texts Texts) ([]byte, error) {
	if x.UpstreamRequest != nil && x.UpstreamResponse.Status == 0 {
		return nil, ErrNoResponse
	}
	if texts == Masked {
		x = masked(x)
	}
	f := &file{}
	f.add("ask."+string(x.Client)+".json", requestBody(x))
	if x.UpstreamRequest != nil {
		f.add("heard."+string(x.Upstream)+".json", ownIDs(string(x.UpstreamRequest), string(x.Request), false))
		f.response(x)
	}
	ext := ".json"
	if x.ClientResponse.streamed() {
		ext = ".sse"
	}
	f.add("seen."+string(x.Client)+ext, ownIDs(string(x.ClientResponse.Body), string(x.UpstreamResponse.Body), ext == ".sse"))
	f.add("run", settings(x, texts))
	f.archive.Comment = []byte(comment(x))
	text := txtar.Format(&f.archive)
	if _, err := conform.ParseCase("recorded", text); err != nil {
		return nil, fmt.Errorf("the exchange cannot be written as a case: %w", err)
	}
	return text, nil
}

// masked returns the exchange without its content.
func masked(x Exchange) Exchange {
	r := newRedactor()
	r.declare(string(x.Request))
	r.declare(string(x.UpstreamRequest))
	x.Request = []byte(r.document(string(x.Request)))
	if x.UpstreamRequest != nil {
		x.UpstreamRequest = []byte(r.document(string(x.UpstreamRequest)))
	}
	for _, a := range []*Response{&x.UpstreamResponse, &x.ClientResponse} {
		if a.streamed() {
			a.Body = []byte(r.stream(string(a.Body)))
		} else {
			a.Body = []byte(r.document(string(a.Body)))
		}
	}
	x.Header = known(x.Header)
	return x
}

// headerForms maps the headers to keep to the form of their values.
var headerForms = map[string]*regexp.Regexp{
	"Anthropic-Version":      regexp.MustCompile(`^\d{4}-\d{2}-\d{2}$`),
	"Anthropic-Beta":         regexp.MustCompile(`^[a-z0-9-]+-\d{4}-\d{2}-\d{2}(, ?[a-z0-9-]+-\d{4}-\d{2}-\d{2})*$`),
	"Openai-Beta":            regexp.MustCompile(`^[a-z_]+=v\d+$`),
	"Isogloss-Fidelity-Mode": regexp.MustCompile(`^[a-z]+$`),
}

// known returns the headers of headerForms.
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

// requestBody returns the body of the client request with $MODEL as its model.
func requestBody(x Exchange) string {
	s := string(x.Request)
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

// file collects the sections of a case.
type file struct{ archive txtar.Archive }

var marker = regexp.MustCompile(`(?m)^-- .* --`)

func (f *file) add(name, text string) {
	// A space keeps a line of the text from beginning a section.
	text = marker.ReplaceAllString(text, " $0")
	if !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	f.archive.Files = append(f.archive.Files, txtar.File{Name: name, Data: []byte(text)})
}

func (f *file) response(x Exchange) {
	name := "answer." + string(x.Upstream)
	a := x.UpstreamResponse
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

// retryForm matches the values of retry headers.
var retryForm = regexp.MustCompile(`^([0-9.]+|true|false|[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} [0-9:]{8} GMT)$`)

// ownIDs replaces ids that are not in source with "…". The gateway made them up, so they
// differ in the next run.
func ownIDs(s, source string, events bool) string {
	if !events {
		return withoutOwn(s, source)
	}
	var out strings.Builder
	r := newRedactor()
	for _, b := range split(s) {
		var kept []line
		for _, l := range b.lines {
			if !strings.HasPrefix(l.text, ":") { // comments depend on timing
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

// settings returns the lines of the section run.
func settings(x Exchange, texts Texts) string {
	mode := "whole"
	if x.Stream {
		mode = "stream"
	}
	lines := []string{fmt.Sprintf("cells %s>%s", x.Client, x.Upstream), "modes " + mode}
	recorded := fmt.Sprintf("recorded %d", x.ClientResponse.Status)
	if x.ClientResponse.Broken {
		recorded += " cut"
	}
	lines = append(lines, recorded)
	if texts == Masked {
		lines = append(lines, "masked")
	}
	if x.Configured {
		lines = append(lines, "configured")
	}
	if x.UpstreamResponse.Broken {
		lines = append(lines, "reset")
	}
	if isModel(x.ClientModel) && isModel(x.UpstreamModel) {
		lines = append(lines, "model "+x.ClientModel+" "+x.UpstreamModel)
	}
	if path := pathOf(x); path != "" {
		lines = append(lines, "path "+path)
	}
	if f := x.ClientResponse.Header.Get("Isogloss-Fidelity"); f != "" {
		lines = append(lines, "fidelity "+f)
	}
	for _, name := range []string{"Anthropic-Version", "Anthropic-Beta", "Openai-Beta", "Isogloss-Fidelity-Mode"} {
		if v := x.Header.Values(name); len(v) > 0 {
			lines = append(lines, "header "+name+": "+strings.Join(v, ","))
		}
	}
	return strings.Join(lines, "\n")
}

// versions lists the versions in Gemini's paths besides v1beta.
var versions = []string{"v1", "v1alpha"}

// pathOf returns the path of a Gemini request, or "" if it is the SDK's path.
func pathOf(x Exchange) string {
	if x.Client != conform.Gemini {
		return ""
	}
	first, _, _ := strings.Cut(strings.TrimPrefix(x.Path, "/"), "/")
	array := x.Stream && !x.ClientResponse.streamed() && x.ClientResponse.Status == http.StatusOK
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

// comment returns the text above the sections.
func comment(x Exchange) string {
	mode := "whole"
	if x.Stream {
		mode = "streamed"
	}
	title := fmt.Sprintf("Recorded: a client of %s on an upstream of %s, %s, answered with %d", x.Client, x.Upstream, mode, x.ClientResponse.Status)
	lines := append([]string{title, ""}, x.Comment...)
	for i := range lines {
		lines[i] = marker.ReplaceAllString(strings.ReplaceAll(lines[i], "\n", " "), " $0")
	}
	return strings.Join(lines, "\n") + "\n"
}
