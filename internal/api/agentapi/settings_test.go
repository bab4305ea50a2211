package agentapi

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCanonical checks the form that agents compute checksums of. The wanted texts are those of
// JSON.stringify in Node, after the names were sorted with Array.prototype.sort.
func TestCanonical(t *testing.T) {
	for text, want := range map[string]string{
		`{ }`: `{}`,
		`{"b": [1.0, 1e21, -0, 0.1e-6, {"z": {}, "a": []}], "a": "é\u0007\/\u2028<"}`: `{"a":"é\u0007/` + "\u2028" + `<","b":[1,1e+21,0,1e-7,{"a":[],"z":{}}]}`,
		`{"a": 1, "10": 2, "9": 3, "!": 4, "01": 5, "-1": 6, "4294967295": 7}`:        `{"9":3,"10":2,"!":4,"-1":6,"01":5,"4294967295":7,"a":1}`,
		`{"\ue000": 1, "\ud83d\ude00": 2}`:                                            `{"` + "😀" + `":2,"` + "\ue000" + `":1}`,
		`{"n": 12345678901234567890}`:                                                 `{"n":12345678901234567000}`,
		`[]`:                                                                          "",
		`{"a":1,"a":2}`:                                                               "",
		`{"a":1} x`:                                                                   "",
		``:                                                                            "",
	} {
		got, err := canonical([]byte(text))
		if string(got) != want || (err != nil) != (want == "") {
			t.Errorf("%s: %s, %v; want %s", text, got, err, want)
		}
	}
}

func TestReadSettings(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	one, err := ReadSettings(write("one", `{"b":1,"a":2}`))
	if err != nil {
		t.Fatal(err)
	}
	two, err := ReadSettings(write("two", "{ \"a\" : 2,\n \"b\" : 1 }\n"))
	if err != nil || one.ID != two.ID || one.Checksum != two.Checksum || string(one.JSON) != `{"a":2,"b":1}` {
		t.Errorf("%+v, %+v, %v", one, two, err)
	}
	if want := "sha256:d3626ac30a87e6f7a6428233b3c68299976865fa5508e4267c5415c76af7a772"; one.Checksum != want {
		t.Errorf("%s, want %s", one.Checksum, want)
	}
	for path, want := range map[string]string{
		filepath.Join(dir, "none"): "no such file",
		write("list", "[]"):        "is not an object",
		write("half", `{"a":`):     "not valid JSON",
		write("long", `{"a":"`+strings.Repeat("x", maxSettings)+`"}`): "more than 256 KiB",
	} {
		if _, err := ReadSettings(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
}
