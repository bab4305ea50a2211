package signals

import (
	"bytes"
	"errors"
	"math"
	"strconv"
)

// kind is what a metric says about an engine.
type kind uint8

const (
	waiting kind = iota + 1 // requests in the engine's queue
	running                 // requests that the engine works on
	cache                   // used part of the KV cache, from 0 to 1
)

// names lists the metrics of the engines that have them.
func names() map[string]kind {
	return map[string]kind{
		"vllm:num_requests_waiting":     waiting,
		"vllm:num_requests_running":     running,
		"vllm:kv_cache_usage_perc":      cache,
		"vllm:gpu_cache_usage_perc":     cache, // its name in earlier versions
		"sglang:num_queue_reqs":         waiting,
		"sglang:num_running_reqs":       running,
		"sglang:token_usage":            cache,
		"llamacpp:requests_deferred":    waiting,
		"llamacpp:requests_processing":  running,
		"llamacpp:kv_cache_usage_ratio": cache, // newer versions do not have it
	}
}

const (
	maxRequests = 1_000_000 // a greater number of requests is not believed
	nearlyFull  = 0.9       // used part of the KV cache from which an engine is saturated
)

// load is what an engine reports. If it has several series of a metric, such as one for
// each replica, the greatest value counts.
type load struct {
	waiting, running, cache float64
}

// saturated reports whether a new request would probably wait.
func (l load) saturated() bool { return l.waiting > 0 || l.cache >= nearlyFull }

var errNoMetric = errors.New("the response has no metric of a known engine")

// parse reads the metrics of an engine in Prometheus' text format. It ignores lines that
// are malformed and values that are impossible. It fails if there is no other.
func parse(text []byte, names map[string]kind) (load, error) {
	var l load
	found := false
	for line := range bytes.Lines(text) {
		end := bytes.IndexAny(line, "{ \t")
		if end < 0 {
			continue
		}
		k, known := names[string(line[:end])]
		if !known {
			continue
		}
		v, ok := value(line[end:])
		switch {
		case !ok:
			continue
		case k == waiting && v <= maxRequests:
			l.waiting = max(l.waiting, v)
		case k == running && v <= maxRequests:
			l.running = max(l.running, v)
		case k == cache && v <= 1:
			l.cache = max(l.cache, v)
		default:
			continue
		}
		found = true
	}
	if !found {
		return load{}, errNoMetric
	}
	return l, nil
}

// value returns the value of a line after the name: labels, the value and perhaps a
// timestamp. A label may contain any text, but nothing after the labels has a brace.
func value(rest []byte) (float64, bool) {
	fields := bytes.Fields(rest[bytes.LastIndexByte(rest, '}')+1:])
	if len(fields) == 0 || len(fields) > 2 {
		return 0, false
	}
	v, err := strconv.ParseFloat(string(fields[0]), 64)
	return v, err == nil && v >= 0 && !math.IsInf(v, 0) // not NaN, which compares with nothing
}
