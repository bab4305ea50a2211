package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// Bounds of one request or response of half a megabyte. A process keeps memory for a while
// after it was used, and a busy machine adds processor time.
const (
	amplifySize  = 512 << 10
	memoryFactor = 20
	memorySlack  = 48 << 20
	cpuLimit     = 1500 * time.Millisecond
)

// shape is a body with many elements in one place: ITEM stands for them.
type shape struct {
	place string
	d     testrig.Dialect
	body  string // MODEL and LIST are replaced
}

// requestShapes returns the lists of requests.
func requestShapes() []shape {
	return []shape{
		{"messages", testrig.Chat, `{"model":"MODEL","messages":LIST}`},
		{"content", testrig.Chat, `{"model":"MODEL","messages":[{"role":"user","content":LIST}]}`},
		{"tool_calls", testrig.Chat, `{"model":"MODEL","messages":[{"role":"assistant","tool_calls":LIST},{"role":"user","content":"x"}]}`},
		{"tools", testrig.Chat, `{"model":"MODEL","messages":[{"role":"user","content":"x"}],"tools":LIST}`},
		{"unknown", testrig.Chat, `{"model":"MODEL","messages":[{"role":"user","content":"x"}],"unknown":LIST}`},
		{"input", testrig.Responses, `{"model":"MODEL","store":false,"input":LIST}`},
		{"content", testrig.Responses, `{"model":"MODEL","store":false,"input":[{"role":"user","content":LIST}]}`},
		{"output", testrig.Responses, `{"model":"MODEL","store":false,"input":[{"type":"function_call_output","call_id":"a","output":LIST}]}`},
		{"summary", testrig.Responses, `{"model":"MODEL","store":false,"input":[{"type":"reasoning","id":"a","summary":LIST}]}`},
		{"tools", testrig.Responses, `{"model":"MODEL","store":false,"input":"x","tools":LIST}`},
		{"messages", testrig.Messages, `{"model":"MODEL","max_tokens":5,"messages":LIST}`},
		{"content", testrig.Messages, `{"model":"MODEL","max_tokens":5,"messages":[{"role":"user","content":LIST}]}`},
		{"tool_result", testrig.Messages, `{"model":"MODEL","max_tokens":5,"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":LIST}]}]}`},
		{"system", testrig.Messages, `{"model":"MODEL","max_tokens":5,"system":LIST,"messages":[{"role":"user","content":"x"}]}`},
		{"tools", testrig.Messages, `{"model":"MODEL","max_tokens":5,"messages":[{"role":"user","content":"x"}],"tools":LIST}`},
		{"contents", testrig.Gemini, `{"contents":LIST}`},
		{"parts", testrig.Gemini, `{"contents":[{"role":"user","parts":LIST}]}`},
		{"system", testrig.Gemini, `{"contents":[{"role":"user","parts":[{"text":"x"}]}],"systemInstruction":{"parts":LIST}}`},
		{"functionDeclarations", testrig.Gemini, `{"contents":[{"role":"user","parts":[{"text":"x"}]}],"tools":[{"functionDeclarations":LIST}]}`},
		{"safetySettings", testrig.Gemini, `{"contents":[{"role":"user","parts":[{"text":"x"}]}],"safetySettings":LIST}`},
	}
}

// responseShapes returns the lists of responses.
func responseShapes() []shape {
	return []shape{
		{"choices", testrig.Chat, `{"id":"a","object":"chat.completion","created":1,"model":"m","choices":LIST}`},
		{"tool_calls", testrig.Chat, `{"id":"a","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"x","tool_calls":LIST}}]}`},
		{"output", testrig.Responses, `{"id":"a","object":"response","created_at":1,"status":"completed","model":"m","output":LIST}`},
		{"content", testrig.Responses, `{"id":"a","object":"response","created_at":1,"status":"completed","model":"m","output":[{"type":"message","id":"b","role":"assistant","status":"completed","content":LIST}]}`},
		{"content", testrig.Messages, `{"id":"a","type":"message","role":"assistant","model":"m","stop_reason":"end_turn","content":LIST,"usage":{"input_tokens":1,"output_tokens":1}}`},
		{"candidates", testrig.Gemini, `{"candidates":LIST}`},
		{"parts", testrig.Gemini, `{"candidates":[{"index":0,"finishReason":"STOP","content":{"role":"model","parts":LIST}}]}`},
	}
}

// items are elements that cost little to send.
func items() map[string]string {
	return map[string]string{"objects": "{}", "strings": `""`, "lists": "[]", "members": `{"a":0}`}
}

