// Package pair has what a translation does beside the calls of its two codecs: whose seals a model reads, output that
// the client's dialect cannot name, and the losses of a stream. The gateway's translation lane and the public package
// translate are built on it.
package pair

import (
	"slices"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/llm"
)

// Pair is a client's and an upstream's dialect with the model of a request.
type Pair struct {
	Client, Upstream *codec.Dialect
	ClientModel      string // as the client names it
	Model            string // as the upstream names it
}

// maxChoices limits the number of choices. It is more than any vendor generates.
const maxChoices = 1 << 16

// Choices returns the choices of a request that was encoded with a report.
func Choices(req *llm.Request, report *llm.Report) int {
	const path = "output.choices"
	if n := req.Output.Choices; n != nil && !slices.ContainsFunc(report.Losses, func(l llm.Loss) bool { return l.Path == path }) {
		return int(min(*n, maxChoices))
	}
	return 1
}

// ReportSampling reports sampling values in a request whose version rejects them. Another
// dialect still accepts them (VER-05).
func ReportSampling(d *codec.Dialect, version string, req *llm.Request, report *llm.Report) {
	v := d.Versions
	if v == nil {
		return
	}
	i := slices.IndexFunc(v.Known, func(v codec.Version) bool { return v.Name == version })
	if i < 0 || !v.Known[i].NoSampling {
		return
	}
	for _, s := range []struct {
		name  string
		value llm.Number
	}{{"temperature", req.Sampling.Temperature}, {"top_p", req.Sampling.TopP}, {"top_k", req.Sampling.TopK}} {
		if s.value != "" {
			report.Approximate("sampling."+s.name, "sampling.version", s.name+" is not a part of version "+v.Known[i].Name+"; it is passed on")
		}
	}
}

// Ends counts the choices of a stream that have ended.
type Ends struct {
	Choices int // that the upstream was asked for; less than 2: one
	ended   int
}

// Add counts the choices that end in events.
func (n *Ends) Add(events []llm.Event) {
	for _, e := range events {
		c, ok := e.(llm.ChoiceEnd)
		if !ok {
			continue
		}
		if n.ended++; c.Stop.Kind == llm.PromptBlocked {
			n.ended = n.Choices // one reason stands for all
		}
	}
}

// Require replaces an End that only the end of the stream has proved, unless each requested choice has
// ended. The events from start on are those of the decoder's Finish.
func (n *Ends) Require(events []llm.Event, start int) {
	n.Add(events[start:])
	last := len(events) - 1
	if last < start || n.ended >= n.Choices {
		return
	}
	if _, end := events[last].(llm.End); end {
		events[last] = llm.Failure{Err: codec.Truncated()}
	}
}
