package discover

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
)

// FuzzWorker checks that any value in etcd is either rejected, or is a worker that can be
// saved and whose address is in the allowed networks, also as a dialer parses it.
func FuzzWorker(f *testing.F) {
	for _, s := range []string{
		`{"id":"a","model":"m","protocol":"openai-chat","url":"http://10.0.0.1:8000/v1"}`,
		`{"id":"a","model":"m","protocol":"gemini","url":"https://[::ffff:10.0.0.1]","capacity":3,"weight":2,"name":"n","later":1}`,
		`{"id":"a","model":"m","protocol":"anthropic","url":"http://10.0.0.1@169.254.169.254/"}`,
		`{"id":"a","id":"a"}`, `[]`, `{"id":"a","model":"m","protocol":"openai-chat","url":"http://0x0a000001/"}`,
	} {
		f.Add([]byte(s))
	}
	nets := networks(f, "10.0.0.0/8")
	r := rules{networks: nets, protocols: []string{"openai-chat", "gemini", "anthropic"}}
	f.Fuzz(func(t *testing.T, value []byte) {
		w, err := parse("a", value)
		if err != nil || r.check(w) != nil {
			return
		}
		u, err := url.Parse(w.URL)
		if err != nil {
			t.Fatal(err)
		}
		addr, err := netip.ParseAddr(u.Hostname())
		if err != nil || !nets[0].Contains(addr.Unmap()) {
			t.Fatalf("%q is taken", w.URL)
		}
		text, err := json.Marshal(w)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := parse("a", text); err != nil || again != w {
			t.Fatalf("%+v became %+v, %v", w, again, err)
		}
	})
}

// pages responds to requests by their path, without a network.
type pages map[string]string

func (p pages) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(p[r.URL.Path])), Request: r}, nil
}

// FuzzLocal checks that whatever listens on the port of an engine yields a bounded number of workers that
// are on this machine and can be used.
func FuzzLocal(f *testing.F) {
	for _, s := range [][2]string{
		{`{"total_slots":1,"version":"0.12","data":[]}`, `{"data":[{"id":"smol","owned_by":"vllm"},{"id":"qwen3:latest"}]}`},
		{`{"total_slots":1}`, `{"data":[{"id":"a\u001b[31m"},{"id":""},{"id":"\ud800"},{"ID":"b","id":"c"}]}`},
		{`{"version":null}`, `{"data":[{"id":"/../../v1#?@169.254.169.254"},{"id":"*"}]}`},
		{`[]`, `{"data":{"id":"a"}}`}, {`{"data":1}`, `null`},
	} {
		f.Add(s[0], s[1])
	}
	r := rules{networks: networks(f, "127.0.0.0/8"), protocols: []string{"openai-chat"}}
	f.Fuzz(func(t *testing.T, sign, list string) {
		for _, e := range Engines() {
			l := newLocal(LocalOptions{Engines: []Engine{e}})
			l.client.Transport = pages{e.Sign: sign, "/v1/models": list}
			found := l.askAll(t.Context())[0].workers
			if len(found) > 2*maxModels {
				t.Fatalf("%d workers", len(found))
			}
			for _, w := range found {
				if err := r.check(w); err != nil && !strings.Contains(w.Model, "*") && w.Model != "" {
					t.Fatalf("%+v: %v", w, err)
				}
				if want := fmt.Sprintf("http://127.0.0.1:%d/v1", e.Port); w.URL != want {
					t.Fatalf("it is at %s", w.URL)
				}
			}
		}
	})
}

// TestLocalManyModels checks that a program on the port of an engine can list only so many models.
func TestLocalManyModels(t *testing.T) {
	var list strings.Builder
	for n := range 100_000 {
		fmt.Fprintf(&list, `,{"id":"m%d","owned_by":"vllm"}`, n)
	}
	l := newLocal(LocalOptions{Engines: enginesAt(8000, "vllm")})
	l.client.Transport = pages{"/v1/models": `{"data":[` + list.String()[1:] + `]}`}
	ctx, cancel := context.WithCancel(t.Context())
	l.Watch(ctx, func(c Change) {
		if cancel(); len(c.Put) != maxModels {
			t.Errorf("%d workers", len(c.Put))
		}
	})
}
