package llm

import (
	"errors"
	"net/http"
	"slices"
	"testing"
)

func TestReportModes(t *testing.T) {
	for _, c := range []struct {
		mode              Mode
		approximate, drop bool // this loss alone rejects the request
		refuse            bool
		ofRefusal         Verdict
	}{
		{"", false, false, true, Rejected},
		{Default, false, false, true, Rejected},
		{Strict, true, true, true, Rejected},
		{Loose, false, false, false, Dropped},
	} {
		for _, s := range []struct {
			note    func(r *Report, path, code, note string)
			refused bool
			verdict Verdict
		}{
			{(*Report).Approximate, c.approximate, Approximated},
			{(*Report).Drop, c.drop, Dropped},
			{(*Report).Refuse, c.refuse, c.ofRefusal},
		} {
			r := Report{Mode: c.mode}
			if r.Err() != nil {
				t.Fatal("an empty report rejects the request")
			}
			s.note(&r, "/sampling", "sampling.lost", "why")
			if want := []Loss{{"/sampling", s.verdict, "sampling.lost", "why"}}; !slices.Equal(r.Losses, want) {
				t.Errorf("%s: %v, want %v", c.mode, r.Losses, want)
			}
			err := r.Err()
			if (err != nil) != s.refused {
				t.Errorf("%s, %s: %v", c.mode, s.verdict, err)
			}
			if err != nil && (err.Kind != InvalidRequest || err.Param != "sampling" || err.Code != "unsupported_parameter" || err.Message != "/sampling: why (sampling.lost)") {
				t.Errorf("%+v", err)
			}
		}
	}
}

// Err describes the first loss that rejects the request, not the first loss.
func TestReportErrNamesTheRefusedField(t *testing.T) {
	var r Report
	r.Drop("a", "a.lost", "")
	r.Refuse("b", "b.lost", "")
	if err := r.Err(); err == nil || err.Param != "b" {
		t.Errorf("%v", err)
	}
}

func TestErrorStatus(t *testing.T) {
	for kind, status := range kindStatus {
		if got := (&Error{Kind: kind}).HTTPStatus(); got != status {
			t.Errorf("%s: %d, want %d", kind, got, status)
		}
	}
	if got := (&Error{Kind: "new"}).HTTPStatus(); got != http.StatusInternalServerError {
		t.Errorf("unknown kind: %d", got)
	}
	if got := (&Error{Kind: Quota, Status: 402}).HTTPStatus(); got != 402 {
		t.Errorf("own status: %d", got)
	}
	cause := errors.New("cause")
	e := &Error{Message: "m", Cause: cause}
	if e.Error() != "m: cause" || !errors.Is(e, cause) || (&Error{Message: "m"}).Error() != "m" {
		t.Errorf("%v", e)
	}
}

func TestUsage(t *testing.T) {
	u := &Usage{Input: 1, CacheRead: 20, CacheWrite: 300, Output: 4000, Reasoning: 50000}
	if u.TotalInput() != 321 || u.TotalOutput() != 54000 {
		t.Errorf("%d, %d", u.TotalInput(), u.TotalOutput())
	}
}

func TestThoughtText(t *testing.T) {
	th := &Thought{Parts: []ThoughtPart{{FullReasoning, "a"}, {SummaryReasoning, "b"}, {FullReasoning, "c"}}}
	if th.Text("") != "abc" || th.Text(FullReasoning) != "ac" || th.Text(SummaryReasoning) != "b" {
		t.Errorf("%q", th.Text(""))
	}
}

func TestSealFor(t *testing.T) {
	m := Meta{Seals: []Seal{{Signature, "a", "gemini", ""}, {Signature, "b", "anthropic", ""}}}
	if s, ok := m.SealFor("anthropic"); !ok || s.Data != "b" {
		t.Errorf("%v %v", s, ok)
	}
	if _, ok := m.SealFor("openai-chat"); ok {
		t.Error("a seal of another protocol")
	}
}

func TestExtGet(t *testing.T) {
	e := Ext{Members: []Member{{"a", "1"}, {"b", "2"}}}
	if e.Get("b") != "2" || e.Get("c") != "" {
		t.Errorf("%q %q", e.Get("b"), e.Get("c"))
	}
}
