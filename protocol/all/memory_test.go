//go:build growth

package all

import (
	"fmt"
	"reflect"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/anthropic"
	"github.com/isogloss-gateway/isogloss/protocol/gemini"
	"github.com/isogloss-gateway/isogloss/protocol/openaichat"
	"github.com/isogloss-gateway/isogloss/protocol/openairesponses"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// bodies are the texts that the gateway translates: where a wire type stands in one, and
// what else a valid text has.
var bodies = []struct {
	in   protocol.Name
	kind string // request, response or stream
	typ  any
	text string // with the value at %
}{
	{protocol.OpenAIChat, "request", openaichat.Request{}, `%`},
	{protocol.OpenAIChat, "response", openaichat.Response{}, `%`},
	{protocol.OpenAIChat, "stream", openaichat.Response{}, `%`},
	{protocol.OpenAIChat, "stream", openaichat.Message{}, `{"id":"x","model":"m","choices":[{"index":0,"delta":%}]}`},
	{protocol.OpenAIResponses, "request", openairesponses.Request{}, `%`},
	{protocol.OpenAIResponses, "response", []openairesponses.Item{}, `{"id":"x","object":"response","status":"completed","model":"m","output":%}`},
	{protocol.OpenAIResponses, "stream", []openairesponses.Item{}, `{"type":"response.completed","response":{"id":"x","status":"completed","model":"m","output":%}}`},
	{protocol.OpenAIResponses, "stream", openairesponses.Item{}, `{"type":"response.output_item.done","output_index":0,"item":%}`},
	{protocol.OpenAIResponses, "stream", openairesponses.Part{}, `{"type":"response.content_part.done","output_index":0,"content_index":0,"part":%}`},
	{protocol.Anthropic, "request", anthropic.Request{}, `%`},
	{protocol.Anthropic, "response", anthropic.Response{}, `%`},
	{protocol.Anthropic, "stream", anthropic.Response{}, `{"type":"message_start","message":%}`},
	{protocol.Anthropic, "stream", anthropic.Block{}, `{"type":"content_block_start","index":0,"content_block":%}`},
	{protocol.Gemini, "request", gemini.Request{}, `%`},
	{protocol.Gemini, "response", gemini.Response{}, `%`},
	{protocol.Gemini, "stream", gemini.Response{}, `%`},
}

// seeds are the members that make an object of a type valid. Each text is a variant.
var seeds = map[reflect.Type][]string{
	reflect.TypeFor[openaichat.Request]():      {`"model":"m","messages":[{"role":"user","content":"x"}]`},
	reflect.TypeFor[openaichat.Response]():     {`"id":"x","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"x"},"finish_reason":"stop"}]`},
	reflect.TypeFor[openaichat.Choice]():       {`"index":0,"message":{"role":"assistant","content":"x"},"finish_reason":"stop"`},
	reflect.TypeFor[openaichat.Message]():      {`"role":"assistant","content":"x"`, `"role":"user","content":"x"`, `"role":"tool","tool_call_id":"c","content":"x"`},
	reflect.TypeFor[openaichat.Part]():         {`"type":"text","text":"x"`, `"type":"image_url","image_url":"data:image/png;base64,AA=="`},
	reflect.TypeFor[openaichat.ToolCall]():     {`"id":"c#","type":"function","function":{"name":"f","arguments":"{}"}`},
	reflect.TypeFor[openaichat.Tool]():         {`"type":"function","function":{"name":"f#"}`},
	reflect.TypeFor[openaichat.Function]():     {`"name":"f#"`},
	reflect.TypeFor[openaichat.ToolChoice]():   {`"type":"function","function":{"name":"f"}`},
	reflect.TypeFor[openaichat.NamedChoice]():  {`"type":"allowed_tools"`, `"type":"function","function":{"name":"f"}`},
	reflect.TypeFor[openaichat.Annotation]():   {`"type":"url_citation","url_citation":{"url":"u","title":"","start_index":0,"end_index":1}`},
	reflect.TypeFor[openairesponses.Request](): {`"model":"m","input":"x"`},
	reflect.TypeFor[openairesponses.Item](): {`"type":"message","role":"user","content":"x"`, `"type":"message","id":"i#","role":"assistant","content":[{"type":"output_text","text":"x"}]`,
		`"type":"reasoning","id":"r#","summary":[]`, `"type":"function_call","call_id":"c#","name":"f","arguments":"{}"`, `"type":"function_call_output","call_id":"c","output":"x"`},
	reflect.TypeFor[openairesponses.Part]():      {`"type":"input_text","text":"x"`, `"type":"output_text","text":"x"`},
	reflect.TypeFor[openairesponses.Tool]():      {`"type":"function","name":"f#"`, `"type":"namespace","name":"n"`},
	reflect.TypeFor[openairesponses.NamedTool](): {`"type":"allowed_tools","mode":"auto"`, `"type":"function","name":"f"`},
	reflect.TypeFor[anthropic.Request]():         {`"model":"m","max_tokens":1,"messages":[{"role":"user","content":"x"}]`},
	reflect.TypeFor[anthropic.Response]():        {`"id":"x","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"x"}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":1}`},
	reflect.TypeFor[anthropic.Message]():         {`"role":"user","content":"x"`, `"role":"assistant","content":"x"`},
	reflect.TypeFor[anthropic.Block]():           {`"type":"text","text":"x"`, `"type":"tool_use","id":"c#","name":"f","input":{}`, `"type":"tool_result","tool_use_id":"c","content":"x"`, `"type":"thinking","thinking":"x","signature":"s"`, `"type":"x"`},
	reflect.TypeFor[anthropic.Tool]():            {`"name":"f#","input_schema":{"type":"object"}`},
	reflect.TypeFor[gemini.Request]():            {`"contents":[{"parts":[{"text":"x"}]}]`},
	reflect.TypeFor[gemini.Response]():           {`"candidates":[{"index":0,"content":{"role":"model","parts":[{"text":"x"}]},"finishReason":"STOP"}]`},
	reflect.TypeFor[gemini.Candidate]():          {`"index":0,"content":{"role":"model","parts":[{"text":"x"}]},"finishReason":"STOP"`},
	reflect.TypeFor[gemini.Content]():            {`"parts":[{"text":"x"}]`, `"role":"model","parts":[{"text":"x"}]`},
	reflect.TypeFor[gemini.Part]():               {`"text":"x"`, `"functionCall":{"name":"f"}`, `"functionResponse":{"name":"f","response":{}}`},
	reflect.TypeFor[gemini.FunctionDeclaration](): {
		`"name":"f#"`,
	},
}

// rawTypes are the types of members that the codecs decode later, by the struct and the member.
var rawTypes = map[string]any{
	"openairesponses.Input.array": openairesponses.Item{}, "openairesponses.Request.tools": openairesponses.Tool{}, "openairesponses.Tool.tools": openairesponses.Tool{},
	"openairesponses.ToolChoice.object": openairesponses.NamedTool{}, "openairesponses.NamedTool.tools": openairesponses.NamedTool{},
	"anthropic.Request.tools": anthropic.Tool{}, "anthropic.Content.array": anthropic.Block{}, "anthropic.Response.content": anthropic.Block{},
	"gemini.Candidate.content": gemini.Content{},
}

// position is a place in a body that holds an array or an object.
type position struct {
	path string
	wrap func(value string) string // returns the body with a value at the position
	elem reflect.Type              // of an array; nil for an object
	seed string                    // members of the object
}

// finder finds the arrays and objects of a type.
type finder struct {
	seen map[string]bool // types, with the variant of the object that they are in
}

// find returns the arrays and objects of a type. The owner is the member that has the type.
func (f *finder) find(typ reflect.Type, owner, variant, path string, wrap func(string) string) []position {
	if value, ok := typ.MethodByName("IsAbsent"); ok && value.Type.NumIn() == 1 { // an Opt
		value, _ = typ.MethodByName("Value")
		return f.find(value.Type.Out(0), owner, variant, path, wrap)
	}
	raw := rawTypes[owner]
	switch {
	case typ == reflect.TypeFor[wire.Raw]() && raw != nil:
		return f.find(reflect.TypeOf(raw), "", variant, path, wrap)
	case typ == reflect.TypeFor[wire.Raw](), typ == reflect.TypeFor[wire.Object]():
		return []position{{path: path + "{}", wrap: wrap}, {path: path + "[]", wrap: wrap, elem: reflect.TypeFor[wire.Raw]()}}
	case typ == reflect.TypeFor[wire.Extra](), typ == reflect.TypeFor[wire.Text]():
		return nil
	}
	elem := reflect.Type(nil)
	if slice, ok := typ.MethodByName("Slice"); ok { // a List
		elem = slice.Type.Out(0).Elem()
	} else if typ.Kind() == reflect.Slice {
		elem = typ.Elem()
	}
	if elem != nil {
		if elem == reflect.TypeFor[wire.Raw]() && raw != nil {
			elem = reflect.TypeOf(raw)
		}
		return append([]position{{path: path + "[]", wrap: wrap, elem: elem}},
			f.find(elem, "", variant, path+"[]", func(v string) string { return wrap("[" + v + "]") })...)
	}
	if typ.Kind() != reflect.Struct || f.seen[typ.String()+variant] {
		return nil
	}
	f.seen[typ.String()+variant] = true
	variants := seeds[typ]
	if variants == nil {
		variants = []string{""}
	}
	var all []position
	for i, seed := range variants {
		at := path
		if len(variants) > 1 {
			at += "(" + strconv.Itoa(i) + ")"
			variant = typ.String() + strconv.Itoa(i)
		}
		if typ.Field(0).Tag.Get("wire") == "" {
			all = append(all, position{path: at + "{}", wrap: wrap, seed: seed})
		}
		for j := range typ.NumField() {
			field := typ.Field(j)
			if form := field.Tag.Get("wire"); form != "" {
				all = append(all, f.find(field.Type, typ.String()+"."+form, variant, at, wrap)...)
				continue
			}
			name := field.Tag.Get("json")
			all = append(all, f.find(field.Type, typ.String()+"."+name, variant, at+"."+name, func(v string) string { return wrap(withMember(seed, name, v)) })...)
		}
	}
	return all
}

func find(typ any, path, text string) []position {
	f := finder{seen: map[string]bool{}}
	return f.find(reflect.TypeOf(typ), "", "", path, func(v string) string { return strings.Replace(text, "%", v, 1) })
}

// withMember returns an object of the members in seed and one other. It replaces the member
// of the same name.
func withMember(seed, name, value string) string {
	var o wire.Object
	if err := wire.Unmarshal([]byte("{"+seed+"}"), &o); err != nil {
		panic(err)
	}
	out, err := wire.Marshal(o.With(name, wire.Raw(value)))
	if err != nil {
		panic(err)
	}
	return string(out)
}

// fills returns the values that the position is filled with, by name: each of about size bytes.
func (p position) fills(size int) map[string]string {
	repeat := func(item string) string { return list(max(1, size/(len(item)+1)), item) }
	if p.elem == nil {
		members := repeat(`"k#":0`)
		if p.seed != "" {
			members = p.seed + "," + members
		}
		return map[string]string{"members": "{" + members + "}"}
	}
	all := map[string]string{}
	small := []string{`{}`, `0`, `{"a":0}`}
	switch p.elem.Kind() {
	case reflect.String:
		small = []string{`""`}
	case reflect.Slice: // JSON that is not decoded
		small = []string{`{}`, `0`}
	}
	for _, item := range small {
		all[item] = "[" + repeat(item) + "]"
	}
	for _, seed := range seeds[p.elem] {
		all["{"+seed+"}"] = "[" + repeat("{"+seed+"}") + "]"
	}
	return all
}

// The memory that translation may take for each byte of a text, in addition to a MiB. The
// smallest elements and members that a vendor accepts become larger than elements that no
// vendor accepts.
const (
	heapPerByte      = 20
	heapPerValidByte = 60
)

// Translation may take cpuPerMB for each MB of a text, or cpuPerParse times as long as the
// JSON library takes to read the text, whichever is more: this does not depend on the
// machine.
const (
	cpuPerMB    = 50 * time.Millisecond
	cpuPerParse = 30
)

// TestMemoryOfTranslation fills every array and every object of the wire types with many
// small elements, and checks that the memory and the CPU time of translation stay in
// proportion to the size of the text. It takes minutes, so only make growth runs it.
func TestMemoryOfTranslation(t *testing.T) {
	const size = 64 << 10
	for _, b := range bodies {
		path := fmt.Sprintf("%s/%s/%T", b.in, b.kind, b.typ)
		t.Run(path, func(t *testing.T) {
			texts, watched, slow := 0, 0, 0
			in := codecOf(t, b.in)
			seen := map[string]bool{}
			for _, p := range find(b.typ, path, b.text) {
				for name, value := range p.fills(size) {
					text := p.wrap(value)
					if seen[text] {
						continue
					}
					seen[text] = true
					texts++
					maxHeap := float64(heapPerByte*len(text) + 1<<20)
					if p.elem == nil || slices.ContainsFunc(seeds[p.elem], func(seed string) bool { return name == "{"+seed+"}" }) {
						maxHeap = float64(heapPerValidByte*len(text) + 1<<20)
					}
					maxHeap = min(maxHeap, float64(wire.Cost([]byte(text))+1<<20))
					for i, out := range Codecs() {
						if testing.Short() && i != texts%len(Codecs()) {
							continue
						}
						if b.kind != "request" && b.in != protocol.OpenAIChat && out.Name() != b.in && out.Name() != protocol.OpenAIChat {
							continue // the encoders see the same from Chat
						}
						run := func() { translate(in, out, b.kind, text) }
						cpu, heap := cost(t, run)
						maxCPU := cpuPerMB * time.Duration(len(text)) / 1e6
						if cpu > maxCPU {
							slow++
							parse, _ := cost(t, func() { _ = json.Unmarshal([]byte(text), new(any), wire.Lenient) })
							maxCPU = max(maxCPU, cpuPerParse*parse)
						}
						if heap > maxHeap { // allocated, not necessarily live
							watched++
						}
						for range 4 { // a garbage collection of earlier work, or a slow one, may be in it
							if cpu > maxCPU {
								again, _ := cost(t, run)
								cpu = min(cpu, again)
							}
							if heap > maxHeap {
								heap = min(heap, peakHeap(run))
							}
						}
						if heap > maxHeap || cpu > maxCPU {
							t.Errorf("%s of %.40s to %s: %d bytes take %.1f MB (%.0f times as much) and %v (%.0f ms per MB)", p.path, name, out.Name(),
								len(text), heap/1e6, (heap-1<<20)/float64(len(text)), cpu, cpu.Seconds()*1e9/float64(len(text)))
						}
					}
				}
			}
			t.Logf("%d texts; %d translations allocate more than the limit in all, %d take more than %v for a MB", texts, watched, slow, cpuPerMB)
		})
	}
}

// cost returns the CPU time of f and the memory that it allocates.
func cost(t *testing.T, f func()) (time.Duration, float64) {
	allocated := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(allocated)
	before, began := allocated[0].Value.Uint64(), testrig.ProcessorTime(t)
	f()
	took := testrig.ProcessorTime(t) - began
	metrics.Read(allocated)
	return took, float64(allocated[0].Value.Uint64() - before)
}

// peakHeap returns the largest amount of live memory while f runs.
func peakHeap(f func()) float64 {
	defer debug.SetGCPercent(debug.SetGCPercent(5))
	live := func() int64 {
		sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		metrics.Read(sample)
		return int64(sample[0].Value.Uint64())
	}
	runtime.GC()
	before := live()
	var peak atomic.Int64
	var over atomic.Bool
	var watch func()
	watch = func() { // a finalizer runs after each garbage collection
		runtime.SetFinalizer(&[16]byte{}, func(*[16]byte) {
			peak.Store(max(peak.Load(), live()-before))
			if !over.Load() {
				watch()
			}
		})
	}
	watch()
	f()
	over.Store(true)
	return float64(peak.Load())
}
