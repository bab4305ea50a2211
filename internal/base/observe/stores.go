package observe

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Stores is the state of the stores and of discovery.
type Stores struct {
	Ledger *LedgerState // nil without a store
	Keys   KeysState    // with a ledger
	Quota  QuotaState   // with a ledger
	// Workers is nil without discovery.
	Workers *WorkersState
}

// LedgerState is the state of the spool, whose rows are on their way to the store.
type LedgerState struct {
	Rows   int64 // rows that the store does not have yet
	Bytes  int64 // size of the spool on disk
	Oldest time.Duration
	Failed int64 // failed writes to the disk
	Lost   int64 // rows recovered from processes that died

	Deleted, DeletedSums, DroppedPartitions int64 // by this process, because they were old
}

// KeysState is the state of the key cache.
type KeysState struct {
	Known int
	Age   time.Duration // since the last synchronisation
	Polls int64         // reads of the store's changes
}

// QuotaState is the state of shared limits.
type QuotaState struct {
	Lost    bool // Redis is down: each node enforces its share
	Evicts  bool // Redis may evict counters: likewise
	Nodes   int
	Waiting int // settlements that Redis does not have yet
	Outages int64
	Shared  int64 // reservations from this node's share
}

// WorkersState is the state of discovery.
type WorkersState struct {
	Known   int
	Stale   bool // a source does not respond
	Refused int64
}

// WatchStores sets the function that returns the state for the metrics.
func (o *Observer) WatchStores(snapshot func() Stores) { o.metrics.stores.snapshot.Store(&snapshot) }

// storeMetric is one number of Stores.
type storeMetric struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	read func(*Stores) (float64, bool)
}

// storeMetrics reads its numbers at each scrape.
type storeMetrics struct {
	snapshot atomic.Pointer[func() Stores]
	list     []storeMetric
}

func newStoreMetrics() *storeMetrics {
	m := &storeMetrics{}
	add := func(kind prometheus.ValueType, name, help string, read func(*Stores) (float64, bool)) {
		m.list = append(m.list, storeMetric{liveDesc(name, help), kind, read})
	}
	ledger := func(read func(*Stores) float64) func(*Stores) (float64, bool) {
		return func(s *Stores) (float64, bool) {
			if s.Ledger == nil {
				return 0, false
			}
			return read(s), true
		}
	}
	workers := func(read func(*WorkersState) float64) func(*Stores) (float64, bool) {
		return func(s *Stores) (float64, bool) {
			if s.Workers == nil {
				return 0, false
			}
			return read(s.Workers), true
		}
	}
	gauge, counter := prometheus.GaugeValue, prometheus.CounterValue
	add(gauge, "ledger_rows_waiting", "Requests whose row is on the disk and not in the store yet.", ledger(func(s *Stores) float64 { return float64(s.Ledger.Rows) }))
	add(gauge, "ledger_bytes", "Size of what is on the disk on its way to the store.", ledger(func(s *Stores) float64 { return float64(s.Ledger.Bytes) }))
	add(gauge, "ledger_oldest_seconds", "Age of the oldest row that is not in the store yet.", ledger(func(s *Stores) float64 { return s.Ledger.Oldest.Seconds() }))
	add(counter, "ledger_write_errors_total", "Rows that could not be written to the disk.", ledger(func(s *Stores) float64 { return float64(s.Ledger.Failed) }))
	add(counter, "ledger_rows_recovered_total", "Rows that were made for processes that died.", ledger(func(s *Stores) float64 { return float64(s.Ledger.Lost) }))
	add(counter, "ledger_rows_deleted_total", "Old rows of the ledger that this process has deleted, without those of partitions.", ledger(func(s *Stores) float64 { return float64(s.Ledger.Deleted) }))
	add(counter, "ledger_sums_deleted_total", "Old sums that this process has deleted.", ledger(func(s *Stores) float64 { return float64(s.Ledger.DeletedSums) }))
	add(counter, "ledger_partitions_dropped_total", "Old partitions of PostgreSQL that this process has dropped.", ledger(func(s *Stores) float64 { return float64(s.Ledger.DroppedPartitions) }))
	add(gauge, "keys_known", "Keys of the store that are in memory.", ledger(func(s *Stores) float64 { return float64(s.Keys.Known) }))
	add(gauge, "keys_age_seconds", "Time since all changes of keys were known.", ledger(func(s *Stores) float64 { return s.Keys.Age.Seconds() }))
	add(counter, "keys_polls_total", "How often this node has read the changes of keys in the store.", ledger(func(s *Stores) float64 { return float64(s.Keys.Polls) }))
	add(gauge, "quota_evicts", "1 while limits are each node's share, because Redis may evict counters.", ledger(func(s *Stores) float64 { return truth(s.Quota.Evicts) }))
	add(gauge, "quota_lost", "1 while limits are each node's share, because Redis does not respond.", ledger(func(s *Stores) float64 { return truth(s.Quota.Lost) }))
	add(gauge, "quota_nodes", "Gateways that share the limits, as last known.", ledger(func(s *Stores) float64 { return float64(s.Quota.Nodes) }))
	add(gauge, "quota_settlements_waiting", "Requests whose use is not in the shared limits yet.", ledger(func(s *Stores) float64 { return float64(s.Quota.Waiting) }))
	add(counter, "quota_share_reservations_total", "Reservations from this node's share of the limits, because Redis did not respond in time.", ledger(func(s *Stores) float64 { return float64(s.Quota.Shared) }))
	add(counter, "quota_outages_total", "How often the shared limits were lost.", ledger(func(s *Stores) float64 { return float64(s.Quota.Outages) }))
	add(gauge, "workers_known", "Workers that were discovered.", workers(func(w *WorkersState) float64 { return float64(w.Known) }))
	add(gauge, "workers_stale", "1 while a source of workers does not respond.", workers(func(w *WorkersState) float64 { return truth(w.Stale) }))
	add(counter, "workers_refused_total", "Workers that were refused for what they said of themselves.", workers(func(w *WorkersState) float64 { return float64(w.Refused) }))
	return m
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// Describe implements prometheus.Collector.
func (m *storeMetrics) Describe(to chan<- *prometheus.Desc) {
	for _, s := range m.list {
		to <- s.desc
	}
}

// Collect implements prometheus.Collector.
func (m *storeMetrics) Collect(to chan<- prometheus.Metric) {
	snapshot := m.snapshot.Load()
	if snapshot == nil {
		return
	}
	stores := (*snapshot)()
	for _, s := range m.list {
		if v, ok := s.read(&stores); ok {
			to <- prometheus.MustNewConstMetric(s.desc, s.kind, v)
		}
	}
}