// listOf returns a list of elements of a size in bytes.
func listOf(item string, size int) string {
	n := size / (len(item) + 1)
	return "[" + strings.Repeat(item+",", n-1) + item + "]"
}

func amplifyAttacks() (all []attack) {
	for _, s := range requestShapes() {
		for name, item := range items() {
			body := s.body
			for _, target := range []string{targetName(s.d), otherTarget(s.d)} {
				if target == targetName(s.d) && name != "objects" {
					continue // it is forwarded as it is
				}
				do := func(ctx context.Context, r *rig) *evidence {
					text := strings.NewReplacer("MODEL", target+"/m", "LIST", listOf(item, amplifySize)).Replace(body)
					return r.measured(ctx, request{path: s.d.Path(target+"/m", false), body: text, key: "full", headers: []string{"Anthropic-Version", "2023-06-01"}})
				}
				all = append(all, attack{name: fmt.Sprintf("amplify/request/%s-%s/%s/%s", targetName(s.d), target, s.place, name), do: do})
			}
		}
		do := func(ctx context.Context, r *rig) *evidence {
			text := strings.NewReplacer("MODEL", "msgs/m", "LIST", listOf("{}", amplifySize)).Replace(s.body)
			return r.measured(ctx, request{path: "/explain", body: fmt.Sprintf(`{"model":"msgs/m","dialect":%q,"request":%s}`, s.d, text), admin: true})
		}
		all = append(all, attack{name: fmt.Sprintf("amplify/explain/%s/%s", targetName(s.d), s.place), do: do})
	}
	for _, s := range responseShapes() {
		for name, item := range items() {
			for _, client := range []testrig.Dialect{s.d, dialects()[(slicesIndex(s.d)+1)%4]} {
				for _, stream := range []bool{false, true} {
					if client == s.d && name != "objects" {
						continue // it is forwarded as it is
					}
					do := func(ctx context.Context, r *rig) *evidence {
						model := fmt.Sprintf("amplify-%s-%s-%s", targetName(s.d), s.place, name)
						r.script(model, func(c *testrig.Call) bool {
							body := strings.Replace(s.body, "LIST", listOf(item, amplifySize), 1)
							if c.Stream {
								return c.StartStream() && c.Chunks("data: "+body+"\n\n") && c.End()
							}
							return c.Respond(http.StatusOK, testrig.JSONMedia, body)
						})
						q := testrig.Query{Model: targetName(s.d) + "/" + model, Prompt: "hi", Stream: stream}
						return r.measured(ctx, request{path: client.Path(q.Model, stream), body: client.Body(q), key: "full", headers: []string{"Anthropic-Version", "2023-06-01"}})
					}
					kind := map[bool]string{false: "response", true: "event"}[stream]
					all = append(all, attack{name: fmt.Sprintf("amplify/%s/%s-%s/%s/%s", kind, targetName(client), targetName(s.d), s.place, name), do: do})
				}
			}
		}
	}
	return all
}

// slicesIndex returns the place of a dialect among all.
func slicesIndex(d testrig.Dialect) int {
	for i, one := range dialects() {
		if one == d {
			return i
		}
	}
	return 0
}

// otherTarget returns a target of another dialect, so that the request is translated.
func otherTarget(d testrig.Dialect) string {
	return targetName(dialects()[(slicesIndex(d)+2)%4])
}

// measured sends a request and checks how much memory and processor time it takes.
func (r *rig) measured(ctx context.Context, q request) *evidence {
	pid := r.gateway.PID()
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0) // resets the peak; without it, earlier peaks count too
	before, cpu := testrig.ProcessMemory(pid, "VmRSS"), processTime(pid)
	e := r.send(ctx, q)
	grown, used := testrig.ProcessMemory(pid, "VmHWM")-before, processTime(pid)-cpu
	e.note = fmt.Sprintf("%.0f MB, %v", grown/1e6, used)
	limit := float64(memoryFactor*amplifySize + memorySlack)
	e.figure(grown > limit, "memory grew by %.0f MB, %.0f times the input; want at most %.0f MB", grown/1e6, grown/amplifySize, limit/1e6)
	e.figure(used > cpuLimit, "it took %v of processor time, want at most %v", used, cpuLimit)
	e.problem(e.status == 0, "no response")
	return e
}

// processTime returns the processor time that a process has used.
func processTime(pid int) time.Duration {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * (time.Second / 100)
}
