package wire_test

import (
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

func TestJoiner(t *testing.T) {
	for name, c := range map[string]struct {
		fragments []string
		want      string
	}{
		"plain":             {[]string{"Hel", "lo"}, "Hello"},
		"escapes":           {[]string{`a\n`, `\"b\u00e9`}, "a\n\"bé"},
		"split pair":        {[]string{`x\ud83d`, `\ude00y`}, "x😀y"},
		"capital digits":    {[]string{`\uD83D`, `\uDE00`}, "😀"},
		"half without pair": {[]string{`x\ud83d`, `y`}, "x\ufffdy"},
		"half at the end":   {[]string{`x\ud83d`}, "x\ufffd"},
		"escaped backslash": {[]string{`\\ud83d`, "z"}, `\ud83dz`},
		"low half":          {[]string{`\ude00`, "z"}, "\ufffdz"},
		"empty fragment":    {[]string{`\ud83d`, "", `\ude00`}, "😀"},
	} {
		var j wire.Joiner
		got := ""
		for _, f := range c.fragments {
			got += j.Next(f)
		}
		if got += j.Rest(); got != c.want || j.Rest() != "" {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

func TestCount(t *testing.T) {
	for in, want := range map[string]wire.Count{
		"7": 7, `"7"`: 7, "7.0": 7, "1e2": 100, "-1": 0, "null": 0, `"x"`: 0, "1e30": 0, "{}": 0,
	} {
		var c wire.Count
		if err := json.Unmarshal([]byte(in), &c); err != nil || c != want {
			t.Errorf("%s: got %d, %v, want %d", in, c, err, want)
		}
	}
}

func TestScalar(t *testing.T) {
	for in, want := range map[string]string{`"a\u0062"`: "ab", "1.50": "1.50", "null": "", "{}": "", "": "", `"`: "", `"ab`: "ab", `"\`: ""} {
		if got := wire.Scalar(wire.Raw(in)); got != want {
			t.Errorf("%s: got %q, want %q", in, got, want)
		}
	}
}
