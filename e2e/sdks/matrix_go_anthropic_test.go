package sdks

import (
	"os"
	"strings"
	"testing"
)

//go:generate sh -c "sed -e 's#anthropic-sdk-go/v2#anthropic-sdk-go#; s/messages2/messages1/g; s/goAnthropic2/goAnthropic1/g' matrix_go_anthropic2_test.go >matrix_go_anthropic1_test.go"

// TestMajorsAlike holds that both majors of Anthropic's SDK for Go do the same: one
// file is made from the other, for they differ in nothing but where they come from.
func TestMajorsAlike(t *testing.T) {
	newest, err := os.ReadFile("matrix_go_anthropic2_test.go")
	if err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile("matrix_go_anthropic1_test.go")
	if err != nil {
		t.Fatal(err)
	}
	made := strings.NewReplacer("anthropic-sdk-go/v2", "anthropic-sdk-go", "messages2", "messages1", "goAnthropic2", "goAnthropic1").Replace(string(newest))
	if made != string(before) {
		t.Error("matrix_go_anthropic1_test.go is not what is made from matrix_go_anthropic2_test.go; run go generate")
	}
}
