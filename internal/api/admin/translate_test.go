package admin

import (
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/isogloss-gateway/isogloss/internal/ledger/store"
	"github.com/isogloss-gateway/isogloss/internal/people/access"
	"github.com/isogloss-gateway/isogloss/internal/request/translation"
	"github.com/isogloss-gateway/isogloss/llm"
)

// examples are those of the console's page, by dialect and kind.
func examples(t *testing.T) map[string]map[string]string {
	t.Helper()
	text, err := os.ReadFile("../../../console/src/pages/translate-examples.json")
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]map[string]string
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	return all
}

// translate sends a body and returns its translations.
func (w *world) translate(key, dialect, kind, body string) []translationView {
	w.t.Helper()
	text, err := json.Marshal(translateBody{Dialect: dialect, Kind: kind, Body: body})
	w.must(err)
	return read[translationList](w.t, w.send(key, "POST", TranslatePath, string(text)), 200).Translations
}

// TestTranslate translates an example of every dialect and kind to every other dialect, and compares
// with the command.
func TestTranslate(t *testing.T) {
	w := newWorld(t).serve()
	key := w.operator(access.KeyManager, "a")
	names := translation.Dialects()
	all, lossy := examples(t), 0
	for _, from := range names {
		for _, kind := range []string{"request", "response", "stream"} {
			in := all[from][kind]
			list := w.translate(key, from, kind, in)
			if len(list) != len(names)-1 {
				t.Fatalf("%s %s: %d translations", from, kind, len(list))
			}
			for _, got := range list {
				want, err := translation.Translation{From: from, To: got.Dialect, Kind: kind, Mode: llm.Default}.Run([]byte(in))
				if err != nil || got.Error != nil || got.Text == "" || got.Dialect == from {
					t.Errorf("%s %s to %s: %v %+v", from, kind, got.Dialect, err, got)
					continue
				}
				if got.Text != string(want.Body) || got.Path != want.Path || len(got.Losses) != len(want.Losses) {
					t.Errorf("%s %s to %s differs from the command: %+v, %+v", from, kind, got.Dialect, got, want)
				}
				for i, l := range got.Losses {
					if want.Losses[i] != (llm.Loss{Path: l.Path, Verdict: llm.Verdict(l.Verdict), Code: l.Code, Note: l.Note}) {
						t.Errorf("%+v, want %+v", l, want.Losses[i])
					}
				}
				lossy += len(got.Losses)
			}
		}
	}
	if lossy < 40 { // the examples are there to show losses
		t.Errorf("%d losses", lossy)
	}
	log, err := w.store.AuditLog(t.Context(), store.AuditQuery{Limit: 10})
	if err != nil || len(log) != 0 {
		t.Errorf("%v %v: the audit log has entries", log, err)
	}
}

// TestTranslateOdd sends what is no valid body in its dialect. It must return an error for each dialect,
// or what it could read, within the time limit.
func TestTranslateOdd(t *testing.T) {
	w := newWorld(t).serve()
	key := w.operator(access.Auditor, "")
	all := examples(t)
	deep := strings.Repeat("[", 9000) + strings.Repeat("]", 9000)
	for name, c := range map[string]struct{ dialect, kind, body, code string }{
		"refused":           {"openai-chat", "request", `{"model":"m","messages":[{"role":"user","content":"x"}],"n":3,"modalities":["audio"],"audio":{"voice":"alloy","format":"wav"}}`, "unsupported_parameter"},
		"no JSON":           {"openai-chat", "request", `{"model":`, ""},
		"HTML":              {"gemini", "response", `<html>`, ""},
		"empty":             {"anthropic", "request", ``, ""},
		"another dialect":   {"anthropic", "request", all["gemini"]["request"], ""},
		"deep request":      {"openai-responses", "request", `{"model":"m","input":` + deep + `}`, ""},
		"deep response":     {"anthropic", "response", `{"content":` + deep + `}`, ""},
		"an array":          {"openai-chat", "response", `[]`, ""},
		"response, kind of": {"openai-chat", "response", all["openai-chat"]["stream"], ""},
	} {
		for _, got := range w.translate(key, c.dialect, c.kind, c.body) {
			if c.code == "unsupported_parameter" && got.Dialect != "anthropic" {
				continue // other dialects can express a part
			}
			if got.Error == nil || got.Error.Message == "" || got.Error.Code == "" || c.code != "" && got.Error.Code != c.code {
				t.Errorf("%s to %s: %+v", name, got.Dialect, got)
			}
		}
	}
	for _, body := range []string{
		`{"model":"m","messages":[{"role":"user","content":"\ud800"}]}`, `{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("x", 900<<10) + `"}]}`,
	} {
		for _, got := range w.translate(key, "openai-chat", "request", body) {
			if got.Error == nil && got.Text == "" {
				t.Errorf("%s: neither a text nor an error", got.Dialect)
			}
		}
	}
}

