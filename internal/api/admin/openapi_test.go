package admin

import (
	"bytes"
	"os"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// TestConsoleSchema checks that the console's types are generated from the served document. A change
// of the API then fails the console's type check.
func TestConsoleSchema(t *testing.T) {
	const file = "../../../console/src/api/schema.json"
	w := newWorld(t).serve()
	text := jsontext.Value(w.send("", "GET", openapiPath, "").body)
	if err := text.Indent(); err != nil {
		t.Fatal(err)
	}
	text = append(text, '\n')
	if *update {
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	old, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(old, text) {
		t.Error("console/src/api/schema.json differs from the served document; run go test ./internal/api/admin -update, then npm run check in console")
	}
}
