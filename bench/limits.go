package main

import "fmt"

// none marks a figure without a goal or without a limit.
const none = -1

// standard is a figure with a goal and a limit. A full run reports the goal; a quick run fails
// beyond the limit.
type standard struct {
	figure
	goal, limit float64
	why         string // how the limit was chosen
}

// standards returns all figures with a goal or a limit. Ratios are to the bare proxy of
// the same run. A limit is the value that was reached, plus a margin for the noise of a
// shared machine: lower it when the figure improves. Absolute CPU times and latencies
// have no limits, because they depend on the machine.
func standards() []standard {
	return append(basicStandards(), versionStandards()...)
}

// versionStandards returns those of the pairs of versions. A quick run has the pair h2/h2, and h1/h1 in its other parts.
func versionStandards() (all []standard) {
	add := func(v versions, name, unit string, of func(*report) []float64, goal, limit float64, why string) {
		if v != (versions{h2, h2}) {
			limit, why = none, ""
		}
		all = append(all, standard{figure{v.String() + ": " + name, unit, of}, goal, limit, why})
	}
	for _, v := range pairs() {
		add(v, "CPU per request, 2 KB in and 1 KB out, verbatim", "×", ratioOf("http-request", pairOurs.of(v)), 1.15, 1.5, "reached 1.25 on a crowded machine")
		add(v, "CPU per event, burst of 200, verbatim", "×", ratioOf("http-burst", pairOurs.of(v)), 1.15, 1.6, "reached 1.29 on a crowded machine")
		add(v, "with SQLite: CPU per request", "×", ratioOf("http-request", pairSQLite.of(v)), 1.35, none, "")
		add(v, "with SQLite and Redis: CPU per request", "×", ratioOf("http-request", pairRedis.of(v)), 1.35, none, "")
		add(v, "with PostgreSQL: CPU per request", "×", ratioOf("http-request", pairPostgres.of(v)), 1.25, none, "")
	}
	for _, m := range []struct {
		v     versions
		arm   pairArm
		open  float64
		goal  float64
		limit float64
		why   string
	}{
		{versions{h1, h1}, pairOurs, 1000, 52, none, ""},
		{versions{h1, h1}, pairOurs, 6000, 48, none, ""},
		{versions{h1, h1}, pairMessages, 1000, 66, none, ""},
		{versions{h1, h1}, pairMessages, 6000, 60, none, ""},
		{versions{h2, h2}, pairOurs, 1000, 42, 48, "reached 39 to 41 on a crowded machine, 50 with what the requests leave"},
		{versions{h2, h2}, pairOurs, 6000, 38, none, ""},
		{versions{h2, h2}, pairMessages, 1000, 52, 56, "reached 38 to 41 on a crowded machine, 75 with what the requests leave"},
		{versions{h2, h2}, pairMessages, 6000, 46, none, ""},
	} {
		add(m.v, fmt.Sprintf("memory per stream with %s open, %s", thousands(m.open), m.arm.lane()), "KiB", valueOf("http-memory", m.arm.of(m.v), m.open), m.goal, m.limit, m.why)
	}
	return all
}

