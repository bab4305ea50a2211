package conform

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// Target is what the runner's client calls.
type Target struct {
	BaseURL string
	Models  map[Dialect]string // the name that leads to the runner's upstream in that dialect
	Paths   map[Dialect]string // where they differ from DefaultPath
	Key     string             // the client's key
	Direct  bool               // there is no gateway: BaseURL is the upstream itself

	// AnyModel says that NAME/x leads to the model x of the same upstream.
	AnyModel bool
	// Configured says that the target has the settings that a recording needs.
	Configured bool
}

// suits says whether a case means anything to the target.
func (t Target) suits(c *Case) bool {
	if c.Recorded() {
		return !t.Direct && (t.Configured || !c.record.configured)
	}
	return !c.gateway || !t.Direct
}

// model is the name that leads to the cell's upstream. A recording asks for the same
// model as it did then, where it can: much depends on it.
func (t Target) model(cell Cell, c *Case) string {
	name := t.Models[cell.Upstream]
	if t.AnyModel && c.record.given != "" {
		return name + "/" + c.record.given
	}
	return name
}

// Serves says whether the target has a model for the cell's upstream.
func (t Target) Serves(c Cell) bool {
	return t.Models[c.Upstream] != "" && (!t.Direct || c.Same())
}

const clientTimeout = 20 * time.Second

// exchange is one request of a client and all that came of it.
type exchange struct {
	path     string
	asked    []byte
	status   int
	header   http.Header
	body     []byte
	broken   error // the transfer broke off
	took     time.Duration
	upstream []*request
}

func (t Target) url(c Cell, cs *Case) string {
	path := cmp.Or(cs.record.path, t.Paths[c.Client], c.Client.DefaultPath())
	verb := "generateContent"
	if c.Stream {
		verb = "streamGenerateContent?alt=sse"
	}
	path = strings.NewReplacer("{model}", t.model(c, cs), "{verb}", verb).Replace(path)
	return strings.TrimSuffix(t.BaseURL, "/") + path
}

// post sends a body and waits for the whole answer.
func (t Target) post(ctx context.Context, client *http.Client, c Cell, cs *Case, body []byte) *exchange {
	x := &exchange{path: t.url(c, cs), asked: body}
	ctx, cancel := context.WithTimeout(ctx, clientTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, x.path, strings.NewReader(string(body)))
	if err != nil {
		x.broken = err
		return x
	}
	req.Header.Set("Content-Type", "application/json")
	voiceOf(c.Client).credential(req.Header, t.Key)
	for _, h := range cs.headers {
		req.Header.Set(h[0], h[1])
	}
	began := time.Now()
	defer func() { x.took = time.Since(began) }()
	resp, err := client.Do(req)
	if err != nil {
		x.broken = err
		return x
	}
	defer func() { _ = resp.Body.Close() }()
	x.status = resp.StatusCode
	x.body, x.broken = io.ReadAll(resp.Body)
	x.header = resp.Header.Clone()
	for name, values := range resp.Trailer {
		x.header[name] = append(x.header[name], values...)
	}
	return x
}

// says tells whether the gateway owns up to a loss: the fidelity header is there
// and is not "exact", or the request was refused with a word for the feature.
func (x *exchange) says() bool {
	f := strings.TrimSpace(strings.Join(x.header.Values("Isogloss-Fidelity"), ","))
	return f != "" && f != "exact"
}

// dump is the exchange as text, for a look by eye.
func (x *exchange) dump() string {
	var b strings.Builder
	fmt.Fprintf(&b, ">>> client asks %s\n%s\n", x.path, x.asked)
	for _, r := range x.upstream {
		fmt.Fprintf(&b, "\n>>> upstream hears %s %s?%s\n%s\n", r.method, r.path, r.query, r.body)
	}
	fmt.Fprintf(&b, "\n<<< client sees %d\n", x.status)
	for name, values := range x.header {
		fmt.Fprintf(&b, "%s: %s\n", name, strings.Join(values, ", "))
	}
	fmt.Fprintf(&b, "\n%s\n", x.body)
	if x.broken != nil {
		fmt.Fprintf(&b, "\nbroken: %v\n", x.broken)
	}
	return b.String()
}
