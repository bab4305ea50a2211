package codec

import (
	"bytes"
	"encoding/base64"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// CarrierMember is the member in which Chat Completions carries the seals of other
// protocols, so that the client sends them back. It is a member of the block that the
// seal belongs to, as in Google's OpenAI-compatible API.
const CarrierMember = "extra_content"

// carried maps a seal's protocol to the names that CarrierMember uses for it.
var carried = map[protocol.Name]struct{ vendor, signature, encrypted, redacted string }{
	protocol.OpenAIResponses: {"openai", "signature", "encrypted_content", "redacted"},
	protocol.Anthropic:       {"anthropic", "signature", "encrypted_content", "redacted_thinking"},
	protocol.Gemini:          {"google", "thought_signature", "encrypted_content", "redacted"},
	protocol.Converse:        {"bedrock", "signature", "encrypted_content", "redacted_content"},
}

// sealID is the member of a vendor's object in CarrierMember for the id of the sealed item.
const sealID = "id"

// Carry returns the value of CarrierMember for the seals of protocols other than own,
// or "" if there are none.
func Carry(seals []llm.Seal, own protocol.Name) llm.Raw {
	out := map[string]map[string]string{}
	for _, s := range seals {
		c, ok := carried[protocol.Name(s.Origin)]
		if !ok || protocol.Name(s.Origin) == own {
			continue
		}
		member := map[llm.SealForm]string{llm.Signature: c.signature, llm.Encrypted: c.encrypted, llm.Redacted: c.redacted}[s.Form]
		if out[c.vendor] == nil {
			out[c.vendor] = map[string]string{}
		}
		out[c.vendor][member] = s.Data
		if s.ID != "" {
			out[c.vendor][sealID] = s.ID
		}
	}
	if len(out) == 0 {
		return ""
	}
	// Maps of strings always encode. The order is fixed because prompt caches need the
	// same bytes every time.
	b, _ := json.Marshal(out, json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
	return llm.Raw(b)
}

// wrapped is the prefix of the text that Wrap returns: "isogloss:" in base64.
const wrapped = "aXNvZ2xvc3M6"

// Minted is a part of the id of each item that the gateway makes from another vendor's reasoning. HasForeign finds it.
const Minted = wrapped

// Wrap returns the seals of protocols other than own as one opaque text, or "" if
// there are none. It is for dialects whose clients drop unknown members, but send back
// seals of the dialect: the text takes the place of such a seal.
func Wrap(seals []llm.Seal, own protocol.Name) string {
	carried := Carry(seals, own)
	if carried == "" {
		return ""
	}
	return wrapped + base64.StdEncoding.EncodeToString([]byte(carried))
}

// HasForeign reports whether a request in the dialect own may contain seals of other protocols: a text of Wrap, or
// CarrierMember with a vendor's name. No vendor accepts them, except that CarrierMember belongs to Google's
// OpenAI-compatible API. The search leaves out the first letter, which is frequent in prompts; the second is rare.
func HasForeign(body []byte, own protocol.Name) bool {
	return bytes.Contains(body, []byte(wrapped[1:])) || own != protocol.OpenAIChat && hasCarrier(body)
}

// hasCarrier reports whether a body contains CarrierMember with a vendor's name as its first member.
func hasCarrier(body []byte) bool {
	for {
		_, rest, found := bytes.Cut(body, []byte(CarrierMember+`"`))
		if !found {
			return false
		}
		body = rest
		for _, token := range []string{":", "{", `"`} {
			rest, found = bytes.CutPrefix(bytes.TrimLeft(rest, " \t\r\n"), []byte(token))
			if !found {
				break
			}
		}
		for _, c := range carried {
			if found && bytes.HasPrefix(rest, []byte(c.vendor+`"`)) {
				return true
			}
		}
	}
}

// Unsealed is a text in the form of Wrap that contains no seals. It is for blocks in
// which clients require a seal although no protocol has made one.
const Unsealed = wrapped + "e30="

// Unwrap returns the seals in a text of Wrap. It reports false if the text does not
// come from Wrap.
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

// Uncarry returns the seals in a value of CarrierMember that a client has sent back.
// It ignores everything else in it.
func Uncarry(raw llm.Raw) []llm.Seal {
	var vendors map[string]jsontext.Value
	if raw == "" || json.Unmarshal([]byte(raw), &vendors, wire.Lenient) != nil {
		return nil
	}
	var seals []llm.Seal
	for _, origin := range protocol.Names() {
		c, ok := carried[origin]
		if !ok {
			continue
		}
		var in map[string]jsontext.Value
		if json.Unmarshal(vendors[c.vendor], &in, wire.Lenient) != nil {
			continue
		}
		text := func(name string) (s string) {
			_ = json.Unmarshal(in[name], &s, wire.Lenient) // a value that is not a string is ignored
			return s
		}
		for _, f := range []struct {
			form llm.SealForm
			name string
		}{{llm.Signature, c.signature}, {llm.Encrypted, c.encrypted}, {llm.Redacted, c.redacted}} {
			if data := text(f.name); data != "" {
				seals = append(seals, llm.Seal{Form: f.form, Data: data, Origin: string(origin), ID: text(sealID)})
			}
		}
	}
	return seals
}

// MarkPrefix is the prefix of the names under which a codec stores notes in an
// [llm.Ext], such as the original spelling of a value. The client did not send them,
// so other codecs do not report them as lost.
const MarkPrefix = "isogloss."

// DropExt reports the members of e as dropped, unless e belongs to own. It reports a member as
// refused if the request must not be served without it, such as safeguards.
func DropExt(report *llm.Report, path string, e llm.Ext, own protocol.Name) {
	for _, name := range Lost(e, own) {
		first, _, _ := strings.Cut(name, ".")
		switch at := path + "." + name; {
		case accounting[first], at == "ext.tags" && e.Protocol == string(protocol.Anthropic): // labels for the vendor's bill
		case at == "ext.safeguards", at == "ext.safeguard_results":
			report.Refuse(at, "safeguards.unsupported", "only the vendor's own models apply safeguards; leave them out, or use such a model")
		case at == "ext.guardrailConfig" && e.Protocol == string(protocol.Converse):
			report.Refuse(at, "safeguards.unsupported", "only Amazon Bedrock applies its guardrails; leave them out, or use one of its models")
		case at == "ext.billing_policy":
			report.Refuse(at, "billing_policy.unsupported", "only the vendor can charge somebody else for the request; leave it out, or use one of its models")
		case at == "ext.continuationToken" && e.Protocol == string(protocol.Gemini):
			report.Refuse(at, "continuation.unsupported", "only the vendor that began the response can continue it; use the same model, or send the text so far in its place")
		case at == "ext.moderation" && blocks(e.Get(name)):
			report.Refuse(at, "moderation.unsupported", "only the vendor blocks what its moderation flags; leave it out, or use one of its models")
		default:
			report.Drop(at, "ext.unknown_field", "the upstream's protocol has no such field")
		}
	}
}

// blocks reports whether a moderation setting keeps flagged text from the model or from the client.
func blocks(moderation llm.Raw) bool {
	type side struct {
		Mode string `json:"mode"`
	}
	var m struct {
		Policy struct {
			Input  side `json:"input"`
			Output side `json:"output"`
		} `json:"policy"`
	}
	return json.Unmarshal([]byte(moderation), &m, wire.Lenient) == nil && (m.Policy.Input.Mode == "block" || m.Policy.Output.Mode == "block")
}

// accounting holds the members of responses with details of token counts, timings of the request
// and ratings of the text. Clients of other protocols do not read them, so they are not losses.
var accounting = map[string]bool{
	"usage": true, "usageMetadata": true, "billing": true, "timings": true, "x_groq": true, "avgLogprobs": true, "safetyRatings": true,
}

// Lost returns the names of the members of e that an encoder of own drops. It leaves
// out the notes of codecs, null and empty arrays.
func Lost(e llm.Ext, own protocol.Name) []string {
	if e.Protocol == "" || protocol.Name(e.Protocol) == own {
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
