package db

import (
	"reflect"
	"testing"
)

func TestColumnOf(t *testing.T) {
	one := int64(1)
	for _, c := range []struct {
		name   string
		column []any
		array  any
		typ    string
	}{
		{"texts", []any{"a", ""}, []string{"a", ""}, "text[]"},
		{"numbers", []any{int64(1), int64(2)}, []int64{1, 2}, "bigint[]"},
		{"flags", []any{true, false}, []bool{true, false}, "boolean[]"},
		{"the first is NULL", []any{nil, int64(1)}, []*int64{nil, &one}, "bigint[]"},
		{"all are NULL", []any{nil, nil}, []*int64{nil, nil}, "bigint[]"},
	} {
		rows := make([][]any, len(c.column))
		for i, v := range c.column {
			rows[i] = []any{"other", v}
		}
		array, typ, err := columnOf(rows, 1)
		if err != nil || typ != c.typ || !reflect.DeepEqual(array, c.array) {
			t.Errorf("%s: %#v, %q, %v", c.name, array, typ, err)
		}
	}
	for _, rows := range [][][]any{{{1.5}}, {{"a"}, {int64(1)}}} {
		if _, _, err := columnOf(rows, 0); err == nil {
			t.Errorf("%v is accepted", rows)
		}
	}
}
