package relay

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/provider"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
)

// translation is what an exchange between two dialects gathers.
type translation struct {
	ask     *llm.Request // what the client asked, in no dialect; nil once a stream has let go of it
	out     protocol.Outgoing
	undo    llm.Undo
	losses  []llm.Loss
	summary protocol.Summary
	created int64 // for dialects that want a time, where the upstream gave none
	hearing *hearing

	// badKey is a further status by which the upstream refuses the credential.
	badKey int

	// rewrite makes the client's answer of the upstream's, for what is not
	// generated text.
	rewrite func(body []byte) ([]byte, *llm.Error)
}

// convert writes the client's request in the upstream's dialect.
func (r *Relay) convert(x *exchange) *llm.Error {
	if into := x.endpoint.into[x.target.Provider.Protocol]; into != nil {
		return into(x)
	}
	if x.endpoint.form != nil {
		x.dialect = x.endpoint.form
	}
	return r.translate(x)
}

// translate takes a request for text to another dialect.
func (r *Relay) translate(x *exchange) *llm.Error {
	report, err := x.newReport()
	if err != nil {
		return err
	}
	if err := x.checkNvExt(report.Mode); err != nil {
		return err
	}
	ask, err := x.decodeAsk()
	if err != nil {
		return err
	}
	p := x.target.Provider
	send := *ask
	send.Stream = ask.Stream || p.UpstreamStream == provider.Always
	send.Turns = r.seals.restore(x.caller.ID, string(p.Protocol), ask.Turns)
	send.IncludeUsage = true // for the books; the client's own wish decides what it sees
	x.outOfVersion(ask, report)
	if f, ok := x.dialect.(interface{ ReportForm(*llm.Report) }); ok {
		f.ReportForm(report)
	}
	out, err := x.speaks.EncodeRequest(&send, x.upstreamTarget(), report)
	if err != nil {
		return x.refusal(report, err)
	}
	if out.Body, err = applyQuirks(out.Body, p.Quirks); err != nil {
		return err
	}
	if x.named != nil {
		ask.State.PreviousID = x.named.previous // the client is told what it went on from
	}
	x.sendAs(&translation{ask: ask, out: out, undo: llm.Undo{Names: out.Names}, losses: report.Losses})
	x.streams = send.Stream
	return nil
}

// decodeAsk reads the client's request. What depends on something that only the
// vendor has is refused whatever the mode: without it the model would answer
// another question. RSP-17, RSP-18
func (x *exchange) decodeAsk() (*llm.Request, *llm.Error) {
	ask, err := x.dialect.DecodeRequest(x.incoming())
	if err != nil {
		return nil, err
	}
	if dialect, names := x.dialect.(namer); names && x.dialect.Name() != x.speaks.Name() {
		return ask, dialect.Stateful(ask)
	}
	return ask, nil
}

// checkNvExt refuses NVIDIA's extension where it would be lost: no other dialect
// has it.
func (x *exchange) checkNvExt(mode llm.Mode) *llm.Error {
	if x.endpoint.dialect != protocol.OpenAIChat || x.ask.raw("nvext") == nil {
		return nil
	}
	if mode == llm.Loose || x.target.Provider.NvExt == provider.NvExtDrop {
		return nil
	}
	return &llm.Error{Kind: llm.InvalidRequest, Code: "unsupported_parameter", Param: "nvext",
		Message: "the provider '" + x.target.Provider.Name + "' speaks " + string(x.target.Provider.Protocol) + ", which has no nvext; leave it out, or set 'nvext: drop' for the provider"}
}

// incoming is the client's request as it came.
func (x *exchange) incoming() protocol.Incoming {
	return protocol.Incoming{Body: x.ask.body, Path: x.endpoint.path, Stream: x.ask.stream, Version: x.endpoint.version}
}

