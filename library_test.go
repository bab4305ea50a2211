package isogloss

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestLibraryPage checks that the code of the page about the packages is that of programs and examples which are compiled
// and run.
func TestLibraryPage(t *testing.T) {
	var sources strings.Builder
	for _, path := range []string{"gateway/example_test.go", "translate/example_test.go", "examples/library/chat/main.go", "examples/library/proxy/main.go"} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		sources.WriteString(flush(string(text)))
	}
	page, err := os.ReadFile("docs/library.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	for _, b := range blocks {
		if !strings.Contains(sources.String(), flush(b[1])) {
			t.Errorf("no program or example has\n%s", b[1])
		}
	}
	if len(blocks) < 5 {
		t.Errorf("%d blocks of code", len(blocks))
	}
}

// flush removes the indentation of all lines.
func flush(text string) string {
	return regexp.MustCompile(`(?m)^[\t ]+`).ReplaceAllString(text, "")
}
