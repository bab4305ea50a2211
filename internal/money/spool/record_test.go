package spool

import (
	"bytes"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/internal/test/filled"
	"github.com/isogloss-gateway/isogloss/llm"
)

var update = flag.Bool("update", false, "rewrite the recorded bytes")

func sampleOpening(id string) Opening {
	long := usage.Price{Input: 5, Output: 6}
	return Opening{ID: id, Node: "gw-1", Key: "k1", Team: "t", Org: "o", Began: time.Unix(1_700_000_000, 123).UTC(), Endpoint: "chat_completions",
		Dialect: "openai-chat", Model: "fast", Target: "openai/gpt-5", Stream: true, Prompt: 10, Client: usage.Client{Person: "Ada", Agent: "curl/8", Trace: "0af7"},
		Price: &usage.Price{Input: 1e9, CacheRead: 2, CacheWrite: 3, Output: 1e10, Reasoning: 4, Request: 7, Context: 8, Above: 9, Long: &long, Ceiling: true}}
}

func sampleRow(id string) usage.Row {
	cost, none := usage.Money(40_000), usage.Money(0)
	began := time.Unix(1_700_000_000, 123).UTC()
	return usage.Row{ID: id, Node: "gw-1", Key: "k1", Team: "t", Org: "o", Began: began, Took: 3 * time.Second, Endpoint: "chat_completions",
		Dialect: "openai-chat", Model: "fast", Target: "openai/gpt-5", Stream: true, Status: 200, Outcome: usage.Answered,
		Usage: llm.Usage{Input: 1, CacheRead: 2, CacheWrite: 3, Output: 4, Reasoning: 5}, Estimated: true, Cost: &cost,
		Fidelity: "dropped", Losses: []usage.Loss{{Code: "seed.unsupported", Path: "seed"}, {Code: "x", Path: "y"}}, MoreLosses: 3,
		Queue: 1, FirstByte: 2, FirstToken: 3, Client: usage.Client{Person: "Ada", Agent: "curl/8", Trace: "0af7"},
		Attempts: []usage.Attempt{
			{Target: "a/b", Began: began, Took: time.Second, Status: 500, Fault: "unavailable", Cost: &none},
			{Target: "openai/gpt-5", Began: began, Took: time.Second, Status: 200, Usage: llm.Usage{Input: 1, CacheRead: 2, CacheWrite: 3, Output: 4, Reasoning: 5}, Cost: &cost, Charged: true,
				Times: usage.Times{Connect: 4, FirstByte: 5, FirstToken: 6}, Rates: usage.Rates{Input: 7, CacheRead: 8, CacheWrite: 9, Output: 10, Reasoning: 11, Request: 12}},
		}}
}

// sampleLabels returns labels as a client with two tags sends them.
func sampleLabels() usage.Labels {
	return usage.Labels{User: "u-17", Tags: []usage.Tag{{Key: "team", Value: "search"}, {Key: "feature", Value: "import"}}}
}

func TestRecordsComeBack(t *testing.T) {
	for _, want := range []Opening{sampleOpening("a"), {ID: "b"}, {ID: "c", Price: &usage.Price{}}, {ID: "d", Labels: sampleLabels()}} {
		var e codec
		e.opening(&want)
		e.place(new(int64(77)), new(int64(99)))
		got, err := decodeBegun(e.b)
		if err != nil || !reflect.DeepEqual(got.Opening, want) || got.slot != 77 || got.tag != 99 {
			t.Errorf("%+v, %v; want %+v", got, err, want)
		}
	}
	zero := usage.Money(0)
	for _, want := range []usage.Row{sampleRow("a"), {ID: "b"}, {ID: "c", Cost: &zero}, {ID: "d", Attempts: make([]usage.Attempt, 3)}, {ID: "e", Labels: sampleLabels()}} {
		var e codec
		e.row(&want)
		e.positionAndTotals(new(int64(12)), &usage.Totals{Key: 1, Team: 2, Org: 3})
		if got, err := decodeRow(e.b); err != nil || !reflect.DeepEqual(got, ended{want, 12, usage.Totals{Key: 1, Team: 2, Org: 3}}) {
			t.Errorf("%+v, %v; want %+v", got, err, want)
		}
	}
}

// TestBytesStay compares the bytes of records, and what they are read as, with those of the first release: releases
// that share a folder read each other's records.
func TestBytesStay(t *testing.T) {
	o, r := sampleOpening("a"), sampleRow("b")
	o.Reserved, o.Labels, r.Labels = 123, sampleLabels(), sampleLabels()
	var opening, row, more codec
	opening.opening(&o)
	opening.place(new(int64(77)), new(int64(99)))
	row.row(&r)
	row.positionAndTotals(new(int64(12)), &usage.Totals{Key: 1, Team: 2, Org: 3})
	more.reserved(&reserved{"a", 456})
	got := fmt.Sprintf("opening %x\nrow %x\nreserved %x\n", opening.b, row.b, more.b)
	const path = "testdata/records.txt"
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the records are\n%swant\n%s", got, want)
	}
	if o2, err := decodeBegun(recorded(t, want, "opening")); err != nil || !reflect.DeepEqual(o2, begun{o, 77, 99}) {
		t.Errorf("the opening is read as %+v, %v", o2, err)
	}
	if r2, err := decodeRow(recorded(t, want, "row")); err != nil || !reflect.DeepEqual(r2, ended{r, 12, usage.Totals{Key: 1, Team: 2, Org: 3}}) {
		t.Errorf("the row is read as %+v, %v", r2, err)
	}
	if m, err := decodeReserved(recorded(t, want, "reserved")); err != nil || m != (reserved{"a", 456}) {
		t.Errorf("the reservation is read as %+v, %v", m, err)
	}
}