// TestTranslateCut cuts streams at every event and within, and sends large ones.
func TestTranslateCut(t *testing.T) {
	w := newWorld(t).serve()
	key := w.operator(access.Billing, "a")
	all := examples(t)
	for dialect, kinds := range all {
		stream := kinds["stream"]
		for at := 0; at < len(stream); at += 1 + len(stream)/25 {
			if list := w.translate(key, dialect, "stream", stream[:at]); len(list) != len(all)-1 {
				t.Errorf("%s cut at %d: %+v", dialect, at, list)
			}
		}
	}
	delta := "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\n"
	const parts = 8
	for name, stream := range map[string]func(size int) string{
		"many events": func(n int) string { return strings.Repeat(delta, 900*n/(len(delta)+20)) }, // quotes and line ends need two bytes in JSON
		"one event": func(n int) string {
			return "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"" + strings.Repeat("b", 900*n) + "\"}}]}\n\n"
		},
		"one line": func(n int) string { return strings.Repeat("c", 1000*n) },
	} {
		began := time.Now()
		list := w.translate(key, "openai-chat", "stream", stream(1<<10))
		large := time.Since(began)
		began = time.Now()
		for range parts {
			w.translate(key, "openai-chat", "stream", stream(1<<10/parts))
		}
		// Small streams of the same size together take as long, and an eighth if the time grows with the square.
		if control := time.Since(began); large > 4*control+time.Second || len(list) != len(all)-1 {
			t.Errorf("%s: %v, and %d small streams %v; %d translations", name, large, parts, control, len(list))
		}
	}
}

func TestTranslateRefuses(t *testing.T) {
	w := newWorld(t).serve()
	key := w.operator(access.Owner, "")
	for body, status := range map[string]int{
		`{"dialect":"latin","kind":"request","body":"{}"}`:                                             422,
		`{"dialect":"gemini","kind":"letter","body":"{}"}`:                                             422,
		`{"dialect":"gemini","kind":"request","body":{}}`:                                              422,
		`{"dialect":"gemini","kind":"request"}`:                                                        422,
		`{"dialect":"gemini","kind":"request","body":"{}","url":"http://127.0.0.1"}`:                   422,
		`{"dialect":"gemini","kind":"request","body":"`:                                                400,
		`{"dialect":"gemini","kind":"stream","body":"` + strings.Repeat("x", 1<<20) + `"}`:             413,
		`{"dialect":"gemini","kind":"request","model":"` + strings.Repeat("m", 201) + `","body":"{}"}`: 422,
	} {
		if g := w.send(key, "POST", TranslatePath, body); g.status != status {
			t.Errorf("%.100s: %d, want %d: %.200s", body, g.status, status, g.body)
		}
	}
}

// TestTranslateWithoutStore checks that the operation works without an operator, and not for pages of
// other origins.
func TestTranslateWithoutStore(t *testing.T) {
	server := httptest.NewServer(NewTranslate(Options{Loopback: true}))
	t.Cleanup(server.Close)
	w := &world{t: t, url: server.URL}
	if list := w.translate("", "gemini", "request", examples(t)["gemini"]["request"]); len(list) != len(translation.Dialects())-1 || list[0].Error != nil {
		t.Errorf("%+v", list)
	}
	const body = `{"dialect":"gemini","kind":"request","body":"{}"}`
	for name, c := range map[string]struct {
		edit   func(*http.Request)
		status int
	}{
		"other origin": {func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }, 403},
		"other host":   {func(r *http.Request) { r.Host = "evil.example" }, 403},
		"text":         {func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") }, 415},
		"JSON":         {func(*http.Request) {}, 200},
	} {
		if g := w.send("", "POST", TranslatePath, body, c.edit); g.status != c.status {
			t.Errorf("%s: %d, want %d: %s", name, g.status, c.status, g.body)
		}
	}
}
