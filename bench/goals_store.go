package main

// What is held with keys, limits and the ledger on is what is held without: the goals
// are the same numbers.

func storeRequestRatio() figure {
	return figure{"with a store: CPU per request, 2 KB in and 1 KB out, verbatim", "×", ratioOf("store-request", oursStore)}
}

func storeRequestAllocs() figure {
	return figure{"with a store: allocations per request, 2 KB in and 1 KB out, verbatim", "allocations", valueOf("store-request-allocs", oursStore, 0)}
}

func storeBurstRatio() figure {
	return figure{"with a store: CPU per event, burst of 200, verbatim", "×", ratioOf("store-burst", oursStore)}
}

func storePacedRatio() figure {
	return figure{"with a store: CPU per event, 250 paced streams, verbatim", "×", func(r *report) (float64, bool) {
		return r.ratio("store-paced", oursStore, storeStreams)
	}}
}

func storeChatEvent() figure {
	return figure{"with a store: CPU per event, burst of 200, Messages client on Chat upstream", "µs", valueOf("store-burst", oursStoreMessages, 0)}
}

func storeChatEventRatio() figure {
	return figure{"with a store: the same to bare, Messages client on Chat upstream", "×", ratioOf("store-burst", oursStoreMessages)}
}

func storeMemory() figure {
	return figure{"with a store: memory per open stream, verbatim", "KiB", lastOf("store-memory", oursStore)}
}

func redisRequestRatio() figure {
	return figure{"with a store and Redis: CPU per request, 2 KB in and 1 KB out, verbatim", "×", ratioOf("store-request", oursRedis)}
}

// storeGoals are those of goals that a store could spoil.
func storeGoals() []goal {
	return []goal{
		{figure: storeRequestRatio(), most: 1.10},
		{figure: storeBurstRatio(), most: 1.5},
		{figure: storePacedRatio(), most: 1.10},
		{figure: storeChatEvent(), most: 6},
		{figure: storeChatEventRatio(), most: 4},
		{figure: storeMemory(), most: 48},
		{figure: redisRequestRatio(), most: 1.10},
	}
}
