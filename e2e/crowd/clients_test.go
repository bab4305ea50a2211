package crowd

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/isogloss-gateway/isogloss/e2e/gosdk"
	"github.com/isogloss-gateway/isogloss/e2e/rig"
)

const (
	most   = 64
	hurry  = 16  // tokens of an answer in plain text
	leaves = 0.2 // of the streams
)

// said is what a client reports of one request.
type said struct {
	Nonce, Model, Text, Error string
	Stream, Formed, Left      bool
	tokens
}

// order is what is asked, and whether the client leaves before it has all of the
// answer.
type order struct {
	nonce, model, prompt   string
	stream, formed, leaves bool
	most                   int
}

func roll(dice *rand.Rand, nonce string) order {
	o := order{nonce: nonce, model: models[dice.IntN(len(models))], prompt: fmt.Sprintf("Write a long story about %s.", nonce), most: most}
	o.stream, o.formed = dice.Float64() < 0.6, o.model == forms && dice.Float64() < 0.7
	o.leaves = o.stream && dice.Float64() < leaves
	if !o.formed && !o.leaves {
		o.most = hurry
	}
	return o
}

func (o order) schema() map[string]any {
	return map[string]any{
		"type": "object", "required": []string{"id"}, "additionalProperties": false,
		"properties": map[string]any{"id": map[string]any{"type": "string", "enum": []string{o.nonce}}},
	}
}

// sdks returns the vendors' SDKs for Go by the names of their clients.
func sdks(origin string) (map[string]*gosdk.SDK, error) {
	one := &http.Client{Timeout: 5 * time.Minute}
	all := map[string]*gosdk.SDK{}
	for name, c := range map[string]struct {
		sdk  gosdk.New
		path string
	}{"chat": {gosdk.Chat, "/v1"}, "responses": {gosdk.Responses, "/v1"}, "anthropic": {gosdk.Anthropic2, ""}, "gemini": {gosdk.Gemini, ""}} {
		var err error
		if all[name], err = c.sdk(context.Background(), gosdk.Options{BaseURL: origin + c.path, Key: rig.ClientKey, HTTP: one}); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// runClient sends the requests of one client until the time is up.
func runClient(until time.Time, name string, number int, sdk *gosdk.SDK, tell func(said)) {
	dice := rand.New(rand.NewPCG(uint64(len(name)), uint64(number)))
	for n := 1; time.Now().Before(until); n++ {
		tell(send(roll(dice, fmt.Sprintf("go-%s-%d-%d", name, number, n)), sdk))
	}
}

// send sends one request. A client that leaves does so after its first piece of text.
func send(o order, sdk *gosdk.SDK) said {
	ctx, leave := context.WithCancel(context.Background())
	defer leave()
	s := said{Nonce: o.nonce, Model: o.model, Stream: o.stream, Formed: o.formed}
	r := gosdk.Request{Model: o.model, Prompt: o.prompt, MaxTokens: o.most, Fixed: true, Usage: true, Stream: o.stream, Piece: func(piece string) bool {
		s.Text += piece
		s.Left = o.leaves
		return o.leaves
	}}
	if o.formed {
		r.Schema = o.schema()
	}
	a, err := sdk.Ask(ctx, r)
	if s.tokens = (tokens{a.Usage.Input, a.Usage.Cached, a.Usage.Output}); err != nil {
		s.Error = fmt.Sprintf("%T: %v", err, err)
	}
	if !o.stream {
		s.Text = a.Text
	}
	return s
}
