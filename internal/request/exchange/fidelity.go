package exchange

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/internal/request/upstream"
	"github.com/isogloss-gateway/isogloss/llm"
)

// Exact is the fidelity of a response without losses.
const Exact = "exact"

// FidelityIn returns the value of the Isogloss-Fidelity header of a prepared call. It is Exact without one.
func FidelityIn(p Prepared) string {
	if p == nil {
		return Exact
	}
	return p.Fidelity()
}

// LossesIn returns the losses of a prepared call, which may be nil.
func LossesIn(p Prepared) []llm.Loss {
	if p == nil {
		return nil
	}
	return p.Losses()
}

// TimesOf returns the times of an attempt after it was sent. token is when the client got the first
// content, or zero.
func TimesOf(trip *upstream.RoundTrip, sent, token time.Time) (t usage.Times) {
	if trip == nil || sent.IsZero() {
		return t
	}
	t.Connect = trip.Connected()
	if !trip.HeadersAt.IsZero() {
		t.FirstByte = trip.HeadersAt.Sub(sent)
	}
	if !token.IsZero() {
		t.FirstToken = max(0, token.Sub(sent))
	}
	return t
}

// FidelityOf returns the value of the Isogloss-Fidelity header for the given losses.
func FidelityOf(losses []llm.Loss) string {
	switch {
	case len(losses) == 0:
		return Exact
	case slices.ContainsFunc(losses, func(l llm.Loss) bool { return l.Verdict == llm.Dropped }):
		return fidelity("dropped", losses)
	}
	return fidelity("approximated", losses)
}

// Refused returns the value of the Isogloss-Fidelity header for a request that was
// rejected because of its losses.
func Refused(losses []llm.Loss) string {
	if len(losses) == 0 {
		return Exact
	}
	return fidelity("refused", losses)
}

// unknownField is the code of members without a counterpart. The header names up to maxFields of them.
const (
	unknownField = "ext.unknown_field"
	maxFields    = 8
)

// fidelity returns a verdict with the number of losses of each kind and their codes.
func fidelity(verdict string, losses []llm.Loss) string {
	count := map[llm.Verdict]int{}
	var codes, fields []string
	for _, l := range losses {
		count[l.Verdict]++
		if !slices.Contains(codes, l.Code) {
			codes = append(codes, l.Code)
		}
		if l.Code == unknownField && len(fields) < maxFields {
			fields = append(fields, fieldName(l.Path))
		}
	}
	text := verdict + ";a=" + strconv.Itoa(count[llm.Approximated]) + ";d=" + strconv.Itoa(count[llm.Dropped])
	if n := count[llm.Rejected]; n > 0 {
		text += ";r=" + strconv.Itoa(n)
	}
	text += `;codes="` + strings.Join(codes, " ") + `"`
	if len(fields) > 0 {
		text += `;fields="` + strings.Join(fields, " ") + `"`
	}
	return text
}

// fieldName returns a path for the header, without the characters that a structured field cannot
// contain. Clients and upstreams choose the names in it.
func fieldName(path string) string {
	const maxLength = 64
	return strings.Map(func(r rune) rune {
		if r < 0x80 && llm.WordByte(byte(r)) || strings.ContainsRune(".[]/", r) {
			return r
		}
		return '_'
	}, path[:min(len(path), maxLength)])
}
