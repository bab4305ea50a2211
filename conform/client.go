package conform

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Target is the server that the runner's client calls.
type Target struct {
	BaseURL string
	Models  map[Dialect]string // the model name that is routed to the runner's upstream in that dialect
	Paths   map[Dialect]string // the paths that differ from DefaultPath
	Key     string             // the client's key
	Direct  bool               // there is no gateway: BaseURL is the upstream itself

	// AnyModel means that NAME/x is the model x of the same upstream.
	AnyModel bool
	// Configured means that the target has the settings that a recording needs.
	Configured bool
}

// suits reports whether a case applies to the target.
func (t Target) suits(c *Case) bool {
	if c.Recorded() {
		return !t.Direct && (t.Configured || !c.record.configured)
	}
	return !c.gateway || !t.Direct
}

// model returns the model name of the cell's upstream. A recording uses its original
// model where the target allows it.
func (t Target) model(cell Cell, c *Case) string {
	name := t.Models[cell.Upstream]
	if t.AnyModel && c.record.upstreamModel != "" {
		return name + "/" + c.record.upstreamModel
	}
	return name
}

// Serves reports whether the target has a model for the cell's upstream.
func (t Target) Serves(c Cell) bool {
	return t.Models[c.Upstream] != "" && (!t.Direct || c.Same())
}

const clientTimeout = 3 * time.Minute

// exchange is a client request and its result.
type exchange struct {
	path     string
	sent     []byte
	status   int
	header   http.Header
	body     []byte
	broken   error // why the transfer failed
	took     time.Duration
	upstream []*upstreamRequest
}

func (t Target) url(c Cell, cs *Case) string {
	path := cmp.Or(cs.record.path, t.Paths[c.Client], c.Client.DefaultPath())
	model, verb := t.model(c, cs), "generateContent"
	switch {
	case c.Client == Converse && c.Stream:
		model, verb = url.PathEscape(model), converseStream
	case c.Client == Converse:
		model, verb = url.PathEscape(model), converseVerb
	case c.Stream:
		verb = "streamGenerateContent?alt=sse"
	}
	path = strings.NewReplacer("{model}", model, "{verb}", verb).Replace(path)
	return strings.TrimSuffix(t.BaseURL, "/") + path
}

// post sends a body and reads the complete response.
func (t Target) post(ctx context.Context, client *http.Client, c Cell, cs *Case, body []byte) *exchange {
	x := &exchange{path: t.url(c, cs), sent: body}
	ctx, cancel := context.WithTimeout(ctx, clientTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, x.path, strings.NewReader(string(body)))
	if err != nil {
		x.broken = err
		return x
	}
	req.Header.Set("Content-Type", "application/json")
	codecOf(c.Client).credential(req.Header, t.Key)
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
		if len(values) > 0 { // a trailer is later than a header of the same name
			x.header[name] = values
		}
	}
	return x
}

// reportsLoss reports whether the header or trailer Isogloss-Fidelity is present and not "exact".
func (x *exchange) reportsLoss() bool {
	f := strings.TrimSpace(strings.Join(x.header.Values("Isogloss-Fidelity"), ","))
	return f != "" && f != "exact"
}

// dump returns the exchange as text, for inspection.
func (x *exchange) dump() string {
	var b strings.Builder
	fmt.Fprintf(&b, ">>> client request %s\n%s\n", x.path, x.sent)
	for _, r := range x.upstream {
		fmt.Fprintf(&b, "\n>>> upstream request %s %s?%s\n%s\n", r.method, r.path, r.query, r.body)
		if r.reply != nil {
			fmt.Fprintf(&b, "\n<<< upstream response\n%s\n", r.reply)
		}
	}
	fmt.Fprintf(&b, "\n<<< client response %d\n", x.status)
	for name, values := range x.header {
		fmt.Fprintf(&b, "%s: %s\n", name, strings.Join(values, ", "))
	}
	fmt.Fprintf(&b, "\n%s\n", x.body)
	if x.broken != nil {
		fmt.Fprintf(&b, "\nbroken: %v\n", x.broken)
	}
	return b.String()
}
