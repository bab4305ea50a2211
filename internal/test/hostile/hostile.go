// Package hostile makes answers that no honest server sends, for tests of whatever reads answers
// from outside.
package hostile

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
)

// Server answers as a client must not trust. Set Answer before each request.
type Server struct {
	Answer Answer
	// Stuck receives a value when an answer has begun that does not end by itself.
	Stuck chan struct{}
	// Sent counts the bytes of endless answers, except for packed ones: the network has room for all of
	// their bytes, whether the client reads them or not.
	Sent atomic.Int64
}

// New returns a server without an answer.
func New() *Server { return &Server{Stuck: make(chan struct{}, 100)} }

// Try tries each answer with a client. try gets a server that gives it, and a context that ends if the answer does not end by
// itself. Try fails if much of an answer was read, or if a request went elsewhere. It returns the number of answers.
func Try(t testing.TB, answers func(elsewhere string) []Answer, try func(ctx context.Context, s *Server)) int {
	t.Helper()
	var astray atomic.Int64
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { astray.Add(1) }))
	defer elsewhere.Close()
	all := answers(elsewhere.URL)
	for _, a := range all {
		s := New()
		s.Answer = a
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			select {
			case <-s.Stuck:
				cancel()
			case <-ctx.Done():
			}
		}()
		try(ctx, s)
		cancel()
		if n := s.Sent.Load(); n > Bounded {
			t.Errorf("%s: %d bytes were read", a.Name, n)
		}
		if astray.Swap(0) > 0 {
			t.Errorf("%s: a request went elsewhere", a.Name)
		}
	}
	return len(all)
}

// Answer is one hostile answer.
type Answer struct {
	Name  string
	Text  string // of a body that is sent as it is; empty for other answers
	serve func(s *Server, w http.ResponseWriter, r *http.Request)
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body) // else the server does not notice that the client leaves
	s.Answer.serve(s, w, r)
}

// Answers returns answers that differ from an honest JSON object in one place each, and answers that
// are wrong as a whole. elsewhere is the address to which some redirect.
func Answers(honest, elsewhere string) []Answer {
	all := append(wholes(honest, elsewhere), endless()...)
	var object map[string]any
	if err := json.Unmarshal([]byte(honest), &object); err != nil {
		panic("hostile: the honest answer is no JSON object: " + err.Error())
	}
	for _, at := range places(object, nil) {
		for _, value := range Values() {
			text := changed(object, at, json.RawMessage(value))
			all = append(all, Fixed(strings.Join(at, ".")+" is "+Clip(value), text))
		}
		all = append(all, Fixed(strings.Join(at, ".")+" is missing", changed(object, at, nil)))
	}
	return all
}

// Values returns JSON values that hardly any member may have.
func Values() []string {
	texts := []string{`null`, `true`, `-1`, `0`, `1.5`, `1e999`, `-1e999`, `9223372036854775807`, `-9223372036854775808`, `99999999999999999999999999`,
		`""`, `"-1"`, `"9223372036854775807"`, `"\u0000\u001b[31m\u202e\n"`, `"` + "\xff\xfe" + `"`, `[]`, `{}`, `[1,"a",null]`, `{"a":{"a":null}}`,
		strings.Repeat("[", 9000) + strings.Repeat("]", 9000), `"` + strings.Repeat("a", 200<<10) + `"`}
	for _, date := range []string{"0001-01-01T00:00:00Z", "1969-12-31T23:59:59Z", "2000-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "2026-13-45T99:99:99Z"} {
		texts = append(texts, `"`+date+`"`)
	}
	return texts
}