// upstreamTarget is what an encoder is told of the upstream.
func (x *exchange) upstreamTarget() protocol.Target {
	p := x.target.Provider
	t := protocol.Target{Model: x.target.Model, Version: upstreamVersion(p), Gates: x.state.Gates.For(p.Protocol, x.target.Model)}
	t.Gates.NoCustom = !p.KnowsCustomTools()
	if p.Protocol == protocol.Anthropic && !samples(p) {
		t.Gates.NoSampling = true
	}
	return t
}

// sendAs makes a translated request the one that is sent.
func (x *exchange) sendAs(t *translation) {
	t.created = time.Now().Unix()
	if t.out.Header == nil {
		t.out.Header = http.Header{}
	}
	// What a header asks for is known to its own vendor only.
	if beta := x.client.Header["Anthropic-Beta"]; len(beta) > 0 && x.endpoint.dialect == protocol.Anthropic {
		if x.target.Provider.Protocol == protocol.Anthropic {
			t.out.Header["Anthropic-Beta"] = beta
		} else {
			t.losses = append(t.losses, llm.Loss{Path: "anthropic-beta", Verdict: llm.Dropped, Code: "header.anthropic_beta", Note: "the header means nothing to the upstream"})
		}
	}
	x.translation = t
	x.body, x.path = t.out.Body, t.out.Path
	x.fidelity = fidelityOf(t.losses)
}

// applyQuirks renames members as the provider wants them.
func applyQuirks(body []byte, quirks []provider.Quirk) ([]byte, *llm.Error) {
	if len(quirks) == 0 {
		return body, nil
	}
	o, err := index(body, span{0, len(body)}, nil)
	if err != nil {
		return nil, err
	}
	p := projection{object: o}
	return patch(body, p.applyQuirks(quirks)), nil
}

// modeHeader is how a client asks for a mode for one request.
const modeHeader = "Isogloss-Fidelity-Mode"

// newReport is a report in the mode that the client asks for, else in the
// configured one.
func (x *exchange) newReport() (*llm.Report, *llm.Error) {
	said := x.client.Header.Get(modeHeader)
	switch mode := llm.Mode(strings.ToLower(said)); mode {
	case llm.Strict, llm.Default, llm.Loose:
		return &llm.Report{Mode: mode}, nil
	case "":
	default:
		return nil, &llm.Error{Kind: llm.InvalidRequest, Code: "invalid_value", Param: modeHeader,
			Message: modeHeader + " is '" + printable(said) + "'; send strict, default or loose"}
	}
	if x.state.Fidelity != "" {
		return &llm.Report{Mode: x.state.Fidelity}, nil
	}
	return &llm.Report{Mode: llm.Default}, nil
}

// refusal notes why a request is not sent.
func (x *exchange) refusal(report *llm.Report, err *llm.Error) *llm.Error {
	if len(report.Losses) > 0 {
		x.fidelity = verdictOf("refused", report.Losses)
	}
	return err
}

// exact is said of an answer that lost nothing.
const exact = "exact"

// fidelityOf is the header that says what could not be carried.
func fidelityOf(losses []llm.Loss) string {
	switch {
	case len(losses) == 0:
		return exact
	case slices.ContainsFunc(losses, func(l llm.Loss) bool { return l.Verdict == llm.Dropped }):
		return verdictOf("dropped", losses)
	}
	return verdictOf("approximated", losses)
}

// verdictOf is a verdict with how many losses there are of each kind, and their
// codes.
func verdictOf(worst string, losses []llm.Loss) string {
	count := map[llm.Verdict]int{}
	var codes []string
	for _, l := range losses {
		count[l.Verdict]++
		if !slices.Contains(codes, l.Code) {
			codes = append(codes, l.Code)
		}
	}
	text := worst + ";a=" + strconv.Itoa(count[llm.Approximated]) + ";d=" + strconv.Itoa(count[llm.Dropped])
	if n := count[llm.Rejected]; n > 0 {
		text += ";r=" + strconv.Itoa(n)
	}
	return text + `;codes="` + strings.Join(codes, " ") + `"`
}
