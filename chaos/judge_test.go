package main

import (
	"net/http"
	"strings"
	"testing"
)

func streamOf(body string) heard {
	return heard{status: 200, header: http.Header{"Content-Type": {"text/event-stream; charset=utf-8"}}, body: []byte(body)}
}

func bodyOf(status int, body string) heard {
	return heard{status: status, header: http.Header{"Content-Type": {jsonMedia}}, body: []byte(body)}
}

// Whatever the upstream calls whole is whole to the judge.
func TestHealthyAnswersAreWhole(t *testing.T) {
	for _, d := range dialects() {
		a := answer{d, wordsOf("good")}
		for name, v := range map[string]verdict{
			"stream": judge(d, streamOf(strings.Join(a.stream().all(), "")), true),
			"whole":  judge(d, bodyOf(200, a.whole()), false),
		} {
			if !v.whole() || v.text != textOf("good") {
				t.Errorf("%s, %s: %s", d, name, v)
			}
		}
	}
}

// A stream that is cut anywhere before its proof does not look whole with an error
// event after it, and does without one.
func TestCutStreams(t *testing.T) {
	for _, d := range dialects() {
		s := answer{d, wordsOf("bad")}.stream()
		begun := strings.Join(append(append([]string{}, s.head...), s.words[:5]...), "")
		if v := judge(d, streamOf(begun), true); v.whole() || !v.looksWhole() {
			t.Errorf("%s: a stream that just ends: %s", d, v)
		}
		v := judge(d, streamOf(begun+d.faultEvent(500, "died")), true)
		if v.whole() || v.looksWhole() || v.fault != "died" || v.odd != "" || v.text != strings.Join(wordsOf("bad")[:5], "") {
			t.Errorf("%s: a stream that ends in an error: %s", d, v)
		}
		if v := judge(d, streamOf(begun+d.faultEvent(500, "died")+strings.Join(s.tail, "")), true); !v.looksWhole() {
			t.Errorf("%s: an end after the error: %s", d, v)
		}
		if v := judge(d, streamOf(begun+"data: {\"half"), true); v.odd == "" {
			t.Errorf("%s: half an event: %s", d, v)
		}
		if v := judge(d, streamOf(begun+"data: {\"half\n\n"), true); v.odd == "" {
			t.Errorf("%s: an event of half an object: %s", d, v)
		}
	}
}

func TestErrorsOfADialect(t *testing.T) {
	for _, d := range dialects() {
		if v := judge(d, bodyOf(503, d.fault(503, "busy")), false); v.fault != "busy" || v.odd != "" || v.whole() {
			t.Errorf("%s: its own error: %s", d, v)
		}
		if v := judge(d, bodyOf(200, d.fault(503, "busy")), false); v.odd == "" {
			t.Errorf("%s: an error with status 200: %s", d, v)
		}
		for _, body := range []string{"", "<html>", "{}", `{"error":{}}`, `{"error":"busy"}`} {
			if v := judge(d, bodyOf(502, body), true); v.odd == "" {
				t.Errorf("%s: %q passes for an error: %s", d, body, v)
			}
		}
	}
	if v := judge(messages, bodyOf(503, chat.fault(503, "busy")), false); v.odd == "" {
		t.Errorf("OpenAI's error to a client of Messages: %s", v)
	}
	if v := judge(gemini, bodyOf(503, chat.fault(503, "busy")), false); v.odd == "" {
		t.Errorf("OpenAI's error to a client of Gemini: %s", v)
	}
}

func TestWhatIsNoStream(t *testing.T) {
	for _, d := range dialects() {
		a := answer{d, wordsOf("good")}
		if v := judge(d, bodyOf(200, a.whole()), true); v.whole() || v.odd == "" {
			t.Errorf("%s: a body where a stream was asked for: %s", d, v)
		}
		if v := judge(d, streamOf(a.whole()), true); v.whole() {
			t.Errorf("%s: a body that calls itself a stream: %s", d, v)
		}
	}
}

// The proof of the end is where the sweep of cuts takes it to be.
func TestProof(t *testing.T) {
	for _, d := range dialects() {
		text := strings.Join(answer{d, wordsOf("bad")}.stream().all(), "")
		at := proofAt(d)
		if v := judge(d, streamOf(text[:at]+"\n\n"), true); !v.finished {
			t.Errorf("%s: no finish at %d: %s", d, at, v)
		}
		if v := judge(d, streamOf(text[:at-1]+"\n\n"), true); v.finished {
			t.Errorf("%s: finished before %d: %s", d, at, v)
		}
	}
}

func TestSlope(t *testing.T) {
	var flat, steep []point
	for i := range 100 {
		m := float64(i) / 10
		flat = append(flat, point{m, 50e6 + float64(i%7)*1e5})
		steep = append(steep, point{m, 50e6 + m*2e6})
	}
	flat[99].bytes = 500e6 // one peak
	if s := theilSen(flat); s > 0.2e6 || s < -0.2e6 {
		t.Errorf("a flat line has the slope %f", s)
	}
	if s := theilSen(steep); s < 1.9e6 || s > 2.1e6 {
		t.Errorf("2 MB/min are %f", s)
	}
}
