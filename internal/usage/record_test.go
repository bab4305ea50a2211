package usage

import (
	"bytes"
	"reflect"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/llm"
)

func sampleOpening(id string) Opening {
	long := Price{Input: 5, Output: 6}
	return Opening{ID: id, Node: "gw-1", Key: "k1", Team: "t", Org: "o", Began: time.Unix(1_700_000_000, 123).UTC(), Endpoint: "chat_completions",
		Dialect: "openai-chat", Model: "fast", Target: "openai/gpt-5", Stream: true, Prompt: 10,
		Price: &Price{Input: 1e9, CacheRead: 2, CacheWrite: 3, Output: 1e10, Reasoning: 4, Request: 7, Context: 8, Above: 9, Long: &long, Ceiling: true}}
}

func sampleRow(id string) Row {
	cost, none := Money(40_000), Money(0)
	began := time.Unix(1_700_000_000, 123).UTC()
	return Row{ID: id, Node: "gw-1", Key: "k1", Team: "t", Org: "o", Began: began, Took: 3 * time.Second, Endpoint: "chat_completions",
		Dialect: "openai-chat", Model: "fast", Target: "openai/gpt-5", Stream: true, Status: 200, Outcome: Answered,
		Usage: llm.Usage{Input: 1, CacheRead: 2, CacheWrite: 3, Output: 4, Reasoning: 5}, Estimated: true, Cost: &cost,
		Attempts: []Attempt{
			{Target: "a/b", Began: began, Took: time.Second, Status: 500, Fault: "unavailable", Cost: &none},
			{Target: "openai/gpt-5", Began: began, Took: time.Second, Status: 200, Usage: llm.Usage{Input: 1, CacheRead: 2, CacheWrite: 3, Output: 4, Reasoning: 5}, Cost: &cost, Charged: true},
		}}
}

func TestRecordsComeBack(t *testing.T) {
	for _, want := range []Opening{sampleOpening("a"), {ID: "b"}, {ID: "c", Price: &Price{}}} {
		var e encoder
		e.opening(&want)
		e.int(fieldSlot, 77)
		e.int(fieldTag, 99)
		got, err := readBegun(e.b)
		if err != nil || !reflect.DeepEqual(got.Opening, want) || got.slot != 77 || got.tag != 99 {
			t.Errorf("%+v, %v; want %+v", got, err, want)
		}
	}
	zero := Money(0)
	for _, want := range []Row{sampleRow("a"), {ID: "b"}, {ID: "c", Cost: &zero}, {ID: "d", Attempts: make([]Attempt, 3)}} {
		var e encoder
		e.row(&want)
		if got, err := readRow(e.b); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%+v, %v; want %+v", got, err, want)
		}
	}
}

// A test that fails when a field is added to a struct and not to its record.
func TestRecordsHaveEveryField(t *testing.T) {
	for typ, fields := range map[reflect.Type]int{reflect.TypeFor[llm.Usage](): 5, reflect.TypeFor[Row](): 18, reflect.TypeFor[Attempt](): 8, reflect.TypeFor[Opening](): 13, reflect.TypeFor[Price](): 10} {
		if typ.NumField() != fields {
			t.Errorf("%v has %d fields and its record %d", typ, typ.NumField(), fields)
		}
	}
}

// framed gives a segment of one row for each id, and where each begins.
func framed(ids ...string) (b []byte, at []int) {
	for _, id := range ids {
		rec := record(kindEnded)
		row := sampleRow(id)
		rec.row(&row)
		seal(rec.b)
		at = append(at, len(b))
		b = append(b, rec.b...)
		encoders.Put(rec)
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
		if !reflect.DeepEqual(ids, c.ids) || f.bad != c.bad || f.torn != c.torn || f.off != int64(len(c.segment)) {
			t.Errorf("%s: rows %v, bad %d, torn %v, read to %d of %d; want %v, %d, %v", name, ids, f.bad, f.torn, f.off, len(c.segment), c.ids, c.bad, c.torn)
		}
	}
}

// FuzzRecord reads segments that anything may have happened to. What is whole behind
// the damage must be found.
func FuzzRecord(f *testing.F) {
	whole, at := framed("a", "b")
	f.Add(whole, 5)
	f.Add(whole[:at[1]+9], 0)
	f.Add([]byte{}, 1)
	var e encoder
	o := sampleOpening("x")
	e.opening(&o)
	f.Add(e.b, 3)
	f.Fuzz(func(t *testing.T, junk []byte, _ int) {
		_, _ = readRow(junk)
		if b, err := readBegun(junk); err == nil {
			_ = b.lost(3, time.Unix(0, 0))
		}
		tail, _ := framed("behind")
		ids, r := idsIn(append(bytes.Clone(junk), tail...))
		if r.off != int64(len(junk)+len(tail)) {
			t.Fatalf("read %d of %d bytes", r.off, len(junk)+len(tail))
		}
		// Junk can only hide what follows by a frame of its own that is whole.
		alone, _ := idsIn(junk)
		if len(ids) == len(alone) {
			t.Fatalf("the row behind %x was not found", junk)
		}
	})
}
