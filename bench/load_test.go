package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// play runs a job in this process and returns what it says.
func play(t *testing.T, j job, h http.Handler) []result {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	j.Addr = strings.TrimPrefix(s.URL, "http://")
	var out bytes.Buffer
	l := &loader{job: j, in: bufio.NewReader(strings.NewReader(strings.Repeat("go\n", 9))), out: json.NewEncoder(&out)}
	if err := l.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	var all []result
	for d := json.NewDecoder(&out); ; {
		var r result
		if err := d.Decode(&r); err == io.EOF {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
}

func upstreamMux() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("POST /v1/chat/completions", newPlayer(testrig.Chat, ""))
	mux.Handle("POST /v1/messages", newPlayer(testrig.Messages, "-a"))
	return mux
}

func chatJob(mode, model string, stream bool) job {
	j := newJob(mode, testrig.Chat, model, 2048, stream)
	j.Conns, j.Warm, j.Total = 4, 8, 20
	return j
}

func TestClosedLoad(t *testing.T) {
	whole := chatJob("closed", "whole-1024", false)
	whole.Bytes = 1024
	burst := chatJob("closed", "burst-30", true)
	burst.Events = 30
	messages := newJob("closed", testrig.Messages, "burst-30-a", 2048, true)
	messages.Events, messages.Conns, messages.Total = 30, 2, 20
	for name, c := range map[string]struct {
		job    job
		events int // of one answer: head, text and tail
	}{"whole": {whole, 0}, "chat": {burst, 33}, "messages": {messages, 36}} {
		got := play(t, c.job, upstreamMux())
		if len(got) != 2 || !got[0].Ready || got[1].Asked != 20 || got[1].Failed != 0 || got[1].Events != 20*c.events {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// The bare proxy passes on what it is given, so what is compared with it is fair.
func TestBareProxyCutsNothing(t *testing.T) {
	up := httptest.NewServer(upstreamMux())
	defer up.Close()
	target, err := url.Parse(up.URL)
	if err != nil {
		t.Fatal(err)
	}
	j := chatJob("closed", "burst-200", true)
	j.Events, j.Total, j.Conns = 200, 200, 16
	got := play(t, j, newBare(target, h1))
	if r := got[1]; r.Failed != 0 || r.Events != 200*203 {
		t.Errorf("%+v", r)
	}
}

func TestCutAnswersFail(t *testing.T) {
	w := newWire(testrig.Chat, 2)
	for name, c := range map[string]struct {
		stream bool
		answer func(http.ResponseWriter)
	}{
		"a stream without its end": {true, func(rw http.ResponseWriter) { _, _ = io.WriteString(rw, w.head+w.words[1]) }},
		"a stream that is cut": {true, func(rw http.ResponseWriter) {
			_, _ = io.WriteString(rw, w.head+w.words[1])
			_ = http.NewResponseController(rw).Flush()
			panic(http.ErrAbortHandler)
		}},
		"too few events":      {true, func(rw http.ResponseWriter) { _, _ = io.WriteString(rw, w.head+w.tail[false]) }},
		"a short answer":      {false, func(rw http.ResponseWriter) { _, _ = io.WriteString(rw, "{}") }},
		"a status of failure": {false, func(rw http.ResponseWriter) { rw.WriteHeader(http.StatusBadGateway) }},
	} {
		j := chatJob("closed", "burst-5", c.stream)
		j.Events, j.Bytes, j.Warm, j.Total = 5, 1024, 0, 10
		got := play(t, j, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			c.answer(rw)
		}))
		if r := got[1]; r.Failed < 10 || r.Error == "" {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// A proxy that does not translate must not pass for one that does.
func TestUpstreamRefusesTheOtherDialect(t *testing.T) {
	j := newJob("closed", testrig.Messages, "whole-1024", 100, false)
	j.Bytes, j.Conns, j.Total = 1024, 1, 1
	if r := play(t, j, upstreamMux())[1]; r.Failed == 0 || !strings.Contains(r.Error, "dialect") {
		t.Errorf("%+v", r)
	}
}

func TestLoadAtARate(t *testing.T) {
	j := chatJob("rate", "burst-5", true)
	j.Events, j.Rate, j.Seconds = 5, 500, 0.2
	r := play(t, j, upstreamMux())[1]
	if r.Asked != 100 || r.Failed != 0 || r.P50 <= 0 || r.P99 < r.P50 || r.First50 <= 0 || r.First50 > r.P99 {
		t.Errorf("%+v", r)
	}
	if r.Seconds < 0.15 {
		t.Errorf("100 requests at 500/s took %v s", r.Seconds)
	}
}

func TestHeldStreams(t *testing.T) {
	j := chatJob("hold", "paced-10", true)
	j.Stages, j.Seconds = []int{5, 20}, 0.2
	got := play(t, j, upstreamMux())
	if len(got) != 4 || got[1].Asked != 5 || got[3].Asked != 20 || got[3].Failed != 0 {
		t.Fatalf("%+v", got)
	}
	if got[1].Events == 0 || got[3].Events <= got[1].Events {
		t.Errorf("5 streams had %d events, 20 had %d", got[1].Events, got[3].Events)
	}
}

// A job for a large table asks for its models in turn.
func TestModelsOfATableInTurn(t *testing.T) {
	j := newJob("closed", testrig.Chat, tableModel(0), 100, false)
	seen := map[string]bool{}
	j.Models, j.Conns, j.Total = 10, 1, 10
	play(t, j, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		seen[modelOf(body)] = true
	}))
	if len(seen) != 10 || !seen[tableModel(9)] {
		t.Errorf("asked for %v", seen)
	}
}
