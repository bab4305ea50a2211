package openairesponses

import (
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// TestReferencesAreFree checks that a request that refers to nothing costs no allocation.
func TestReferencesAreFree(t *testing.T) {
	turn := `{"role":"user","content":[{"type":"input_text","text":"a question"}]},{"type":"function_call","id":"fc_1","call_id":"c1","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"c1","output":"x"}`
	x, err := wire.IndexObject([]byte(`{"model":"m","stream":true,"tools":[{"type":"function","name":"f","parameters":{}}],"input":[` + turn + strings.Repeat(","+turn, 50) + `]}`))
	if err != nil {
		t.Fatal(err)
	}
	state := vendorState()
	if n := testing.AllocsPerRun(100, func() {
		if len(state.References(&x)) > 0 {
			t.Error("the request refers to something")
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestTapKeepsItems checks which ids of a response the tap finds.
func TestTapKeepsItems(t *testing.T) {
	whole := `{"id":"resp_1","status":"completed","output":[{"id":"rs_1","type":"reasoning"},{"type":"message","id":"msg_1","content":[{"id":"no"}]},{"type":"other"}]}`
	body, stream := Codec{}.NewTap(1), Codec{}.NewTap(1)
	if err := body.Body([]byte(whole)); err != nil {
		t.Fatal(err)
	}
	stream.Event([]byte(`{"type":"response.created","response":{"id":"resp_1","status":"in_progress","output":[]}}`))
	if kept := stream.Summary().Kept; kept != nil {
		t.Errorf("before the end: %v", kept)
	}
	stream.Event([]byte(`{"type":"response.completed","response":` + whole + `}`))
	for name, kept := range map[string][]string{"body": body.Summary().Kept, "stream": stream.Summary().Kept} {
		if strings.Join(kept, " ") != "rs_1 msg_1" {
			t.Errorf("%s: %v", name, kept)
		}
	}
}
