package relay

import (
	"strings"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/llm"
)

func thoughtful(callID, text, seal string) *llm.Response {
	return &llm.Response{Choices: []llm.Choice{{Blocks: []llm.Block{
		&llm.Thought{Meta: llm.Meta{Seals: []llm.Seal{{Form: llm.Signature, Data: seal, Origin: "anthropic"}}}, Parts: []llm.ThoughtPart{{Form: llm.FullReasoning, Text: text}}},
		&llm.ToolCall{CallID: callID, Kind: llm.FunctionTool, Name: "f", Args: "{}"},
	}}}}
}

var question = []llm.Turn{
	{Role: llm.System, Blocks: []llm.Block{&llm.Text{Text: "It is Monday."}}},
	{Role: llm.User, Blocks: []llm.Block{&llm.Text{Text: "go"}}},
}

// resent is the conversation as a client sends it that has dropped the reasoning.
func resent(callID string) []llm.Turn {
	return []llm.Turn{
		{Role: llm.User, Blocks: []llm.Block{&llm.Text{Text: "go"}}}, // without the system text, which may change
		{Role: llm.Assistant, Blocks: []llm.Block{&llm.ToolCall{CallID: callID, Kind: llm.FunctionTool, Name: "f", Args: "{}"}}},
		{Role: llm.ToolRole, Blocks: []llm.Block{&llm.ToolResult{CallID: callID}}},
	}
}

func thoughtOf(turns []llm.Turn) *llm.Thought {
	for _, b := range turns[len(turns)-2].Blocks {
		if t, ok := b.(*llm.Thought); ok {
			return t
		}
	}
	return nil
}

func TestSealsComeBackToTheirOrigin(t *testing.T) {
	s := newSealStore()
	s.keepAnswer(keeper{caller: "alice"}, question, thoughtful("call_1", "hm, 北京", "SIG"))
	turns := resent("call_1")
	got := thoughtOf(s.restore("alice", "anthropic", turns))
	if got == nil || got.Text("") != "hm, 北京" || len(got.Seals) != 1 || got.Seals[0].Data != "SIG" {
		t.Fatalf("%+v", got)
	}
	if thoughtOf(turns) != nil {
		t.Error("the client's own turns were changed")
	}
	for name, other := range map[string][]llm.Turn{
		"another caller":   s.restore("bob", "anthropic", resent("call_1")),
		"another call":     s.restore("alice", "anthropic", resent("call_2")),
		"another protocol": s.restore("alice", "gemini", resent("call_1")),
		"another talk":     s.restore("alice", "anthropic", append([]llm.Turn{{Role: llm.User, Blocks: []llm.Block{&llm.Text{Text: "stop"}}}}, resent("call_1")...)),
	} {
		if thoughtOf(other) != nil {
			t.Errorf("%s got it", name)
		}
	}
}

// The same conversation with two vendors, whose scripted servers even give the same ids:
// each gets its own seals back.
func TestSealsOfTwoVendors(t *testing.T) {
	s := newSealStore()
	s.keepAnswer(keeper{caller: "alice"}, question, thoughtful("call_1", "hm", "SIG"))
	other := thoughtful("call_1", "hm", "OTHER")
	other.Choices[0].Blocks[0].Common().Seals[0].Origin = "gemini"
	s.keepAnswer(keeper{caller: "alice"}, question, other)
	for protocol, want := range map[string]string{"anthropic": "SIG", "gemini": "OTHER"} {
		if got := thoughtOf(s.restore("alice", protocol, resent("call_1"))); got == nil || got.Seals[0].Data != want {
			t.Errorf("%s: %+v", protocol, got)
		}
	}
}

func TestSealsThatTheClientSendsStay(t *testing.T) {
	s := newSealStore()
	s.keepAnswer(keeper{caller: "alice"}, question, thoughtful("call_1", "kept", "OLD"))
	turns := resent("call_1")
	own := &llm.Thought{Meta: llm.Meta{Seals: []llm.Seal{{Form: llm.Signature, Data: "NEW", Origin: "anthropic"}}}}
	turns[1].Blocks = append([]llm.Block{own}, turns[1].Blocks...)
	if got := thoughtOf(s.restore("alice", "anthropic", turns)); got != own {
		t.Errorf("%+v", got)
	}
}

