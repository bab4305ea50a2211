package relay

import (
	"bytes"
	stdjson "encoding/json"
	"slices"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/internal/provider"
)

func addBodies(f *testing.F) {
	for _, body := range []string{
		plainAsk, streamAsk, "{" + oddities + "model\":\"m\"}",
		`{"model":"m","stream_options":{"include_usage":false,"x":[1,{}]},"stream":false}`,
		`{"nvext":{"greedy_sampling":true,"a":null},"model":"\ud800","max_completion_tokens":1e2}`,
		`{ "max_tokens" : 1 , "nvext" : { } , "stream" : null , "model" : "\u006d" , "max_completion_tokens":2, "stream_options":{ } }`,
		`{"model":"m","Model":"x"}`, `{"model":"m","\u017ftream":true}`, `{"model":"m","mod\u0065l":"x"}`, `{"":{"":[]},"model":"m"}`,
	} {
		f.Add([]byte(body), "alias")
	}
	f.Add([]byte(plainAsk), "\"\\\u2028北\x00")
}

// FuzzModelSeenIsModelSent holds the gateway's view of a body against that of two
// other parsers. If they differed, policy could be made to see another model than
// the one that answers.
func FuzzModelSeenIsModelSent(f *testing.F) {
	addBodies(f)
	f.Fuzz(func(t *testing.T, body []byte, alias string) {
		p, err := project(body)
		if err != nil {
			return
		}
		if sent := patch(body, nil); !bytes.Equal(sent, body) {
			t.Fatalf("changed without an edit: %q", sent)
		}
		wantModel(t, body, p.model)
		alias = string(bytes.ToValidUTF8([]byte(alias), nil))
		wantModel(t, patch(body, []edit{p.set("model", quote(alias))}), alias)
	})
}

func wantModel(t *testing.T, body []byte, want string) {
	t.Helper()
	var folding, exact struct {
		Model string `json:"model"`
	}
	if err := stdjson.Unmarshal(body, &folding); err != nil || folding.Model != want {
		t.Fatalf("encoding/json reads %q (%v), want %q: %q", folding.Model, err, want, body)
	}
	if err := json.Unmarshal(body, &exact, scanOptions); err != nil || exact.Model != want {
		t.Fatalf("go-json-experiment reads %q (%v), want %q: %q", exact.Model, err, want, body)
	}
}

// FuzzPatchKeepsTheRest applies every edit that there is to a body and compares
// all members that none of them is about, by their bytes and their order.
func FuzzPatchKeepsTheRest(f *testing.F) {
	addBodies(f)
	f.Fuzz(func(t *testing.T, body []byte, _ string) {
		p, fault := project(body)
		if fault != nil || len(p.members) > maxMembers-2 {
			return
		}
		edits := []edit{p.set("model", quote("to")), p.set("stream", "true"), p.askUsage()}
		edits = append(edits, p.applyQuirks([]provider.Quirk{provider.RenameField("max_completion_tokens", "max_tokens")})...)
		if e, ok := p.remove("nvext"); ok {
			edits = append(edits, e)
		}
		before := bytes.Clone(body)
		sent := patch(body, edits)
		if !bytes.Equal(body, before) {
			t.Fatal("the body itself was written to")
		}
		q, fault := project(sent)
		if fault != nil {
			t.Fatalf("%v\n%q became\n%q", fault, body, sent)
		}
		if q.model != "to" || !q.stream || !q.usage || q.raw("nvext") != nil {
			t.Fatalf("an edit is missing: %q", sent)
		}
		if got, want := rest(q.object), rest(p.object); !slices.Equal(got, want) {
			t.Fatalf("%q became\n%q", want, got)
		}
		wantOptionsKept(t, p.raw("stream_options"), q.raw("stream_options"))
	})
}

// rest writes the members that are not edited, with the renamed one under the name
// that it has afterwards.
func rest(o object) []string {
	_, both := o.find("max_tokens")
	var all []string
	for _, m := range o.members {
		switch m.name {
		case "model", "stream", "stream_options", "nvext":
			continue
		case "max_completion_tokens":
			if !both {
				m.name = "max_tokens"
			}
		}
		all = append(all, m.name, string(o.body[m.at.start:m.at.end]))
	}
	return all
}

func wantOptionsKept(t *testing.T, before, after jsontext.Value) {
	t.Helper()
	old, now := map[string]jsontext.Value{}, map[string]jsontext.Value{}
	if before != nil {
		if err := json.Unmarshal(before, &old, scanOptions); err != nil {
			t.Fatal(err)
		}
	}
	if err := json.Unmarshal(after, &now, scanOptions); err != nil {
		t.Fatal(err)
	}
	delete(old, "include_usage")
	delete(now, "include_usage")
	if len(old) != len(now) {
		t.Fatalf("%s became %s", before, after)
	}
	for name, v := range old {
		if !bytes.Equal(v, now[name]) {
			t.Fatalf("%q: %s became %s", name, before, after)
		}
	}
}
