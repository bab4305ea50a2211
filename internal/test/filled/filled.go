// Package filled fills structs by reflection, for tests that no field is lost on a way. A field that somebody adds to a
// struct is in its tests at once.
package filled

import (
	"fmt"
	"reflect"
	"strconv"
	"time"
)

// New returns a value of which no field is zero. Its texts, numbers and times differ from each other. A list has two
// elements; a type that points to itself has one value within another.
func New[T any]() (v T) {
	n := 0
	fill(reflect.ValueOf(&v).Elem(), &n, map[reflect.Type]int{})
	return v
}

func fill(v reflect.Value, n *int, within map[reflect.Type]int) {
	*n++
	switch v.Kind() { //nolint:exhaustive // others are errors of the test
	case reflect.Struct:
		if _, ok := v.Interface().(time.Time); ok {
			v.Set(reflect.ValueOf(time.Unix(1_790_000_000+int64(*n), int64(*n)).UTC()))
			return
		}
		within[v.Type()]++
		for i := range v.NumField() {
			fill(v.Field(i), n, within)
		}
		within[v.Type()]--
	case reflect.Pointer:
		if within[v.Type().Elem()] < 2 {
			v.Set(reflect.New(v.Type().Elem()))
			fill(v.Elem(), n, within)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			fill(v.Index(i), n, within)
		}
	case reflect.Array:
		for i := range v.Len() {
			fill(v.Index(i), n, within)
		}
	case reflect.String:
		v.SetString("t" + strconv.Itoa(*n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(*n))
	default:
		panic(fmt.Sprintf("filled: no value for a %v", v.Type()))
	}
}

// Each changes one part of a value after another, calls changed with its path, such as Attempts[1].Cost, and changes
// it back.
func Each[T any](v *T, changed func(path string)) {
	each(reflect.ValueOf(v).Elem(), "", changed)
}

func each(v reflect.Value, path string, changed func(string)) {
	old := reflect.ValueOf(v.Interface())
	switch v.Kind() { //nolint:exhaustive // New has checked it
	case reflect.Struct:
		t, ok := v.Interface().(time.Time)
		if !ok {
			for i := range v.NumField() {
				each(v.Field(i), path+"."+v.Type().Field(i).Name, changed)
			}
			return
		}
		v.Set(reflect.ValueOf(t.Add(time.Second)))
	case reflect.Pointer:
		if !v.IsNil() {
			each(v.Elem(), path, changed)
		}
		return
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			each(v.Index(i), path+"["+strconv.Itoa(i)+"]", changed)
		}
		return
	case reflect.String:
		v.SetString(v.String() + "x")
	case reflect.Bool:
		v.SetBool(!v.Bool())
	default:
		v.SetInt(v.Int() + 1)
	}
	changed(path[1:])
	v.Set(old)
}
