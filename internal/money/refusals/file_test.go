package refusals

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/money/usage"
)

// hostileFiles are texts in the place of the file of an earlier process.
func hostileFiles() map[string]string {
	count := func(members string) string { return `{"Counts":[{` + members + `}]}` }
	files := map[string]string{
		"empty": "", "null": "null", "a list": "[]", "a text": `"x"`, "a number": "1e999", "torn": `{"Counts":[{"Lo`, "counts are null": `{"Counts":null,"Rows":null}`,
		"counts are an object": `{"Counts":{},"Rows":{}}`, "a count is a list": `{"Counts":[[]]}`, "a count is null": `{"Counts":[null],"Rows":[null]}`,
		"no end of lists": `{"Counts":` + strings.Repeat("[", 1<<20), "no end of objects": `{"Rows":[` + strings.Repeat(`{"Told":`, 1<<18),
		"empty counts": `{"Counts":[` + strings.Repeat("{},", 4<<20) + `{}]}`, "empty rows": `{"Rows":[` + strings.Repeat("{},", 4<<20) + `{}]}`,
		"a row of many losses": `{"Rows":[{"ID":"x","Losses":[` + strings.Repeat("{},", 4<<20) + `{}]}]}`, "a row of many attempts": `{"Rows":[{"ID":"x","Attempts":[` + strings.Repeat("{},", 4<<20) + `{}]}]}`,
		"a long text": count(`"Log":"` + strings.Repeat("x", 8<<20) + `"`), "many members": `{` + strings.Repeat(`"x":0,`, 1<<20) + `"y":1}`,
		"a negative count":    count(`"Log":"l","Reason":"limit","Minute":"2026-11-15T12:00:00Z","Count":-5`),
		"a number beyond all": count(`"Log":"l","Reason":"limit","Minute":"2026-11-15T12:00:00Z","Count":99999999999999999999`),
		"a fraction":          count(`"Count":1.5`), "a time that is none": count(`"Minute":"noon"`), "a year beyond all": count(`"Minute":"9999-12-31T23:59:59Z"`), "two values": `{}{}`,
		"not UTF-8": count("\"Log\":\"\xff\xc0\""), "a zero byte": "{\x00}", "a cost": `{"Rows":[{"ID":"x","Outcome":"answered","Cost":"1"}]}`,
	}
	return files
}

// TestHostileFiles adopts files that no recorder has written. Each is removed, or sent within the bounds, in little memory, and
// other files are sent as before.
func TestHostileFiles(t *testing.T) {
	for name, text := range hostileFiles() {
		t.Run(name, func(t *testing.T) {
			folder, sink := t.TempDir(), newMemory()
			path := filepath.Join(folder, filePrefix+"a"+fileSuffix)
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			honest := recorder(t, folder)
			honest.Add(note(1, "honest", usage.RefusedLimit, noon))
			honest.keep()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			recorder(t, folder).adopt(t.Context(), sink)
			runtime.ReadMemStats(&after)
			if most := uint64(16<<20 + 8*len(text)); after.TotalAlloc-before.TotalAlloc > most {
				t.Errorf("it takes %d MB to read %d bytes", (after.TotalAlloc-before.TotalAlloc)>>20, len(text))
			}
			if _, err := os.Lstat(path); err == nil {
				t.Error("the file is still there")
			}
			if n := sink.total(func(c usage.RefusalCount) bool { return c.Key == "honest" }); n != 1 {
				t.Errorf("%d honest refusals, want 1", n)
			}
			for _, row := range sink.rows {
				if row.Outcome != usage.Refused || row.Cost == nil || *row.Cost != 0 {
					t.Errorf("%+v", row)
				}
			}
		})
	}
}

// TestOtherKindsOfFiles puts what is no file in the place of the file of an earlier process: nothing is read, and nothing waits.
func TestOtherKindsOfFiles(t *testing.T) {
	folder, sink := t.TempDir(), newMemory()
	at := func(name string) string { return filepath.Join(folder, filePrefix+name+fileSuffix) }
	for _, err := range []error{syscall.Mkfifo(at("pipe"), 0o600), os.Symlink("/dev/zero", at("endless")), os.Mkdir(at("folder"), 0o700), os.Symlink("/nowhere", at("nothing")), os.WriteFile(at("large"), nil, 0o600), os.Truncate(at("large"), 1<<40)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	ended := make(chan struct{})
	go func() { defer close(ended); recorder(t, folder).adopt(context.Background(), sink) }()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Fatal("it waits for a pipe")
	}
	if sink.calls != 0 {
		t.Errorf("%d calls of the sink", sink.calls)
	}
}

// TestLargestFile checks that the largest file that a recorder writes is read.
func TestLargestFile(t *testing.T) {
	folder, sink := t.TempDir(), newMemory()
	r := recorder(t, folder)
	long := strings.Repeat("ü<", 20)
	for i := range maxCounts/maxPairs + 1 {
		at := noon.Add(time.Duration(i) * time.Minute)
		for k := range maxPairs {
			n := note(k, fmt.Sprint(long, k), usage.RefusedFidelity, at.Add(time.Duration(k%60)*time.Second))
			n.Row.ID, n.Row.Model, n.Told.Message, n.Told.Remedy = fmt.Sprint(i, " ", k), long, strings.Repeat(long, 4), strings.Repeat(long, 4)
			for range usage.MaxLosses * min(1, max(0, i+maxRows/maxPairs+2-maxCounts/maxPairs)) { // of the last rows, which are kept
				n.Row.Losses = append(n.Row.Losses, usage.Loss{Code: long, Path: long})
			}
			r.Add(n)
		}
	}
	batch, _ := r.keep()
	info, err := os.Stat(r.file.own)
	if err != nil || len(batch.Rows) != maxRows || len(batch.Counts) < maxCounts {
		t.Fatalf("%d rows, %d counts, %v", len(batch.Rows), len(batch.Counts), err)
	}
	t.Logf("%d bytes", info.Size())
	recorder(t, folder).adopt(t.Context(), sink)
	if len(sink.rows) != maxRows || len(sink.counts) != len(batch.Counts) {
		t.Errorf("%d rows and %d counts are sent", len(sink.rows), len(sink.counts))
	}
}

// FuzzFile reads any bytes as the file of an earlier process: each row is that of a refused request and costs nothing.
func FuzzFile(f *testing.F) {
	for _, text := range hostileFiles() {
		if len(text) < 1<<10 {
			f.Add([]byte(text))
		}
	}
	f.Add([]byte(`{"Counts":[{"Log":"l","Key":"k","Reason":"limit","Minute":"2026-11-15T12:00:00Z","Count":5}],"Rows":[{"ID":"x","Outcome":"refused","Cost":0}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		b, err := decode(text)
		if err != nil {
			return
		}
		for _, r := range b.Rows {
			if r.ID == "" || r.Outcome != usage.Refused || r.Cost == nil || *r.Cost != 0 {
				t.Errorf("%+v", r)
			}
		}
	})
}
