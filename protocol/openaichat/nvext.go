package openaichat

import (
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/llm"
)

// nvExtRules is what NVIDIA's extension members must look like. Members that are
// not listed are Dynamo's own business and pass.
var nvExtRules = []struct {
	name  string
	valid func(jsontext.Value) bool
	want  string
}{
	{"ignore_eos", isBool, "true or false"},
	{"greed_sampling", isBool, "true or false"},
	{"greedy_sampling", isBool, "true or false"}, // the name in Dynamo's documentation, K50
	{"use_raw_prompt", isBool, "true or false"},
	{"top_k", isTopK, "-1, or a whole number from 1 on"},
	{"repetition_penalty", isPenalty, "a number above 0 and at most 2"},
	{"annotations", isStrings, "a list of strings"},
}

// CheckNvExt checks the value of a request's nvext member.
func CheckNvExt(raw jsontext.Value) *llm.Error {
	var members map[string]jsontext.Value
	if json.Unmarshal(raw, &members, jsontext.AllowInvalidUTF8(true)) != nil { // lone surrogates are the upstream's to judge
		return badNvExt("nvext", "an object without repeated names")
	}
	for _, r := range nvExtRules {
		if v, ok := members[r.name]; ok && v.Kind() != 'n' && !r.valid(v) {
			return badNvExt("nvext."+r.name, r.want)
		}
	}
	return nil
}

func badNvExt(param, want string) *llm.Error {
	return &llm.Error{Kind: llm.InvalidRequest, Code: "invalid_value", Param: param, Message: param + " must be " + want}
}

func isBool(v jsontext.Value) bool { return v.Kind() == 't' || v.Kind() == 'f' }

func isTopK(v jsontext.Value) bool {
	n, err := strconv.ParseInt(string(v), 10, 64)
	return err == nil && (n == -1 || n >= 1)
}

func isPenalty(v jsontext.Value) bool {
	f, err := strconv.ParseFloat(string(v), 64)
	return err == nil && f > 0 && f <= 2
}

func isStrings(v jsontext.Value) bool {
	var list []jsontext.Value
	notString := func(item jsontext.Value) bool { return item.Kind() != '"' }
	return json.Unmarshal(v, &list, lenient) == nil && !slices.ContainsFunc(list, notString)
}
