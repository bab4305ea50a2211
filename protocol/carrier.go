package protocol

import (
	"encoding/base64"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/llm"
)

// CarrierMember is the member in which a dialect that has no place for a foreign
// seal carries it, for the client to send back: on the block that it seals, as
// Google's OpenAI-compatible surface does.
const CarrierMember = "extra_content"

// carried is the name that a seal has inside the carrier.
var carried = map[Name]struct{ vendor, signature, encrypted, redacted string }{
	OpenAIResponses: {"openai", "signature", "encrypted_content", "redacted"},
	Anthropic:       {"anthropic", "signature", "encrypted_content", "redacted_thinking"},
	Gemini:          {"google", "thought_signature", "encrypted_content", "redacted"},
}

// Carry writes the seals that other protocols have made as the value of
// CarrierMember. It is empty where there are none.
func Carry(seals []llm.Seal, own Name) llm.Raw {
	out := map[string]map[string]string{}
	for _, s := range seals {
		c, ok := carried[Name(s.Origin)]
		if !ok || Name(s.Origin) == own {
			continue
		}
		member := map[llm.SealForm]string{llm.Signature: c.signature, llm.Encrypted: c.encrypted, llm.Redacted: c.redacted}[s.Form]
		if out[c.vendor] == nil {
			out[c.vendor] = map[string]string{}
		}
		out[c.vendor][member] = s.Data
	}
	if len(out) == 0 {
		return ""
	}
	// Strings in maps cannot fail to encode; the order is fixed for prompt caches.
	b, _ := json.Marshal(out, json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
	return llm.Raw(b)
}

// lenient, because what a client sends back has been through its hands.
var lenient = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

// wrapped is "isogloss:" in base64: how a seal of another protocol begins that
// travels in the place of a dialect's own.
const wrapped = "aXNvZ2xvc3M6"

// Wrap writes the seals that other protocols have made as one opaque text, for a
// dialect whose clients send such a text back but drop members that they do not
// know. It is empty where there are none.
func Wrap(seals []llm.Seal, own Name) string {
	carried := Carry(seals, own)
	if carried == "" {
		return ""
	}
	return wrapped + base64.StdEncoding.EncodeToString([]byte(carried))
}

// Unsealed is what Wrap would write for no seals: it stands where clients expect a
// seal and nobody has made one. It reads back as none.
const Unsealed = wrapped + "e30="

// Unwrap reads what Wrap has written. It reports whether the text is of that kind.
func Unwrap(text string) ([]llm.Seal, bool) {
	rest, ok := strings.CutPrefix(text, wrapped)
	if !ok {
		return nil, false
	}
	data, err := base64.StdEncoding.DecodeString(rest)
	if err != nil {
		return nil, true
	}
	return Uncarry(llm.Raw(data)), true
}

// Uncarry reads the seals that a client has sent back in CarrierMember. What is
// not a seal is left alone.
func Uncarry(raw llm.Raw) []llm.Seal {
	var vendors map[string]jsontext.Value
	if raw == "" || json.Unmarshal([]byte(raw), &vendors, lenient) != nil {
		return nil
	}
	var seals []llm.Seal
	for _, origin := range Names() {
		c, ok := carried[origin]
		if !ok {
			continue
		}
		var in map[string]jsontext.Value
		if json.Unmarshal(vendors[c.vendor], &in, lenient) != nil {
			continue
		}
		for _, f := range []struct {
			form llm.SealForm
			name string
		}{{llm.Signature, c.signature}, {llm.Encrypted, c.encrypted}, {llm.Redacted, c.redacted}} {
			var data string
			if json.Unmarshal(in[f.name], &data, lenient) == nil && data != "" {
				seals = append(seals, llm.Seal{Form: f.form, Data: data, Origin: string(origin)})
			}
		}
	}
	return seals
}

// MarkPrefix begins the names that a codec gives to its own notes among a node's
// unknown members: how something was spelled, where a border was. They are not
// the client's, so no other codec reports them.
const MarkPrefix = "isogloss."

// DropExt reports the members of another protocol that an encoder has no place
// for.
func DropExt(report *llm.Report, path string, e llm.Ext, own Name) {
	for _, name := range Lost(e, own) {
		report.Drop(path+"."+name, "ext.unknown_field", "the upstream's dialect has no place for it")
	}
}

// Lost names the members of another protocol that say something which is lost: not a
// codec's own notes and not what is empty.
func Lost(e llm.Ext, own Name) []string {
	if e.Protocol == "" || Name(e.Protocol) == own {
		return nil
	}
	var names []string
	for _, m := range e.Members {
		if !strings.HasPrefix(m.Name, MarkPrefix) && !empty(m.Value) {
			names = append(names, m.Name)
		}
	}
	return names
}

func empty(v llm.Raw) bool {
	text := strings.TrimSpace(string(v))
	return text == "null" || strings.HasPrefix(text, "[") && strings.TrimSpace(text[1:]) == "]"
}
