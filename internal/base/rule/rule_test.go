package rule

import (
	"reflect"
	"testing"
)

// TestRule checks values against every tag.
func TestRule(t *testing.T) {
	var r Rule
	of, _ := reflect.TypeFor[struct {
		F string `pattern:"^[a-zé]*$" enum:"ab,cd,éé" minimum:"-1" maximum:"5" minLength:"2" maxLength:"3" maxItems:"2"`
	}]().FieldByName("F")
	r.Read(of, Integer)
	for text, want := range map[string]string{"ab": "", "éé": "", "a": "at least 2 characters", "abcd": "at most 3 characters", "AB": "text that matches ^[a-zé]*$", "ef": "one of ab, cd, éé"} {
		if got := r.Text(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	for number, want := range map[float64]string{-1: "", 5: "", -2: "at least -1", 5.5: "at most 5"} {
		if got := r.Number(number); got != want {
			t.Errorf("%v: %q, want %q", number, got, want)
		}
	}
	if r.Items(2) != "" || r.Items(3) != "at most 2 items" {
		t.Errorf("items: %q, %q", r.Items(2), r.Items(3))
	}
	if item := r.TakeText(); item.Text("ef") == "" || r.Text("ef") != "" && r.Enum != nil {
		t.Errorf("the checks of items are %+v, those of the list %+v", item, r)
	}
}

// TestMistakeInATag checks that a tag that is no number is found when the struct is described.
func TestMistakeInATag(t *testing.T) {
	of, _ := reflect.TypeFor[struct {
		F int `minimum:"one"`
	}]().FieldByName("F")
	defer func() {
		if recover() == nil {
			t.Error("the tag is accepted")
		}
	}()
	new(Rule).Read(of, Integer)
}
