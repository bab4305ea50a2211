package relay

import (
	"bytes"
	stdjson "encoding/json"
	"slices"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/internal/request/exchange"
	"github.com/isogloss-gateway/isogloss/internal/targets/provider"
	"github.com/isogloss-gateway/isogloss/protocol/all"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

func addBodies(f *testing.F) {
	for _, body := range []string{
		plainRequest, streamRequest, "{" + oddities + "model\":\"m\"}",
		`{"model":"m","stream_options":{"include_usage":false,"x":[1,{}]},"stream":false}`,
		`{"nvext":{"greedy_sampling":true,"a":null},"model":"\ud800","max_completion_tokens":1e2}`,
		`{ "max_tokens" : 1 , "nvext" : { } , "stream" : null , "model" : "\u006d" , "max_completion_tokens":2, "stream_options":{ } }`,
		`{"model":"m","Model":"x"}`, `{"model":"m","\u017ftream":true}`, `{"model":"m","mod\u0065l":"x"}`, `{"":{"":[]},"model":"m"}`,
	} {
		f.Add([]byte(body), "alias")
	}
	f.Add([]byte(plainRequest), "\"\\\u2028北\x00")
}

// FuzzModelSeenIsModelSent compares the model that the gateway reads from a body with the
// model that two other parsers read. A difference would let a client bypass access rules.
func FuzzModelSeenIsModelSent(f *testing.F) {
	addBodies(f)
	f.Fuzz(func(t *testing.T, body []byte, alias string) {
		p, err := readChat(body)
		if err != nil {
			return
		}
		if sent := wire.Patch(body, nil); !bytes.Equal(sent, body) {
			t.Fatalf("changed without an edit: %q", sent)
		}
		wantModel(t, body, p.Model)
		alias = string(bytes.ToValidUTF8([]byte(alias), nil))
		wantModel(t, wire.Patch(body, []wire.Edit{p.Set("model", wire.Quote(alias))}), alias)
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
	if err := json.Unmarshal(body, &exact, jsontext.AllowInvalidUTF8(true)); err != nil || exact.Model != want {
		t.Fatalf("go-json-experiment reads %q (%v), want %q: %q", exact.Model, err, want, body)
	}
}

// FuzzPatchKeepsTheRest applies all edits to a body and checks that the bytes and the
// order of all other members stay the same.
func FuzzPatchKeepsTheRest(f *testing.F) {
	addBodies(f)
	f.Fuzz(func(t *testing.T, body []byte, _ string) {
		p, fault := readChat(body)
		if fault != nil || p.Len() > wire.MaxMembers-2 {
			return
		}
		edits := []wire.Edit{p.Set("model", wire.Quote("to")), p.Set("stream", "true"), all.Dialects()[0].RequestUsage(&p.Index)}
		edits = append(edits, exchange.Renames(&p.Index, all.Dialects()[0], []provider.Quirk{provider.RenameField("max_completion_tokens", "max_tokens")})...)
		if e, ok := p.Remove("nvext"); ok {
			edits = append(edits, e)
		}
		before := bytes.Clone(body)
		sent := wire.Patch(body, edits)
		if !bytes.Equal(body, before) {
			t.Fatal("the body itself was written to")
		}
		q, fault := readChat(sent)
		if fault != nil {
			t.Fatalf("%v\n%q became\n%q", fault, body, sent)
		}
		if q.Model != "to" || !q.Stream || !q.Usage || q.Raw("nvext") != nil {
			t.Fatalf("an edit is missing: %q", sent)
		}
		if got, want := rest(&q.Index), rest(&p.Index); !slices.Equal(got, want) {
			t.Fatalf("%q became\n%q", want, got)
		}
		wantOptionsKept(t, p.Raw("stream_options"), q.Raw("stream_options"))
	})
}

// rest returns the members that no edit changes, with the renamed one under its new name.
func rest(x *wire.Index) []string {
	both := x.Has("max_tokens")
	var all []string
	for name, value := range x.All() {
		switch name {
		case "model", "stream", "stream_options", "nvext":
			continue
		case "max_completion_tokens":
			if !both {
				name = "max_tokens"
			}
		}
		all = append(all, name, string(value))
	}
	return all
}

func wantOptionsKept(t *testing.T, before, after jsontext.Value) {
	t.Helper()
	old, now := map[string]jsontext.Value{}, map[string]jsontext.Value{}
	if before != nil {
		if err := json.Unmarshal(before, &old, jsontext.AllowInvalidUTF8(true)); err != nil {
			t.Fatal(err)
		}
	}
	if err := json.Unmarshal(after, &now, jsontext.AllowInvalidUTF8(true)); err != nil {
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