// wholes returns answers that are wrong as a whole.
func wholes(honest, elsewhere string) []Answer {
	all := []Answer{
		Fixed("empty", ""), Fixed("null", "null"), Fixed("list", "["+honest+"]"), Fixed("two", honest+honest), Fixed("page", "<html>"), Fixed("not UTF-8", "\xff\xfe\x00"),
		Fixed("cut", honest[:len(honest)/2]), Fixed("nested", strings.Repeat(`{"a":`, 100_000)),
		{"cut by the connection", "", func(_ *Server, w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", fmt.Sprint(len(honest)+10))
			_, _ = io.WriteString(w, honest)
		}},
		{"slow", "", func(s *Server, w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, honest[:1])
			_ = http.NewResponseController(w).Flush()
			s.wait(r)
		}},
		{"silent", "", func(s *Server, _ http.ResponseWriter, r *http.Request) { s.wait(r) }},
	}
	for _, status := range []int{301, 302, 303, 307, 308} {
		all = append(all, Answer{fmt.Sprint("redirect ", status), "", func(_ *Server, w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", elsewhere+r.URL.Path)
			w.WriteHeader(status)
		}})
	}
	return all
}

// endless returns answers without an end.
func endless() (all []Answer) {
	for name, start := range map[string]string{"spaces": " ", "text": `{"a":"`, "list": `[`, "members": `{`} {
		part := map[string]string{"spaces": "    ", "text": "aaaa", "list": "1,1,", "members": `"a":1,`}[name]
		all = append(all, Answer{"endless " + name, "", func(s *Server, w http.ResponseWriter, _ *http.Request) { flood(w, start, part, &s.Sent) }})
	}
	return append(all, Answer{"endless packed spaces", "", func(s *Server, w http.ResponseWriter, r *http.Request) {
		if !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			flood(w, " ", "    ", &s.Sent)
			return
		}
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		flood(z, " ", "    ", new(atomic.Int64))
		_ = z.Close()
	}})
}

// Bounded is the largest number of bytes that a server sends to a client with a bound. The client itself reads a few of them;
// the buffers of a connection take up to ten megabytes, and a library tries several times. Without a bound it is a gigabyte.
const Bounded = 128 << 20

// most is the number of bytes after which an endless answer ends nevertheless.
const most = 1 << 30

// flood writes until the client leaves, and counts the bytes.
func flood(w io.Writer, start, part string, count *atomic.Int64) {
	_, err := io.WriteString(w, start)
	block := []byte(strings.Repeat(part, 16<<10))
	for sent := 0; err == nil && sent < most; sent += len(block) {
		count.Add(int64(len(block)))
		_, err = w.Write(block)
	}
}

// wait tells the test that the answer is stuck, and ends with the client.
func (s *Server) wait(r *http.Request) {
	select {
	case s.Stuck <- struct{}{}:
	default:
	}
	<-r.Context().Done()
}

// Fixed returns an answer with a body.
func Fixed(name, text string) Answer {
	return Answer{name, text, func(_ *Server, w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) }}
}

// Failing returns an answer with a status and a body.
func Failing(name string, status int, text string) Answer {
	return Answer{name, text, func(_ *Server, w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
	}}
}

// places returns the paths of all values in an object.
func places(object map[string]any, above []string) (all [][]string) {
	for _, name := range slices.Sorted(maps.Keys(object)) {
		at := append(slices.Clone(above), name)
		all = append(all, at)
		if inner, ok := object[name].(map[string]any); ok {
			all = append(all, places(inner, at)...)
		}
	}
	return all
}

// changed returns the text of an object with another value at a path, or without it.
func changed(object map[string]any, at []string, value json.RawMessage) string {
	out := maps.Clone(object)
	if len(at) > 1 {
		out[at[0]] = json.RawMessage(changed(out[at[0]].(map[string]any), at[1:], value)) //nolint:forcetypeassert // a path leads through objects
		return members(out)
	}
	delete(out, at[0])
	if value != nil {
		out[at[0]] = value
	}
	return members(out)
}

// members writes an object. Raw values stay as they are, even if they are not JSON.
func members(object map[string]any) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(object)) {
		text, raw := object[name].(json.RawMessage)
		if !raw {
			text, _ = json.Marshal(object[name])
		}
		list = append(list, fmt.Sprintf("%q:%s", name, text))
	}
	return "{" + strings.Join(list, ",") + "}"
}

// Clip returns the beginning of a text, for the name of an answer.
func Clip(text string) string { return fmt.Sprintf("%.40q", text) }
