package conform

import (
	"slices"
	"strings"
	"testing"
)

// TestComparison lists what counts as a difference.
func TestComparison(t *testing.T) {
	for _, c := range []struct {
		was, is string
		masked  bool
		want    string // the paths that differ
	}{
		{`{"a":1,"b":[true,null]}`, `{"b":[true,null],"a":1}`, false, ""},
		{`{"a":1}`, `{"a":1.0}`, false, "/a"},
		{`{"a":1}`, `{"a":1,"b":2}`, false, "/b"},
		{`{"a":1,"b":2}`, `{"a":1}`, false, "/b"},
		{`{"a":[1,2]}`, `{"a":[1]}`, false, "/a/1"},
		{`{"a":[1]}`, `{"a":[1,2]}`, false, "/a/1"},
		{`{"a":{"b":"x"}}`, `{"a":["x"]}`, false, "/a"},
		{`{"id":"…"}`, `{"id":"anything"}`, false, ""},
		{`{"id":"…"}`, `{"id":""}`, false, "/id"},
		{`{"id":"…"}`, `{}`, false, "/id"},
		{`{"created":1,"x":{"created_at":2}}`, `{"created":3,"x":{}}`, false, ""},
		{`{"t":"Xxxx xx!"}`, `{"t":"Lost in!"}`, true, ""},
		{`{"t":"Xxxx xx!"}`, `{"t":"Lost in!"}`, false, "/t"},
		{`{"t":"Xxxx xx!"}`, `{"t":"Lost in?"}`, true, "/t"},
		{`{"t":"Xxxx xx!"}`, `{"t":"Lost it all!"}`, true, "/t"},
		{`{"t":"{\"a\":1, \"b\":2}"}`, `{"t":"{\"b\":2,\"a\":1}"}`, false, ""},
		{`{"t":"{\"a\":1}"}`, `{"t":"{\"a\":2}"}`, true, "/t"},
		{`{"finish_reason":"stop"}`, `{"finish_reason":"tool"}`, true, "/finish_reason"},
		{`{"m":"xxx xxxxxxxx timeout"}`, `{"m":"the upstream timeout"}`, true, ""},
		{`{"m":"xxx xxxxxxxx timeout"}`, `{"m":"the upstream timings"}`, true, "/m"},
		{`no JSON`, `no JSON`, false, ""},
		{`no JSON`, `{}`, false, "/"},
	} {
		x := comparison{masked: c.masked}
		x.documents(c.was, c.is)
		if got := placesOf(x.found); got != c.want {
			t.Errorf("%s and %s differ at %q, want %q", c.was, c.is, got, c.want)
		}
	}
}

func TestComparisonOfStreams(t *testing.T) {
	const was = "event: a\ndata: {\"t\":1}\n\ndata: {\"t\":2}\n\ndata: [DONE]\n\n"
	for is, want := range map[string]string{
		was: "",
		": keep-alive\n\n" + strings.ReplaceAll(was, "\n", "\r\n"):                 "",
		strings.Replace(was, "event: a", "event: b", 1):                            "event 1 name",
		strings.Replace(was, `"t":2`, `"t":3`, 1):                                  "event 2 /t",
		strings.Replace(was, "data: [DONE]\n\n", "", 1):                            "event 3 ",
		was + "data: {}\n\n":                                                       "event 4 ",
		strings.Replace(was, `{"t":2}`, `{"t":2,"u":1}`, 1):                        "event 2 /u",
		strings.Replace(was, "data: {\"t\":2}\n\n", "data: {\"error\":{}}\n\n", 1): "event 2 /error event 2 /t",
	} {
		x := comparison{}
		x.streams(was, is)
		if got := placesOf(x.found); got != want {
			t.Errorf("%q differs at %q, want %q", is, got, want)
		}
	}
}

func placesOf(list []Difference) string {
	var at []string
	for _, d := range list {
		at = append(at, d.At)
	}
	slices.Sort(at)
	return strings.Join(at, " ")
}

// TestRecordingCanFail checks that a recording fails after a change in any place.
func TestRecordingCanFail(t *testing.T) {
	const text = `Recorded: something

-- ask.chat.json --
{"model":"$MODEL","messages":[{"role":"user","content":"Xx."}]}
-- heard.chat.json --
{"model":"up","messages":[{"role":"user","content":"Xx."}]}
-- answer.chat.json --
{"id":"c","object":"chat.completion","created":1,"model":"up","choices":[{"index":0,"message":{"role":"assistant","content":"Xxx."},"finish_reason":"stop"}]}
-- seen.chat.json --
{"id":"c","object":"chat.completion","created":1,"model":"up","choices":[{"index":0,"message":{"role":"assistant","content":"Xxx."},"finish_reason":"stop"}]}
-- run --
cells chat>chat
modes whole
recorded 200
masked
model fast up
`
	l, err := Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	up := NewUpstream(l)
	defer up.Close()
	// The upstream stands for a gateway that changes nothing.
	r := &Runner{Target: Target{BaseURL: up.URL(), Models: map[Dialect]string{Chat: "up"}, Configured: true}, Upstream: up}
	defer r.Close()
	for change, want := range map[[2]string]string{
		{"", ""}: "",
		{`"model":"up","messages"`, `"model":"down","messages"`}:                                        "/model",
		{`"content":"Xx."}]}` + "\n-- answer", `"content":"Xx?"}]}` + "\n-- answer"}:                    "/messages/0/content",
		{"recorded 200", "recorded 201"}:                                                                "status",
		{"recorded 200", "recorded 200 cut"}:                                                            "transfer",
		{"masked", "masked\nfidelity exact"}:                                                            "fidelity",
		{`"finish_reason":"stop"}]}` + "\n-- run", `"finish_reason":"length"}]}` + "\n-- run"}:          "/choices/0/finish_reason",
		{"-- heard.chat.json --\n" + `{"model":"up","messages":[{"role":"user","content":"Xx."}]}`, ""}: "request",
	} {
		c, err := ParseCase("recorded", []byte(strings.Replace(text, change[0], change[1], 1)))
		if err != nil {
			t.Fatal(err)
		}
		res := r.Run(t.Context(), c, c.Cells()[0])
		if got := placesOf(res.Differs); got != want || len(res.Problems) != len(res.Differs) {
			t.Errorf("with %q it differs at %q, want %q: %v", change[1], got, want, res.Problems)
		}
	}
}
