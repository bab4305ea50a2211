package doctor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"

	"github.com/isogloss-gateway/isogloss/internal/api/admin/client"
	"github.com/isogloss-gateway/isogloss/internal/base/observe"
	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/internal/request/relay"
	"github.com/isogloss-gateway/isogloss/internal/targets/balance"
	"github.com/isogloss-gateway/isogloss/internal/targets/provider"
	"github.com/isogloss-gateway/isogloss/internal/targets/route"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/all"
)

const (
	spendModel = "doctor" // the name of the model in a request that is sent to check a provider
	spendLimit = 16       // output tokens; some vendors take no less
	maxSpent   = 1 << 20  // bytes of the response
)

// count sends a short request to a model of a provider, by the way that every request takes, and says what it has used:
// a token count where the dialect has one, and else a response of a few tokens.
func (in *Installation) count(ctx context.Context, p *provider.Provider, model string) (string, error) {
	d := dialectOf(p.Protocol)
	if d == nil {
		return "", errors.New("its protocol is not known")
	}
	state := in.State()
	state.Routes = route.New([]*route.Route{{Name: spendModel, Balance: balance.InOrder, Targets: []route.Target{{Provider: p, Model: model, Weight: 1, Timeouts: p.Timeouts}}}})
	limit := int64(spendLimit)
	ask := &llm.Request{Model: spendModel, Turns: []llm.Turn{{Role: llm.User, Blocks: []llm.Block{&llm.Text{Text: "ping"}}}}}
	encode := d.Codec.EncodeRequest
	if d.Count != nil {
		encode = d.Count.EncodeRequest
	} else {
		ask.Output.MaxTokens = &limit
	}
	out, fault := encode(ask, protocol.Target{Model: spendModel, Gates: state.Gates.For(p.Protocol, model)}, &llm.Report{})
	if fault != nil {
		return "", fault
	}
	text, status, err := send(ctx, state, out)
	switch {
	case err != nil:
		return "", err
	case status != http.StatusOK:
		return "", fmt.Errorf("status %d, %s", status, d.Codec.DecodeError(status, nil, text).Kind)
	case d.Count != nil:
		n, fault := d.Count.DecodeResponse(text)
		if fault != nil {
			return "", fault
		}
		return fmt.Sprintf("a token count says %d tokens", n), nil
	}
	resp, fault := d.Codec.DecodeResponse(text)
	switch {
	case fault != nil:
		return "", fault
	case resp.Usage == nil:
		return "a short request succeeds", nil
	}
	return fmt.Sprintf("a short request has used %d input and %d output tokens", resp.Usage.Input, resp.Usage.Output), nil
}

func dialectOf(name protocol.Name) *codec.Dialect {
	for _, d := range all.Dialects() {
		if d.Name == name {
			return d
		}
	}
	return nil
}

// send sends a request through a gateway in this process.
func send(ctx context.Context, state *relay.State, out protocol.Outgoing) (text []byte, status int, err error) {
	observer, err := observe.New(observe.Options{Log: io.Discard, Level: slog.LevelError, Format: "json"})
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = observer.Close(ctx) }() // it sends nothing
	gateway := relay.New(all.Dialects(), observer)
	defer gateway.Close()
	gateway.Use(state)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://127.0.0.1"+out.Path, bytes.NewReader(out.Body))
	if err != nil {
		return nil, 0, err
	}
	for name, values := range out.Header {
		req.Header[name] = values
	}
	req.Header.Set("Content-Type", "application/json")
	req.RemoteAddr, req.RequestURI = "127.0.0.1:1", out.Path
	resp, err := client.InProcess(gateway).RoundTrip(req)
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = resp.Body.Close() }() // it is in memory
	text, err = io.ReadAll(io.LimitReader(resp.Body, maxSpent))
	return text, resp.StatusCode, err
}
