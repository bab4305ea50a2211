package secret

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

const canary = "sk-canary"

type holder struct {
	Key  String   `json:"key"`
	List []String `json:"list"`
}

func TestNothingPrintsASecret(t *testing.T) {
	s := String(canary)
	h := holder{Key: s, List: []String{s}}
	var printed strings.Builder
	for _, v := range []any{s, &s, h, &h, []String{s}, map[string]String{"k": s}, fmt.Errorf("x: %v", s)} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%T"} {
			fmt.Fprintf(&printed, verb+"\n", v)
		}
	}
	b, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	printed.Write(b)
	var log bytes.Buffer
	for _, handler := range []slog.Handler{slog.NewJSONHandler(&log, nil), slog.NewTextHandler(&log, nil)} {
		slog.New(handler).Info("m", "key", s, "pointer", &s, "holder", h, "list", h.List)
	}
	printed.Write(log.Bytes())
	hex := fmt.Sprintf("%x", canary)
	if text := printed.String(); strings.Contains(text, canary) || strings.Contains(strings.ToLower(text), hex) {
		for line := range strings.Lines(text) {
			if strings.Contains(line, canary) || strings.Contains(strings.ToLower(line), hex) {
				t.Error(line)
			}
		}
	}
	if !strings.Contains(printed.String(), "***") {
		t.Error("nothing was printed")
	}
}

func TestReveal(t *testing.T) {
	if got := String(canary).Reveal(); got != canary {
		t.Error(got)
	}
}
