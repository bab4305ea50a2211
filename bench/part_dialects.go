package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// dialectModel is the model of a burst of 200 events from an upstream of a dialect. Its last letter tells the gateway
// which upstream that is.
func dialectModel(d testrig.Dialect) string {
	return "burst-200-" + map[testrig.Dialect]string{testrig.Chat: "o", testrig.Responses: "r", testrig.Messages: "a", testrig.Gemini: "g", testrig.Converse: "c"}[d]
}

// pairName is the arm of a client and an upstream of two dialects.
func pairName(client, up testrig.Dialect) string { return fmt.Sprintf("%s on %s", client, up) }

// dialectsPart measures translated events of all pairs of dialects.
func (b *bench) dialectsPart() {
	kept := len(b.kept)
	defer b.release(kept)
	p := b.shared(func(ctx context.Context, up string) *process { return b.startGateway(ctx, up, setting{pairs: true}) })
	for round := range b.size(3, 1) {
		for _, client := range testrig.Dialects() {
			for _, up := range testrig.Dialects() {
				if client == up {
					continue
				}
				name := pairName(client, up)
				a := &arm{name: name, base: name, proc: p, client: client}
				j := a.job("closed", dialectModel(up), 2<<10, true)
				j.Events, j.Conns, j.Warm, j.Total = 200, workers, 2*workers, 60
				s := b.drive(a, j)
				n := j.Events * j.Total
				b.note(b.report.of("dialects", a, 0), round, s, micros(s.cpu, n))
				b.note(b.report.of("dialects-allocs", a, 0), round, s, s.mallocs/float64(n))
			}
		}
	}
}

// mostOfPairs returns the highest median of the pairs of dialects in a table.
func mostOfPairs(table string) func(*report) []float64 {
	return func(r *report) []float64 {
		var medians []float64
		for _, name := range r.arms(table) {
			medians = append(medians, r.cell(table, name, 0).median())
		}
		if len(medians) == 0 {
			return nil
		}
		return []float64{slices.Max(medians)}
	}
}
