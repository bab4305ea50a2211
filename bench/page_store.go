package main

import "fmt"

// storeGrid shows the cost of keys, limits and the ledger: a row for each figure, without
// and with a store.
func storeGrid(r *report) [][]string {
	grid := [][]string{{"figure", "no store", "SQLite", "SQLite and Redis", "PostgreSQL", "PostgreSQL and a log"}}
	for _, row := range []struct {
		name, table, unit string
		x                 float64
		arms              [5]string // "" where it was not measured
	}{
		{"CPU per request, 2 KB in, 1 KB out", "store-request", "µs", 0, [5]string{ours, oursStore, oursRedis, oursPostgres, oursLog}},
		{"allocations per request", "store-request-allocs", "", 0, [5]string{ours, oursStore, oursRedis, oursPostgres, oursLog}},
		{"CPU per event, bursts of 200", "store-burst", "µs", 0, [5]string{ours, oursStore, oursRedis}},
		{"the same, Messages on Chat", "store-burst", "µs", 0, [5]string{oursMessages, oursStoreMessages}},
		{"CPU per event, paced streams", "store-paced", "µs", storeStreams, [5]string{ours, oursStore}},
		{"memory per open stream", "store-memory", "KiB", last(r.columns("store-memory")), [5]string{ours, oursStore}},
		{"the same, Messages on Chat", "store-memory", "KiB", last(r.columns("store-memory")), [5]string{oursMessages, oursStoreMessages}},
		{fmt.Sprintf("latency added at %d/s, p50", storeRate), "store-p50", "ms", storeRate, [5]string{ours, oursStore, oursRedis}},
		{fmt.Sprintf("latency added at %d/s, p99", storeRate), "store-p99", "ms", storeRate, [5]string{ours, oursStore, oursRedis}},
	} {
		if len(r.columns(row.table)) == 0 {
			continue
		}
		cells := []string{row.name}
		for _, arm := range row.arms {
			cells = append(cells, withRatio(r, row.table, arm, row.x, row.unit))
		}
		grid = append(grid, cells)
	}
	if len(grid) == 1 {
		return nil
	}
	return grid
}

// withRatio formats a figure with its ratio to bare.
func withRatio(r *report, table, arm string, x float64, unit string) string {
	v, ok := r.value(table, arm, x)
	if !ok {
		return "–"
	}
	text := short(v)
	if unit != "" {
		text += " " + unit
	}
	if all := r.ratios(table, arm, x); len(all) > 0 {
		text += fmt.Sprintf(", %.2f ×", median(all))
	}
	return text
}

// first returns the first column, 0 without columns.
func first(xs []float64) float64 {
	if len(xs) == 0 {
		return 0
	}
	return xs[0]
}

// last returns the last column, 0 without columns.
func last(xs []float64) float64 {
	if len(xs) == 0 {
		return 0
	}
	return xs[len(xs)-1]
}
