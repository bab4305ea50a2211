package export

import (
	"bytes"
	"encoding/csv"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/llm"
)

func sample(i int) Request {
	r := usage.Row{ID: "id", Began: time.Date(2026, 11, 18, 1, 2, 3, 456_789_012+i%1000, time.UTC), Took: 1500 * time.Millisecond, Node: "gw-1", Org: "acme", Team: "blue", Key: "=1+1", Model: "m,\"x\"\ny",
		Target: "+p/m", Stream: true, Status: 200, Outcome: usage.Answered, Fidelity: "exact", Usage: llm.Usage{Input: int64(i), CacheRead: 2, CacheWrite: 3, Output: 4, Reasoning: 5},
		Cost: new(usage.Money(1_234_567_890)), Attempts: make([]usage.Attempt, 2), MoreLosses: 3}
	r.User, r.Tags, r.Agent, r.Trace = "@user", []usage.Tag{{Key: "feature", Value: "-1"}}, "\tagent", "-trace"
	if i%2 == 1 {
		r.Cost = nil
	}
	return RequestOf(&r)
}

// TestFormulas checks that no spreadsheet runs a text, wherever it takes a cell to begin, and that texts without
// formulas stay as they are.
func TestFormulas(t *testing.T) {
	for text, want := range map[string]string{
		"=1": "'=1", "+1": "'+1", "-1": "'-1", "@f": "'@f", "\tx": "'\tx", "\rx": "'\rx", "\nx": "'\nx", "\t=1": "'\t'=1",
		"＝1": "'＝1", "＋1": "'＋1", "－1": "'－1", "＠f": "'＠f",
		"a;=1": "a;'=1", "a;＝1": "a;'＝1", "a\t=1": "a\t'=1", "a\n+1": "a\n'+1", "a\r\n-1": "a\r\n'-1", "a; @f": "a; '@f", `a;"=1"`: `a;"'=1"`, " =1": " '=1", ";;=1;=2": ";;'=1;'=2",
		"": "", "a": "a", "gpt-4+x=y@z": "gpt-4+x=y@z", "a;b-c": "a;b-c", "Mozilla/5.0 (X11; Linux x86_64)": "Mozilla/5.0 (X11; Linux x86_64)", "é－": "é－", "\xff=": "\xff=", "'=1": "'=1",
	} {
		if got := harmless(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}

// TestCSV checks the form of cells: quotes, times, money, and texts that a spreadsheet would run.
func TestCSV(t *testing.T) {
	var out bytes.Buffer
	w := New[Request](CSV, &out)
	for i := range 2 {
		if err := w.Write([]Request{sample(i)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	records, err := csv.NewReader(&out).ReadAll()
	if err != nil || len(records) != 3 {
		t.Fatal(records, err)
	}
	want := map[string]string{"id": "id", "began": "2026-11-18T01:02:03.456789012Z", "took_seconds": "1.5", "key": "'=1+1", "model": "m,\"x\"\ny", "target": "'+p/m", "stream": "true", "status": "200",
		"input": "0", "cost": "1.23456789", "user": "'@user", "tags": `{"feature":"-1"}`, "user_agent": "'\tagent", "trace": "'-trace", "attempts": "2", "losses": "3", "first_token_seconds": "0"}
	for i, name := range records[0] {
		if text, ok := want[name]; ok && records[1][i] != text {
			t.Errorf("%s is %q, want %q", name, records[1][i], text)
		}
		delete(want, name)
		if name == "cost" && records[2][i] != "" {
			t.Errorf("an unknown cost is %q", records[2][i])
		}
	}
	if len(want) > 0 {
		t.Errorf("no columns: %v", want)
	}
}

// TestParquet reads rows back, over several row groups.
func TestParquet(t *testing.T) {
	var out bytes.Buffer
	w := New[Request](Parquet, &out)
	var sent []Request
	for i := range 2*groupRows + 500 {
		sent = append(sent, sample(i))
	}
	for at := 0; at < len(sent); at += 500 {
		if err := w.Write(sent[at:min(at+500, len(sent))]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := parquet.OpenFile(bytes.NewReader(out.Bytes()), int64(out.Len()))
	if err != nil {
		t.Fatal(err)
	}
	if n := len(f.RowGroups()); n != 3 {
		t.Errorf("%d row groups", n)
	}
	got, err := parquet.Read[Request](bytes.NewReader(out.Bytes()), int64(out.Len()))
	if err != nil || len(got) != len(sent) {
		t.Fatal(len(got), err)
	}
	for i := range got {
		got[i].Began = got[i].Began.UTC()
		if !reflect.DeepEqual(got[i], sent[i]) {
			t.Fatalf("row %d: %+v, want %+v", i, got[i], sent[i])
		}
	}
	schema := f.Schema().String()
	for _, column := range []string{"required int64 began (TIMESTAMP(isAdjustedToUTC=true,unit=NANOS))", "optional int64 cost (DECIMAL(18,9))", "required binary id (STRING)"} {
		if !strings.Contains(schema, column) {
			t.Errorf("no %q in %s", column, schema)
		}
	}
}

// TestMemory writes 100,000 rows of each format. The heap stays within a bound that does not depend on the
// number of rows.
func TestMemory(t *testing.T) {
	rows := make([]Request, 1000)
	for i := range rows {
		rows[i] = sample(i)
	}
	for _, format := range []string{CSV, Parquet} {
		w := New[Request](format, io.Discard)
		var before, now runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		most := uint64(0)
		for i := range 100 {
			if err := w.Write(rows); err != nil {
				t.Fatal(err)
			}
			if i%10 == 9 {
				runtime.GC()
				runtime.ReadMemStats(&now)
				most = max(most, now.HeapAlloc)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		grown := int64(most) - int64(before.HeapAlloc)
		t.Logf("%s: %d KiB", format, grown>>10)
		if grown > 24<<20 {
			t.Errorf("%s holds %d KiB", format, grown>>10)
		}
	}
}

// TestPython reads a file with PyArrow and DuckDB, which share no code with this package.
func TestPython(t *testing.T) {
	python := os.Getenv("ISOGLOSS_PARQUET_PYTHON")
	if python == "" {
		t.Skip("run make e2e-parquet, which installs PyArrow and DuckDB")
	}
	path := filepath.Join(t.TempDir(), "x.parquet")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w := New[Request](Parquet, f)
	for i := range groupRows + 1001 {
		if err := w.Write([]Request{sample(i)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), python, "testdata/read.py", path).CombinedOutput()
	if err != nil || strings.TrimSpace(string(out)) != "21001 rows" {
		t.Errorf("%v: %s", err, out)
	}
}
