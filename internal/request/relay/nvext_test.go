package relay

import (
	"net/http"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/targets/provider"
	"github.com/isogloss-gateway/isogloss/internal/test/upstreamtest"
)

func nvExt(mode provider.Extensions) func(*gateway) {
	return func(g *gateway) {
		g.provider.Extensions = mode
		g.provider.Quirks = []provider.Quirk{provider.RenameField("nvext.greedy_sampling", "nvext.greed_sampling")}
		g.up.Answer(upstreamtest.JSON(http.StatusOK, plainResponse))
	}
}

func TestNvExtIsChecked(t *testing.T) {
	for _, c := range []struct{ nvext, param, says string }{
		{`1`, "nvext", "an object"},
		{`[]`, "nvext", "an object"},
		{`"x"`, "nvext", "an object"},
		{`{"ignore_eos":1}`, "nvext.ignore_eos", "true or false"},
		{`{"greed_sampling":"true"}`, "nvext.greed_sampling", "true or false"},
		{`{"greedy_sampling":0}`, "nvext.greedy_sampling", "true or false"},
		{`{"use_raw_prompt":{}}`, "nvext.use_raw_prompt", "true or false"},
		{`{"top_k":0}`, "nvext.top_k", "-1, or an integer from 1"},
		{`{"top_k":-2}`, "nvext.top_k", "-1, or"},
		{`{"top_k":1.5}`, "nvext.top_k", "integer"},
		{`{"repetition_penalty":0}`, "nvext.repetition_penalty", "above 0 and at most 2"},
		{`{"repetition_penalty":2.01}`, "nvext.repetition_penalty", "at most 2"},
		{`{"annotations":"a"}`, "nvext.annotations", "a list of strings"},
		{`{"annotations":["a",1]}`, "nvext.annotations", "a list of strings"},
	} {
		for _, mode := range []provider.Extensions{provider.ForwardExtensions, provider.DropExtensions, provider.RefuseExtensions} {
			g := newGateway(t, nvExt(mode))
			resp, got, _ := g.post(t, chatPath, `{"nvext":`+c.nvext+`,"model":"real-chat"}`)
			wantError(t, resp, got, http.StatusBadRequest, "invalid_value")
			if !strings.Contains(got, `"param":"`+c.param+`"`) || !strings.Contains(got, c.says) || len(g.up.Requests()) > 0 {
				t.Errorf("%s: %s", c.nvext, got)
			}
		}
	}
}

func TestNvExtIsForwarded(t *testing.T) {
	g := newGateway(t, nvExt(provider.ForwardExtensions))
	for _, c := range []struct{ name, body, want string }{
		{"verbatim", `{ "nvext" : { "top_k" : -1 , "repetition_penalty":1.10,"annotations":["\u00e9","a\/b"],"unknown":{"x":[1e2]},"agent_hints":null,"half":"\ud83d" } ,"model":"real-chat"}`, ""},
		{"empty", `{"model":"real-chat","nvext":{}}`, ""},
		{"null", `{"model":"real-chat","nvext":null}`, ""},
		{"nulls in it", `{"model":"real-chat","nvext":{"top_k":null,"annotations":null,"ignore_eos":null}}`, ""},
		{"bounds", `{"model":"real-chat","nvext":{"top_k":1,"repetition_penalty":2,"annotations":[]}}`, ""},
		{"own name", `{"model":"real-chat","nvext":{"greed_sampling":true}}`, ""},
		{"both names", `{"model":"real-chat","nvext":{"greedy_sampling":true,"greed_sampling":false}}`, ""},
		{"renamed", `{"model":"alias-chat","greedy_sampling":1,"nvext":{"a":1, "greedy_sampling" : true ,"b":"greedy_sampling"}}`,
			`{"model":"real-chat","greedy_sampling":1,"nvext":{"a":1, "greed_sampling" : true ,"b":"greedy_sampling"}}`},
	} {
		resp, got, _ := g.post(t, chatPath, c.body)
		if resp.StatusCode != http.StatusOK || resp.Header.Get("Isogloss-Fidelity") != "exact" {
			t.Errorf("%s: %s %s", c.name, got, resp.Header)
			continue
		}
		if c.want == "" {
			c.want = c.body
		}
		if sent := string(g.up.Last(t).Body); sent != c.want {
			t.Errorf("%s: the upstream got\n%s\nwant\n%s", c.name, sent, c.want)
		}
	}
}

