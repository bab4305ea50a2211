package usagelog

import (
	"os"
	"testing"
)

// FuzzEvents reads any bytes as a message of a log. Events that are read belong to its log, and are stored
// with what was read.
func FuzzEvents(f *testing.F) {
	honest, err := os.ReadFile("testdata/event.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add("gw-1-17-1790000000/1/0/42", honest)
	f.Add("gw-1/0/0/9223372036854775807", []byte(`{"v":1,"log":"gw-1","position":1,"id":"x","outcome":"answered","time":"9999-12-31T23:59:59Z"}`))
	f.Fuzz(func(t *testing.T, header string, body []byte) {
		name, err := ParseName(header)
		if err != nil {
			return
		}
		if again, err := ParseName(name.String()); err != nil || again != name {
			t.Errorf("%q: %+v and %+v, %v", header, name, again, err)
		}
		m := Message{Name: name, Body: body}
		list, _, _ := m.Events()
		for i := range list {
			if list[i].Log != name.Log || list[i].Position > name.To || list[i].Position < 1 {
				t.Errorf("%+v in %+v", list[i], name)
			}
			if row := list[i].Row(); row.ID == "" {
				t.Errorf("%+v: no id", row)
			}
		}
	})
}
