package gemini

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

func TestForeignSeals(t *testing.T) {
	thought := &llm.Thought{
		Meta:  llm.Meta{Seals: []llm.Seal{{Form: llm.Signature, Data: "EqQBCkg?>~", Origin: string(protocol.Anthropic)}}},
		Parts: []llm.ThoughtPart{{Form: llm.FullReasoning, Text: "I think. "}, {Form: llm.FullReasoning, Text: "So."}},
	}
	redacted := &llm.Thought{Meta: llm.Meta{Seals: []llm.Seal{{Form: llm.Redacted, Data: "xyz", Origin: string(protocol.Anthropic)}}}}
	resp := &llm.Response{ID: "r", Model: "m", Choices: []llm.Choice{{
		Blocks: []llm.Block{thought, redacted, &llm.Text{Text: "Hi"}, &llm.ToolCall{CallID: "c", Kind: llm.FunctionTool, Name: "f", Args: "{}"}},
		Stop:   llm.Stop{Kind: llm.ToolUse},
	}}}
	back := func(parts []string) string {
		body := `{"contents":[{"role":"user","parts":[{"text":"x"}]},{"role":"model","parts":[` + strings.Join(parts, ",") + `]}]}`
		req, err := Codec{}.DecodeRequest(protocol.Incoming{Body: []byte(body)})
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, b := range req.Turns[1].Blocks {
			s := ""
			for _, seal := range b.Common().Seals {
				s += string(seal.Form) + "/" + seal.Origin + "/" + seal.Data
			}
			if t, ok := b.(*llm.Thought); ok {
				out = append(out, "thought "+t.Text("")+" "+s)
			} else if t, ok := b.(*llm.Text); !ok || t.Text != "" {
				out = append(out, "other "+s)
			}
		}
		return strings.Join(out, "\n")
	}
	const want = "thought I think. So. signature/anthropic/EqQBCkg?>~\nthought  redacted/anthropic/xyz\nother \nother "
	parts := func(body []byte) []string {
		var w Response
		if err := wire.UnmarshalLenient(body, &w); err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		var c wire.Object
		if err := c.UnmarshalJSON(w.Candidates.Value().Slice()[0].Content); err != nil {
			t.Fatal(err)
		}
		list, _ := c.Get("parts")
		items, _ := elements(list)
		var out []string
		for _, i := range items {
			out = append(out, string(i))
		}
		return out
	}
	whole := parts(Codec{}.EncodeResponse(resp, nil, &llm.Report{}))
	if got := back(whole); got != want {
		t.Errorf("whole:\n%s", got)
	}
	for i := range whole { // as the Python SDK sends it back
		if at := strings.Index(whole[i], "aXNvZ2xvc3M6"); at >= 0 {
			whole[i] = whole[i][:at] + strings.NewReplacer("+", "-", "/", "_").Replace(whole[i][at:])
		}
	}
	if got := back(whole); got != want {
		t.Errorf("other alphabet:\n%s", got)
	}
	enc := StreamEncoder{form: asLines}
	var out []byte
	for _, e := range llm.Explode(resp) {
		out = enc.Encode(e, out)
	}
	var streamed []string
	for _, line := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		streamed = append(streamed, parts([]byte(line))...)
	}
	if got := back(streamed); got != want {
		t.Errorf("streamed:\n%s", got)
	}
	if got := readSeals("", wire.Raw(`{"anthropic":{"signature":"s"}}`)); len(got) != 1 || got[0].Origin != "anthropic" {
		t.Errorf("extra_content: %+v", got)
	}
}

func TestStandardBase64(t *testing.T) {
	for n := range 9 {
		data := []byte{0xfb, 0xff, 0xfe, 0, 1, 2, 0xfb, 0xff, 0xbe}[:n]
		for _, enc := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding, base64.RawStdEncoding, base64.RawURLEncoding} {
			if got := codec.StandardBase64(enc.EncodeToString(data)); got != base64.StdEncoding.EncodeToString(data) {
				t.Errorf("%q became %q", enc.EncodeToString(data), got)
			}
		}
	}
	if got := codec.StandardBase64("aG\r\nk="); got != "aGk=" {
		t.Error(got)
	}
}

// Clients pass over a thought without text, even where it is signed, and some send
// calls back without their ids: opencode with @ai-sdk/google does both. A seal that
// comes after the last piece therefore goes with that piece.
func TestSealGoesWithText(t *testing.T) {
	begin := []llm.Event{
		llm.Start{ID: "r", Model: "m"}, llm.BlockStart{Block: &llm.Thought{}},
		llm.Delta{Text: "I "}, llm.Delta{Text: "think."},
	}
	for _, c := range []struct {
		name string
		then []llm.Event
		want string
	}{
		{"sealed", []llm.Event{llm.SealDelta{Seal: llm.Seal{Form: llm.Signature, Data: "s", Origin: string(protocol.Anthropic)}}, llm.BlockEnd{}},
			`{"text":"think.","thought":true,"thoughtSignature":"aXNvZ2xvc3M6eyJhbnRocm9waWMiOnsic2lnbmF0dXJlIjoicyJ9fQ=="}`},
		{"not sealed", []llm.Event{llm.BlockEnd{}}, `{"text":"think.","thought":true}`},
		{"cut", []llm.Event{llm.Failure{Err: &llm.Error{Kind: llm.Upstream, Message: "gone"}}}, `{"text":"think.","thought":true}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			enc := StreamEncoder{form: asLines}
			var out []byte
			for _, e := range append(begin[:len(begin):len(begin)], c.then...) {
				out = enc.Encode(e, out)
			}
			lines := strings.Split(string(out), "\n")
			for i, want := range []string{`{"text":"I ","thought":true}`, c.want} {
				if !strings.Contains(lines[i], "["+want+"]") {
					t.Errorf("line %d is\n%s\nwant\n%s", i, lines[i], want)
				}
			}
		})
	}
}