func TestNvExtIsRefusedByDefault(t *testing.T) {
	g := newGateway(t, nvExt(provider.RefuseExtensions))
	resp, got, _ := g.post(t, chatPath, `{"model":"real-chat","nvext":{"top_k":1}}`)
	wantError(t, resp, got, http.StatusBadRequest, "unsupported_parameter")
	for _, want := range []string{`"param":"nvext"`, "'up'", "'nvext: forward'", "'nvext: drop'", "leave it out"} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is not in %s", want, got)
		}
	}
	if len(g.up.Requests()) > 0 {
		t.Error("the upstream was called")
	}
}

func TestNvExtIsDropped(t *testing.T) {
	for _, c := range []struct{ name, body, want string }{
		{"first", `{ "nvext":{"top_k":1} , "model":"real-chat","a":1.10}`, `{ "model":"real-chat","a":1.10}`},
		{"middle", `{"a":1.10 , "nvext" : {"x":"}"} , "model":"real-chat"}`, `{"a":1.10 , "model":"real-chat"}`},
		{"last", `{"model":"real-chat","a":1.10 , "nvext":{} }`, `{"model":"real-chat","a":1.10 }`},
		{"before the model", `{"nvext":{},"model":"real-chat"}`, `{"model":"real-chat"}`},
		{"after the model", `{"model":"real-chat","nvext":{}}`, `{"model":"real-chat"}`},
		{"beside an alias", `{"model":"alias-chat","nvext":{}}`, `{"model":"real-chat"}`},
		{"before an alias", `{"nvext":{},"model":"alias-chat"}`, `{"model":"real-chat"}`},
		{"with a quirk in it", `{"nvext":{"greedy_sampling":true},"model":"real-chat"}`, `{"model":"real-chat"}`},
	} {
		g := newGateway(t, nvExt(provider.DropExtensions))
		resp, got, _ := g.post(t, chatPath, c.body)
		if want := `dropped;a=0;d=1;codes="nvext.unsupported"`; resp.StatusCode != http.StatusOK || resp.Header.Get("Isogloss-Fidelity") != want {
			t.Errorf("%s: %s %v", c.name, got, resp.Header)
			continue
		}
		if sent := string(g.up.Last(t).Body); sent != c.want {
			t.Errorf("%s: the upstream got\n%s\nwant\n%s", c.name, sent, c.want)
		}
		g.wantLine(t, `"fidelity":"dropped;`)
	}
}

// TestNvExtIsDroppedBesideOtherEdits checks that removing the last member and adding
// others at the same position gives valid JSON.
func TestNvExtIsDroppedBesideOtherEdits(t *testing.T) {
	g := newGateway(t, nvExt(provider.DropExtensions), alwaysStream)
	g.up.Answer(upstreamtest.Stream(wordChunk + lastChunk + "\n\n"))
	for body, want := range map[string]string{
		`{"model":"alias-chat","nvext":{}}`:                     `{"model":"real-chat","stream":true,"stream_options":{"include_usage":true}}`,
		`{"nvext":{},"model":"alias-chat"}`:                     `{"model":"real-chat","stream":true,"stream_options":{"include_usage":true}}`,
		`{"nvext":{},"stream":false,"model":"real-chat"}`:       `{"stream":true,"model":"real-chat","stream_options":{"include_usage":true}}`,
		`{"model":"real-chat","stream_options":{},"nvext":{} }`: `{"model":"real-chat","stream_options":{"include_usage":true},"stream":true }`,
	} {
		resp, got, _ := g.post(t, chatPath, body)
		if sent := string(g.up.Last(t).Body); resp.StatusCode != http.StatusOK || sent != want {
			t.Errorf("%s: %s, the upstream got\n%s\nwant\n%s", body, got, sent, want)
		}
	}
}
