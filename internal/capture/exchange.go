package capture

import (
	"bytes"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// Exchange is one request with its answer, on both sides of the gateway.
type Exchange struct {
	ID      string      `json:"id"`
	Time    time.Time   `json:"time"`
	Version string      `json:"version"` // of the gateway
	Model   string      `json:"model"`   // as the client asked for it
	Route   string      `json:"route"`
	Client  string      `json:"client"` // the client's protocol
	Path    string      `json:"path"`   // without what may hold a key
	Stream  bool        `json:"stream"`
	Header  http.Header `json:"header"`
	Ask     []byte      `json:"ask"`

	Tries []*Try `json:"tries"`
	Taken int    `json:"taken"` // the try whose answer the client got; -1 where none was sent

	Upstream   string      `json:"upstream"` // protocol of the target, also where it was not asked
	Status     int         `json:"status"`
	SeenHeader http.Header `json:"seen_header"`
	Seen       []byte      `json:"seen"`
	Fidelity   string      `json:"fidelity"`
	Error      string      `json:"error,omitempty"` // the kind of it
	Special    []string    `json:"special,omitempty"`
	Joined     bool        `json:"joined,omitempty"` // the answer is of several tries

	secrets []string
	once    sync.Once
}

// Try is one attempt upstream.
type Try struct {
	Target   string      `json:"target"`
	Protocol string      `json:"protocol"`
	Model    string      `json:"model"`
	Path     string      `json:"path"`
	Header   http.Header `json:"header"`
	Body     []byte      `json:"body"`

	Status       int         `json:"status"` // 0 where nothing was answered
	AnswerHeader http.Header `json:"answer_header"`
	Answer       []byte      `json:"answer"`
	Broken       bool        `json:"broken,omitempty"` // the answer broke off

	tape *Tape
}

// kept are the headers that are taken. What is not here is not looked at, so a new
// way to send a credential is not taken along.
var kept = []string{
	"Accept", "Content-Type", "Content-Encoding", "User-Agent", "Anthropic-Version", "Anthropic-Beta", "Openai-Beta",
	"Retry-After", "Retry-After-Ms", "X-Should-Retry",
	"Isogloss-Fidelity-Mode", "Isogloss-Criticality", "Isogloss-Target", "Isogloss-Attempts", "Isogloss-Fidelity",
}

func headers(h http.Header) http.Header {
	out := http.Header{}
	for _, name := range kept {
		if v := h[name]; len(v) > 0 {
			out[name] = slices.Clone(v)
		}
	}
	return out
}

// shortest is the length from which on a credential is cut out wherever it stands. A
// shorter one is a placeholder, and a word of many texts.
const shortest = 6

// clean cuts credentials out of everything that was taken, before any of it leaves
// the process.
func (x *Exchange) clean() { x.once.Do(x.cut) }

func (x *Exchange) cut() {
	for _, s := range x.secrets {
		if len(s) < shortest {
			continue
		}
		cut := func(b []byte) []byte { return bytes.ReplaceAll(b, []byte(s), []byte("***")) }
		text := func(t string) string { return strings.ReplaceAll(t, s, "***") }
		x.Ask, x.Seen, x.Path = cut(x.Ask), cut(x.Seen), text(x.Path)
		all := []http.Header{x.Header, x.SeenHeader}
		for _, t := range x.Tries {
			t.Body, t.Answer, t.Path = cut(t.Body), cut(t.Answer), text(t.Path)
			all = append(all, t.Header, t.AnswerHeader)
		}
		for _, h := range all {
			for _, values := range h {
				for i := range values {
					values[i] = text(values[i])
				}
			}
		}
	}
}