func basicStandards() []standard {
	return []standard{
		{figure{"CPU per request, 2 KB in and 1 KB out, verbatim", "×", ratioOf("request-2k-1k", ours)}, 1.15, 1.5, "reached 1.30 on a crowded machine, in one round up to 1.7"},
		{figure{"CPU per request, 2 KB in and 1 KB out, verbatim, GOGC=100 in both", "×", ratioOf("request-2k-1k", oursDefault)}, 1.15, none, ""},
		{figure{"CPU per event, burst of 200, verbatim", "×", ratioOf("burst", ours)}, 1.15, 1.9, "reached 1.42 to 1.52 on a crowded machine; how many events come in one read moves it"},
		{figure{"CPU per event, burst of 200, verbatim, GOGC=100 in both", "×", ratioOf("burst", oursDefault)}, 1.15, none, ""},
		{figure{"CPU per event, paced streams, as many as came in time, verbatim", "×", pacedInTime}, 1.10, 1.6, "reached 1.06 to 1.25 beside a bare proxy that collected more often; wake-ups on a crowded machine move it"},
		{figure{"CPU per event, burst of 200, Messages client on Chat upstream", "µs", valueOf("burst", oursMessages, 0)}, 5, none, ""},
		{figure{"CPU per event, burst of 200, the most expensive of 20 pairs of dialects", "µs", mostOfPairs("dialects")}, 5, none, ""},
		{figure{"allocations per event, burst of 200, the most of 20 pairs of dialects", "allocations", mostOfPairs("dialects-allocs")}, 2.5, none, ""},
		{figure{"the same to bare, Messages client on Chat upstream", "×", ratioOf("burst", oursMessages)}, none, 3.9, "reached 3.46 on a crowded machine; how many events the bare proxy finds in one read moves it"},
		{figure{"CPU per event, burst of 200, Responses client on Messages upstream", "µs", valueOf("burst", oursAnswers, 0)}, 5, none, ""},
		{figure{"the same to bare, Responses client on Messages upstream", "×", ratioOf("burst", oursAnswers)}, none, 5.5, "reached 3.72 to 4.38 on a crowded machine: as above, and the most verbose of the dialects"},
		{figure{"CPU per request, 2 KB in and 100 KB out, verbatim", "×", ratioOf("request-2k-100k", ours)}, 2, 2.3, "reached 1.65 to 1.86 on a crowded machine; a half more without a pooled buffer and with pieces of 8 KiB"},
		{figure{"CPU per request, 200 KB in and 1 KB out, Messages client on Chat upstream", "×", ratioOf("request-200k-1k", oursMessages)}, 2.5, 3.5, "reached 3.16 on a crowded machine; a tenth more when the JSON library read the text"},
		{figure{"CPU per request, 200 KB in and 1 KB out, Responses client on Messages upstream", "×", ratioOf("request-200k-1k", oursAnswers)}, 2.5, 4.0, "reached 3.40 on a crowded machine; a quarter more when the JSON library read the text"},
		{figure{"bytes allocated per request, 2 KB in and 100 KB out, verbatim", "KiB", valueOf("request-2k-100k-bytes", ours, 0)}, none, 40, "reached 15; a response that is not read into a pooled buffer costs 100 more"},
		{figure{"bytes allocated per request, 200 KB in and 1 KB out, Messages client on Chat upstream", "KiB", valueOf("request-200k-1k-bytes", oursMessages, 0)}, none, 1180, "reached 1,073; one more copy of the text costs 200"},
		{figure{"bytes allocated per request, 200 KB in and 1 KB out, Responses client on Messages upstream", "KiB", valueOf("request-200k-1k-bytes", oursAnswers, 0)}, none, 1400, "reached 1,296; one more copy of the text costs 200"},
		// On a busy machine it has no value.
		{figure{"added latency, p99, at half of bare's highest rate", "×", func(r *report) []float64 {
			if r.Busy > quiet {
				return nil
			}
			return r.ratios("half-p99", ours, 0)
		}}, 1.25, none, ""},
		{figure{"memory per open stream, verbatim", "KiB", lastOf("memory", ours)}, 48, 64, "reached 55 with 1,000 streams on a crowded machine"},
		{figure{"memory per open stream, Messages client on Chat upstream", "KiB", lastOf("memory", oursMessages)}, 60, 72, "reached 60 with 1,000 streams on a crowded machine; 84 with what their requests leave"},
		{figure{"memory per open stream, Responses client on Messages upstream", "KiB", lastOf("memory", oursAnswers)}, 60, none, ""},
		{figure{"start to ready", "ms", valueOf("start", ours, 10)}, 200, none, ""},
		{figure{"start to ready, to the bare proxy", "×", ratioAt("start", ours, 10)}, none, 8, "reached 2.8 on a crowded machine; the bare proxy reads no configuration"},
		{figure{"CPU per request with 100,000 models, to 10 models", "×", func(r *report) []float64 { return r.growth("models", ours) }}, 1.05, 1.6, "reached 1.35; the collector starts at 64 MiB with 10 models and at twice the live heap with 100,000. The two sizes run in processes of their own, which moves it"},
		{figure{"allocations per request, 2 KB in and 1 KB out, verbatim", "allocations", valueOf("request-2k-1k-allocs", ours, 0)}, none, 150, "reached 135; it hardly moves between runs, so a new allocation shows here first"},
		{figure{"allocations per event, burst of 200, Messages client on Chat upstream", "allocations", valueOf("burst-allocs", oursMessages, 0)}, none, 3.9, "reached 3.62, of which 0.2 are for the trailer and the outline that report late losses, and for pings; it hardly moves between runs"},
		{figure{"answers that failed", "answers", failedAnswers}, 0, 0, "an answer that is cut or wrong is never noise"},
		{figure{"with a store: CPU per request, 2 KB in and 1 KB out, verbatim", "×", ratioOf("store-request", oursStore)}, 1.35, 2.8, "reached 2.23 on a crowded machine; SQLite in the same process is a third of what is above bare"},
		{figure{"with a store: allocations per request, 2 KB in and 1 KB out, verbatim", "allocations", valueOf("store-request-allocs", oursStore, 0)}, none, 240, "reached 218, of which 142 are without a store and 8 are for the rate-limit headers of a key; it hardly moves between runs"},
		{figure{"with a store: CPU per event, burst of 200, verbatim", "×", ratioOf("store-burst", oursStore)}, 1.5, 2.5, "reached 1.99 on a crowded machine; moved by what moves it without a store, and by how many streams end within one batch of the ledger"},
		{figure{"with a store: CPU per event, 250 paced streams, verbatim", "×", ratioAt("store-paced", oursStore, storeStreams)}, 1.10, 1.8, "reached 1.12 to 1.30 beside a bare proxy that collected more often, 0.02 to 0.08 more than without a store beside it"},
		{figure{"with a store: CPU per event, burst of 200, Messages client on Chat upstream", "µs", valueOf("store-burst", oursStoreMessages, 0)}, 6, none, ""},
		{figure{"with a store: the same to bare, Messages client on Chat upstream", "×", ratioOf("store-burst", oursStoreMessages)}, 4, 4.3, "reached 2.7 to 3.3; the margin is as without a store"},
		{figure{"with a store: memory per open stream, verbatim", "KiB", lastOf("store-memory", oursStore)}, 48, 64, "reached 54 with 1,000 streams on a crowded machine"},
		{figure{"with a store and Redis: CPU per request, 2 KB in and 1 KB out, verbatim", "×", ratioOf("store-request", oursRedis)}, 1.35, none, ""},
		{figure{"with PostgreSQL: CPU per request, 2 KB in and 1 KB out, verbatim", "×", ratioOf("store-request", oursPostgres)}, 1.25, 2.8, "reached 2.31 on a crowded machine; keys, limits and the spool are half of what is above bare"},
		{figure{"with PostgreSQL and a log: CPU per request, 2 KB in and 1 KB out, verbatim", "×", ratioOf("store-request", oursLog)}, 1.25, none, ""},
	}
}

// pacedInTime returns the ratios of paced events with the largest number of streams whose events came in time.
func pacedInTime(r *report) []float64 {
	x, ok := inTime(r, bareChat, ours)
	if !ok {
		return nil
	}
	return r.ratios("paced", ours, x)
}

func failedAnswers(r *report) []float64 {
	failed, asked := r.failures(ours)
	if asked == 0 {
		return nil
	}
	return []float64{float64(failed)}
}

// goals returns the goals of a full run.
func goals() []goal {
	return maxima(func(s standard) float64 { return s.goal })
}

// limits returns the limits of a quick run.
func limits() []goal {
	return maxima(func(s standard) float64 { return s.limit })
}

func maxima(of func(standard) float64) (all []goal) {
	for _, s := range standards() {
		if most := of(s); most != none {
			all = append(all, goal{s.figure, most})
		}
	}
	return all
}
