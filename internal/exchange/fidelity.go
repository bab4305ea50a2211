package exchange

import (
	"slices"
	"strconv"
	"strings"

	"github.com/isogloss-gateway/isogloss/llm"
)

// Exact is the fidelity of a response without losses.
const Exact = "exact"

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

// fidelity returns a verdict with the number of losses of each kind and their codes.
func fidelity(verdict string, losses []llm.Loss) string {
	count := map[llm.Verdict]int{}
	var codes []string
	for _, l := range losses {
		count[l.Verdict]++
		if !slices.Contains(codes, l.Code) {
			codes = append(codes, l.Code)
		}
	}
	text := verdict + ";a=" + strconv.Itoa(count[llm.Approximated]) + ";d=" + strconv.Itoa(count[llm.Dropped])
	if n := count[llm.Rejected]; n > 0 {
		text += ";r=" + strconv.Itoa(n)
	}
	return text + `;codes="` + strings.Join(codes, " ") + `"`
}
