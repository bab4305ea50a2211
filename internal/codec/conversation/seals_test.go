package conversation

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/isogloss-gateway/isogloss/llm"
)

// sealedCall is a response with a sealed thought and a tool call.
func sealedCall(callID, text, seal string) *llm.Response {
	return &llm.Response{Choices: []llm.Choice{{Blocks: []llm.Block{
		&llm.Thought{Meta: llm.Meta{Seals: []llm.Seal{{Form: llm.Signature, Data: seal, Origin: "anthropic"}}}, Parts: []llm.ThoughtPart{{Form: llm.FullReasoning, Text: text}}},
		&llm.ToolCall{CallID: callID, Kind: llm.FunctionTool, Name: "f", Args: "{}"},
	}}}}
}

// conversationStart is the conversation that the responses continue.
var conversationStart = []llm.Turn{
	{Role: llm.System, Blocks: []llm.Block{&llm.Text{Text: "It is Monday."}}},
	{Role: llm.User, Blocks: []llm.Block{&llm.Text{Text: "go"}}},
}

// record stores the reasoning of a response.
func (s *Seals) record(caller string, optionalIDs bool, resp *llm.Response) {
	r := s.NewRecorder(Caller{ID: caller}, optionalIDs)
	r.Response(resp)
	r.Save(func() Digest { return DigestOf(conversationStart) })
}