func TestSealsOnCallsComeBack(t *testing.T) {
	s := newSealStore()
	seal := llm.Seal{Form: llm.Signature, Data: "S", Origin: "gemini"}
	s.keepAnswer(keeper{caller: ""}, question, &llm.Response{Choices: []llm.Choice{{Blocks: []llm.Block{
		&llm.ToolCall{Meta: llm.Meta{Seals: []llm.Seal{seal}}, CallID: "call_1", Name: "f", Kind: llm.FunctionTool}}}}})
	turns := s.restore("", "gemini", resent("call_1"))
	if got, ok := turns[1].Blocks[0].Common().SealFor("gemini"); !ok || got != seal {
		t.Errorf("%+v", turns[1].Blocks[0])
	}
}

// LangChain's package for Gemini loses a call's id and its signature in streams.
func TestSealsComeBackToCallsWithoutIDs(t *testing.T) {
	s := newSealStore()
	turns := func() []llm.Turn {
		turns := resent("call_made_up")
		turns[1].Blocks[0].(*llm.ToolCall).Synthetic = true
		return turns
	}
	s.keepAnswer(keeper{caller: "alice"}, question, thoughtful("call_1", "hm", "SIG"))
	if thoughtOf(s.restore("alice", "anthropic", turns())) != nil {
		t.Error("a client whose dialect has ids got it without one")
	}
	s.keepAnswer(keeper{caller: "alice", nameless: true}, question, thoughtful("call_1", "hm", "SIG"))
	for name, turns := range map[string][]llm.Turn{"without an id": turns(), "with its id": resent("call_1")} {
		if got := thoughtOf(s.restore("alice", "anthropic", turns)); got == nil || got.Seals[0].Data != "SIG" {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if thoughtOf(s.restore("bob", "anthropic", turns())) != nil {
		t.Error("another caller got it")
	}
}

func TestSealsAreForgotten(t *testing.T) {
	s := newSealStore()
	clock := time.Unix(1_770_000_000, 0)
	s.now = func() time.Time { return clock }
	s.keepAnswer(keeper{caller: "alice"}, question, thoughtful("call_1", "x", "SIG"))
	clock = clock.Add(sealLife + time.Second)
	if thoughtOf(s.restore("alice", "anthropic", resent("call_1"))) != nil {
		t.Error("it is too old")
	}
	s.keepAnswer(keeper{caller: "alice"}, question, thoughtful("call_2", "x", "SIG"))
	if len(s.entries) != 1 || s.order.Len() != 1 {
		t.Errorf("%d entries, %d in order: the old one is still there", len(s.entries), s.order.Len())
	}
}

func TestSealStoreIsBounded(t *testing.T) {
	s := newSealStore()
	s.keepAnswer(keeper{caller: "a"}, question, thoughtful("huge", strings.Repeat("x", maxSealSize+1), "SIG"))
	if len(s.entries) != 0 {
		t.Error("an answer above the limit was kept")
	}
	for i := range maxSeals + 10 {
		s.keepAnswer(keeper{caller: "a"}, question, thoughtful("call_"+strings.Repeat("i", i%7)+time.Duration(i).String(), "x", "SIG"))
	}
	if len(s.entries) > maxSeals {
		t.Errorf("%d entries", len(s.entries))
	}
	text := strings.Repeat("y", maxSealSize/2)
	for i := range 2 * maxSealRoom / len(text) {
		s.keepAnswer(keeper{caller: "a"}, question, thoughtful("big_"+time.Duration(i).String(), text, "SIG"))
	}
	if s.room > maxSealRoom {
		t.Errorf("%d bytes", s.room)
	}
	total := int64(0)
	for _, at := range s.entries {
		e := at.Value.(*vaultEntry)
		total += e.room()
		if strings.Contains(string(e.sealed), "yyyyyyyy") {
			t.Fatal("reasoning is kept in the clear")
		}
	}
	if total != s.room {
		t.Errorf("%d bytes are kept, %d are counted", total, s.room)
	}
}
