package wire

import (
	"strings"
	"testing"
)

func TestFindError(t *testing.T) {
	for body, want := range map[string]FoundError{
		`{"error":{"message":"m","type":"t","code":"c","param":"p"}}`:                                                         {Message: "m", Type: "t", Code: "c", Param: "p"},
		`{"type":"error","error":{"type":"t","message":"m","details":{"error_code":"c"}}}`:                                    {Message: "m", Type: "t", Code: "c"},
		`[{"error":{"code":429,"message":"m","status":"RESOURCE_EXHAUSTED","details":[{"reason":"R"},{"retryDelay":"7s"}]}}]`: {Message: "m", Number: "429", Status: "RESOURCE_EXHAUSTED", Reason: "R", Delay: "7s"},
		`{"__type":"com.amazon#ThrottlingException","message":"m"}`:                                                           {Message: "m", Type: "ThrottlingException"},
		`{"error":"Not Found","message":"m","status":404}`:                                                                    {Message: "m", Number: "404"},
		`{"error":{"message":"{\"error\":{\"message\":\"inner\",\"type\":\"t\"}}","type":"outer"}}`:                           {Message: "inner", Type: "t"},
		`{"detail":[{"loc":["body"],"msg":"m","type":"missing"}]}`:                                                            {Message: "m", Type: "missing"},
		`"m"`:            {Message: "m"},
		`{"message":{}}`: {},
		`<html>`:         {},
		`503`:            {},
		``:               {},
		strings.Repeat(`[`, 1000) + `"m"` + strings.Repeat(`]`, 1000): {},
	} {
		if got := FindError(Raw(body)); got != want {
			t.Errorf("%.80s:\n got %+v\nwant %+v", body, got, want)
		}
	}
}

// TestFindErrorReadsOnce checks that an error inside of others is not read again for each of them.
func TestFindErrorReadsOnce(t *testing.T) {
	cost := func(depth int) float64 {
		body := Raw(strings.Repeat(`{"error":`, depth) + `{"message":"m"}` + strings.Repeat(`}`, depth))
		return testing.AllocsPerRun(10, func() {
			if FindError(body).Message != "m" {
				t.Error("the message is not found")
			}
		})
	}
	if one, deep := cost(1), cost(maxErrors-1); deep > maxErrors*one {
		t.Errorf("%v allocations for an error inside of %d others, %v for one inside of one", deep, maxErrors-1, one)
	}
}