// withoutReasoning is the next request of a client that drops the reasoning.
func withoutReasoning(callID string) []llm.Turn {
	return []llm.Turn{
		conversationStart[0], conversationStart[1],
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

func TestSealsAreRestored(t *testing.T) {
	s := NewSeals()
	s.record("alice", false, sealedCall("call_1", "hm, 北京", "SIG"))
	turns := withoutReasoning("call_1")
	got := thoughtOf(s.Restore(Caller{ID: "alice"}, "anthropic", turns))
	if got == nil || got.Text("") != "hm, 北京" || len(got.Seals) != 1 || got.Seals[0].Data != "SIG" {
		t.Fatalf("%+v", got)
	}
	if thoughtOf(turns) != nil {
		t.Error("the argument was changed")
	}
	for name, other := range map[string][]llm.Turn{
		"another caller":       s.Restore(Caller{ID: "bob"}, "anthropic", withoutReasoning("call_1")),
		"another call":         s.Restore(Caller{ID: "alice"}, "anthropic", withoutReasoning("call_2")),
		"another protocol":     s.Restore(Caller{ID: "alice"}, "gemini", withoutReasoning("call_1")),
		"another conversation": s.Restore(Caller{ID: "alice"}, "anthropic", append([]llm.Turn{{Role: llm.User, Blocks: []llm.Block{&llm.Text{Text: "stop"}}}}, withoutReasoning("call_1")...)),
	} {
		if thoughtOf(other) != nil {
			t.Errorf("%s got it", name)
		}
	}
}

// TestSealsNeedTheSameConversation checks that a call without a random id gets its seal only in a
// conversation with the same system text. Other conversations of the caller may begin with the same words and the
// same call.
func TestSealsNeedTheSameConversation(t *testing.T) {
	const random = "call_0123456789abcdefghij"
	for id, restored := range map[string]bool{random: true, "call_1": false, "functions.read_one_file:0": false, "": false} {
		s := NewSeals()
		s.record("alice", true, sealedCall(id, "hm", "SIG"))
		turns := withoutReasoning(id)
		turns[2].Blocks[0].(*llm.ToolCall).Synthetic = id == ""
		if thoughtOf(s.Restore(Caller{ID: "alice"}, "anthropic", turns)) == nil {
			t.Errorf("%q: the same conversation does not get it", id)
		}
		turns[0] = llm.Turn{Role: llm.System, Blocks: []llm.Block{&llm.Text{Text: "It is Tuesday."}}}
		if got := thoughtOf(s.Restore(Caller{ID: "alice"}, "anthropic", turns)) != nil; got != restored {
			t.Errorf("%q: restored with another system text: %v", id, got)
		}
	}
}

// TestSealsOfTwoProtocols checks that in the same conversation with two vendors that use
// the same ids, each vendor gets its own seals.
func TestSealsOfTwoProtocols(t *testing.T) {
	s := NewSeals()
	s.record("alice", false, sealedCall("call_1", "hm", "SIG"))
	other := sealedCall("call_1", "hm", "OTHER")
	other.Choices[0].Blocks[0].Common().Seals[0].Origin = "gemini"
	s.record("alice", false, other)
	for protocol, want := range map[string]string{"anthropic": "SIG", "gemini": "OTHER"} {
		if got := thoughtOf(s.Restore(Caller{ID: "alice"}, protocol, withoutReasoning("call_1"))); got == nil || got.Seals[0].Data != want {
			t.Errorf("%s: %+v", protocol, got)
		}
	}
}

func TestClientSealsAreKept(t *testing.T) {
	s := NewSeals()
	s.record("alice", false, sealedCall("call_1", "kept", "OLD"))
	turns := withoutReasoning("call_1")
	own := &llm.Thought{Meta: llm.Meta{Seals: []llm.Seal{{Form: llm.Signature, Data: "NEW", Origin: "anthropic"}}}}
	turns[2].Blocks = append([]llm.Block{own}, turns[2].Blocks...)
	if got := thoughtOf(s.Restore(Caller{ID: "alice"}, "anthropic", turns)); got != own {
		t.Errorf("%+v", got)
	}
}

func TestCallSealsAreRestored(t *testing.T) {
	s := NewSeals()
	seal := llm.Seal{Form: llm.Signature, Data: "S", Origin: "gemini"}
	s.record("", false, &llm.Response{Choices: []llm.Choice{{Blocks: []llm.Block{
		&llm.ToolCall{Meta: llm.Meta{Seals: []llm.Seal{seal}}, CallID: "call_1", Name: "f", Kind: llm.FunctionTool}}}}})
	turns := s.Restore(Caller{}, "gemini", withoutReasoning("call_1"))
	if got, ok := turns[2].Blocks[0].Common().SealFor("gemini"); !ok || got != seal {
		t.Errorf("%+v", turns[2].Blocks[0])
	}
}

// TestSealsOfCallsWithoutIDs checks that a tool call without an id gets its seal only if
// the client's dialect has no ids. LangChain's package for Gemini loses the id and the
// signature of a call in streams.
func TestSealsOfCallsWithoutIDs(t *testing.T) {
	s := NewSeals()
	turns := func() []llm.Turn {
		turns := withoutReasoning("call_made_up")
		turns[2].Blocks[0].(*llm.ToolCall).Synthetic = true
		return turns
	}
	s.record("alice", false, sealedCall("call_1", "hm", "SIG"))
	if thoughtOf(s.Restore(Caller{ID: "alice"}, "anthropic", turns())) != nil {
		t.Error("a client whose dialect has ids got it without one")
	}
	s.record("alice", true, sealedCall("call_1", "hm", "SIG"))
	for name, turns := range map[string][]llm.Turn{"without an id": turns(), "with its id": withoutReasoning("call_1")} {
		if got := thoughtOf(s.Restore(Caller{ID: "alice"}, "anthropic", turns)); got == nil || got.Seals[0].Data != "SIG" {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if thoughtOf(s.Restore(Caller{ID: "bob"}, "anthropic", turns())) != nil {
		t.Error("another caller got it")
	}
}

func TestSealsExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewSeals()
		s.record("alice", false, sealedCall("call_1", "x", "SIG"))
		time.Sleep(sealsTTL + time.Second)
		if thoughtOf(s.Restore(Caller{ID: "alice"}, "anthropic", withoutReasoning("call_1"))) != nil {
			t.Error("found after the TTL")
		}
	})
}

func TestSealsAreBounded(t *testing.T) {
	s := NewSeals()
	kept := s.store.(*store)
	s.record("a", false, sealedCall("huge", strings.Repeat("x", sealsMaxValue+1), "SIG"))
	if !s.store.isEmpty() {
		t.Error("a response above the bound is stored")
	}
	kept.bounds.maxEntries, kept.bounds.maxBytes = 100, 1<<20
	for i := range 200 {
		s.record("a", false, sealedCall(fmt.Sprint("call_", i), "x", "SIG"))
	}
	kept.checkSize(t)
	text := strings.Repeat("y", sealsMaxValue/2)
	for i := range 20 {
		s.record("a", false, sealedCall(fmt.Sprint("big_", i), text, "SIG"))
	}
	kept.checkSize(t)
}

// TestSealsOfTwoMakers checks that a turn with the seal of one maker does not get the reasoning of another maker, whose
// model has made the same call in the same place.
func TestSealsOfTwoMakers(t *testing.T) {
	s := NewSeals()
	s.record("alice", false, sealedCall("call_1", "hm", "SIG"))
	turns := withoutReasoning("call_1")
	turns[2].Blocks[0].Common().Seals = []llm.Seal{{Form: llm.Signature, Data: "G", Origin: "gemini"}}
	if got := thoughtOf(s.Restore(Caller{ID: "alice"}, "anthropic", turns)); got != nil {
		t.Errorf("the turn of gemini got %+v", got)
	}
}