// recorded returns the bytes of a record of testdata/records.txt.
func recorded(t *testing.T, file []byte, name string) []byte {
	t.Helper()
	for line := range strings.Lines(string(file)) {
		if text, ok := strings.CutPrefix(strings.TrimSpace(line), name+" "); ok {
			b, err := hex.DecodeString(text)
			if err != nil {
				t.Fatal(err)
			}
			return b
		}
	}
	t.Fatalf("there is no record %s", name)
	return nil
}

// TestDamagedRecords changes each byte of the recorded records: no damage, also within a group, keeps a reader busy.
func TestDamagedRecords(t *testing.T) {
	file, err := os.ReadFile("testdata/records.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"opening", "row"} {
		b := recorded(t, file, name)
		for i := range b {
			for _, v := range []byte{1, 0x80, 0xff} {
				b[i] ^= v
				_, _ = decodeBegun(b)
				_, _ = decodeRow(b)
				b[i] ^= v
			}
		}
	}
}

// TestSharedPrice writes the openings of two requests with one price. The race detector reports a change of it.
func TestSharedPrice(*testing.T) {
	o, r := filled.New[Opening](), filled.New[usage.Row]()
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			var c codec
			c.opening(&o)
			c.row(&r)
		})
	}
	both.Wait()
}

// TestRecordsHaveEveryField writes and reads an opening and a row of which no field is zero.
func TestRecordsHaveEveryField(t *testing.T) {
	o, r, at := filled.New[Opening](), filled.New[usage.Row](), filled.New[usage.Totals]()
	var opening, row codec
	opening.opening(&o)
	if got, err := decodeBegun(opening.b); err != nil || !reflect.DeepEqual(got.Opening, o) {
		t.Errorf("%+v, %v; want %+v", got, err, o)
	}
	row.row(&r)
	row.positionAndTotals(new(int64(1)), &at)
	if got, err := decodeRow(row.b); err != nil || !reflect.DeepEqual(got, ended{r, 1, at}) {
		t.Errorf("%+v, %v; want %+v", got, err, r)
	}
}

// framed returns a segment with one row per id, and the offset of each.
func framed(ids ...string) (b []byte, at []int) {
	for _, id := range ids {
		rec := record(kindEnded)
		row := sampleRow(id)
		rec.row(&row)
		finishFrame(rec.b)
		at = append(at, len(b))
		b = append(b, rec.b...)
		writers.Put(rec)
	}
	return b, at
}

func idsIn(b []byte) (ids []string, f frames) {
	f.rest = b
	for body, _, ok := f.next(); ok; body, _, ok = f.next() {
		if row, ok := endedRow(body); ok {
			ids = append(ids, row.ID)
		}
	}
	return ids, f
}

func TestBrokenSegments(t *testing.T) {
	whole, at := framed("a", "b", "c")
	change := func(i int, v byte) []byte {
		b := bytes.Clone(whole)
		b[i] ^= v
		return b
	}
	for name, c := range map[string]struct {
		segment []byte
		ids     []string
		bad     int
		torn    bool
	}{
		"whole":                 {whole, []string{"a", "b", "c"}, 0, false},
		"empty":                 {nil, nil, 0, false},
		"cut in the last":       {whole[:len(whole)-1], []string{"a", "b"}, 0, true},
		"cut in the last head":  {whole[:at[2]+5], []string{"a", "b"}, 0, true},
		"zeros behind":          {append(bytes.Clone(whole), make([]byte, 99)...), []string{"a", "b", "c"}, 0, true},
		"a bit in a body":       {change(at[1]+30, 1), []string{"a", "c"}, 1, false},
		"a bit in a length":     {change(at[1]+6, 0x80), []string{"a", "c"}, 1, false},
		"a length made shorter": {change(at[1]+4, 1), []string{"a", "c"}, 1, false},
		"a bit in a mark":       {change(at[0], 1), []string{"b", "c"}, 1, false},
		"a bit in the last":     {change(at[2]+30, 1), []string{"a", "b"}, 0, true},
		"a hole":                {append(append(bytes.Clone(whole[:at[1]]), make([]byte, 40)...), whole[at[2]:]...), []string{"a", "c"}, 1, false},
	} {
		ids, f := idsIn(c.segment)
		if !reflect.DeepEqual(ids, c.ids) || f.corrupt != c.bad || f.torn != c.torn || f.off != int64(len(c.segment)) {
			t.Errorf("%s: rows %v, bad %d, torn %v, read to %d of %d; want %v, %d, %v", name, ids, f.corrupt, f.torn, f.off, len(c.segment), c.ids, c.bad, c.torn)
		}
	}
}

// FuzzRecord reads damaged segments. Valid records after the damage must be found.
func FuzzRecord(f *testing.F) {
	whole, at := framed("a", "b")
	f.Add(whole, 5)
	f.Add(whole[:at[1]+9], 0)
	f.Add([]byte{}, 1)
	var e codec
	o := sampleOpening("x")
	e.opening(&o)
	f.Add(e.b, 3)
	f.Fuzz(func(t *testing.T, junk []byte, _ int) {
		_, _ = decodeRow(junk)
		if b, err := decodeBegun(junk); err == nil {
			_ = b.lostRow(3, time.Unix(0, 0))
		}
		tail, _ := framed("behind")
		ids, r := idsIn(append(bytes.Clone(junk), tail...))
		if r.off != int64(len(junk)+len(tail)) {
			t.Fatalf("read %d of %d bytes", r.off, len(junk)+len(tail))
		}
		// Random bytes can hide later records only if they contain a complete frame.
		alone, _ := idsIn(junk)
		if len(ids) == len(alone) {
			t.Fatalf("the row behind %x was not found", junk)
		}
	})
}
