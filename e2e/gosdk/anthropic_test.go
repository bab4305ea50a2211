package gosdk

import (
	"os"
	"strings"
	"testing"
)

//go:generate sh -c "sed -e 's#anthropic-sdk-go/v2#anthropic-sdk-go#; s/messages2/messages1/g; s/Anthropic2/Anthropic1/g' anthropic2.go >anthropic1.go"

// TestMajorsAlike checks that the files for the two majors of Anthropic's SDK for Go
// differ only in the import path and in names: go generate makes one from the other.
func TestMajorsAlike(t *testing.T) {
	newest, err := os.ReadFile("anthropic2.go")
	if err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile("anthropic1.go")
	if err != nil {
		t.Fatal(err)
	}
	made := strings.NewReplacer("anthropic-sdk-go/v2", "anthropic-sdk-go", "messages2", "messages1", "Anthropic2", "Anthropic1").Replace(string(newest))
	if made != string(before) {
		t.Error("anthropic1.go is not what go generate makes from anthropic2.go")
	}
}
