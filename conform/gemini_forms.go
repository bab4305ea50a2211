package conform

import (
	"slices"
	"strings"
)

// The vendor takes requests in other forms than those of its documentation.

// geminiCounted are the members of a request to count tokens. The first has a whole request.
var geminiCounted = strings.Fields("generateContentRequest contents")

// open parses a request and checks its members.
func (gemini) open(body []byte, authorized, counts bool) (*Received, value) {
	if !counts {
		return openRequest(body, geminiFields, authorized)
	}
	out, o := openRequest(body, geminiCounted, authorized)
	out.Counts = true
	inner := o.at(geminiCounted[0])
	if !inner.here {
		return out, o
	}
	out.Problems.addIf(o.at("contents").here, "contents and generateContentRequest are mutually exclusive")
	out.Problems.addIf(!strings.HasPrefix(inner.at("model").str(), "models/"), "generateContentRequest.model is not specified")
	out.Problems.unknown(inner, append(slices.Clone(geminiFields), "model"), geminiCounted[0]+".")
	return out, inner
}

// standardBase64 replaces the characters of the alphabet for URLs.
var standardBase64 = strings.NewReplacer("-", "+", "_", "/")

// inCamelCase returns an object with its own members in camel case. The vendor's SDK for Python
// sends some in snake case.
func inCamelCase(o value) value {
	members, ok := o.v.(object)
	if !ok {
		return o
	}
	out := make(object, len(members))
	for name, v := range members {
		words := strings.Split(name, "_")
		for i := 1; i < len(words); i++ {
			words[i] = strings.ToUpper(words[i][:min(1, len(words[i]))]) + words[i][min(1, len(words[i])):]
		}
		out[strings.Join(words, "")] = v
	}
	return value{out, true}
}

// requestPart returns a part in the documented spelling and alphabet.
func requestPart(p value) value {
	p = inCamelCase(p)
	if data := inCamelCase(p.at("inlineData")); data.isObject() {
		data.v.(object)["data"] = standardBase64.Replace(data.at("data").str())
		p.v.(object)["inlineData"] = data.v
	}
	return p
}
