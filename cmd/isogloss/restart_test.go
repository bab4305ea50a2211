package main

import (
	"os"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/chaos/reload"
	"github.com/isogloss-gateway/isogloss/chaos/restart"
)

// TestRestartLosesNothing replaces the process under load, twice. With
// ISOGLOSS_CHAOS=full in the environment it is done as a release is judged: ten
// times, with 1,000 streams of 20 s and 64 workers.
func TestRestartLosesNothing(t *testing.T) {
	o := restart.Options{Restarts: 2, Streams: 100, StreamTime: time.Second, Workers: 8, Pause: 5 * time.Millisecond}
	if os.Getenv("ISOGLOSS_CHAOS") == "full" {
		o = restart.Default()
	}
	r, err := restart.Run(t.Context(), binary, o, func(line string) { t.Log(line) })
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d streams and %d answers were whole", r.Streams, r.Answers)
	if r.Lost() {
		t.Errorf("%d streams were cut and %d requests failed: %q", r.Cut, r.Failed, r.Reasons)
	}
	if r.Streams < int64(o.Streams*o.Restarts) || r.Answers < int64(o.Workers*o.Restarts) {
		t.Error("there was hardly any load")
	}
	for _, h := range r.Handovers {
		if h.Draining > time.Second {
			t.Errorf("/health of the old process says so only after %s", h.Draining)
		}
		if h.Files > 100 {
			t.Errorf("the new process has %d descriptors; it should have been given two", h.Files)
		}
	}
}

// TestReloadsFailNoRequest changes the file faster than it can be loaded.
// ISOGLOSS_CHAOS=full makes a minute of it.
func TestReloadsFailNoRequest(t *testing.T) {
	o := reload.Options{Changes: 60, Poisoned: 12, Every: 60 * time.Millisecond, Rate: 200}
	if os.Getenv("ISOGLOSS_CHAOS") == "full" {
		o = reload.Default()
	}
	r, err := reload.Run(t.Context(), binary, o, func(line string) { t.Log(line) })
	if err != nil {
		t.Fatal(err)
	}
	t.Log(r)
	if err := r.Wrong(); err != nil {
		t.Error(err)
	}
	if r.Loaded+r.Refused < 3 || r.Loaded == 0 || r.Answers < int64(o.Changes) {
		t.Error("hardly anything was loaded or asked")
	}
	if r.Memory[1] > r.Memory[0]+32<<10 || r.Files[1] > r.Files[0]+50 {
		t.Error("the gateway grows")
	}
}
