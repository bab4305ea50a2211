package loss

import (
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/all"
)

// outcome is what a codec made of a value.
type outcome struct {
	body, url string
	losses    []llm.Loss
	err       *llm.Error
}

func TestCodecsDoWithRequestsWhatTheTableSays(t *testing.T) {
	rows := rowsByName(Request)
	for _, s := range requestSamples() {
		name := sampleName(Request, s.fields, s.when)
		for _, codec := range all.Codecs() {
			row, ok := rows[name][codec.Name()]
			if !ok {
				t.Errorf("there is a sample but no row: %s", name)
				break
			}
			t.Run(name+" to "+string(codec.Name()), func(t *testing.T) {
				without, with := s.encode(codec, false), s.encode(codec, true)
				if without.err != nil {
					t.Fatalf("the request is refused without the value: %v", without.err)
				}
				check(t, row, s.find, without, with)
			})
		}
		delete(rows, name)
	}
	for name := range rows {
		t.Errorf("there is a row but no sample: %s", name)
	}
}

func TestCodecsDoWithAnswersWhatTheTableSays(t *testing.T) {
	rows := rowsByName(Response)
	for _, s := range answerSamples() {
		name := sampleName(Response, s.fields, s.when)
		for _, codec := range all.Codecs() {
			row, ok := rows[name][codec.Name()]
			if !ok {
				t.Errorf("there is a sample but no row: %s", name)
				break
			}
			find := s.find
			if other, ok := s.finds[codec.Name()]; ok {
				find = other
			}
			t.Run(name+" to "+string(codec.Name()), func(t *testing.T) {
				check(t, row, find, s.encode(codec, false), s.encode(codec, true))
			})
		}
		delete(rows, name)
	}
	for name := range rows {
		t.Errorf("there is a row but no sample: %s", name)
	}
}

func TestPlainValuesLoseNothing(t *testing.T) {
	for _, codec := range all.Codecs() {
		s := sceneFor(codec.Name())
		for _, base := range []func(scene) *llm.Request{hello, home, dialogue, tooled, working, structured} {
			var report llm.Report
			if _, err := codec.EncodeRequest(base(s), protocol.Target{Model: "m"}, &report); err != nil || len(report.Losses) > 0 {
				t.Errorf("%s: %v %v", codec.Name(), err, report.Losses)
			}
		}
		for _, base := range []func() *llm.Response{short, calling, musing, counted} {
			var report llm.Report
			if codec.EncodeResponse(base(), hello(s), &report); len(report.Losses) > 0 {
				t.Errorf("%s: %v", codec.Name(), report.Losses)
			}
		}
	}
}

// check holds what a codec did to a row of the table.
func check(t *testing.T, row Row, find string, without, with outcome) {
	t.Helper()
	if worst, codes := added(without.losses, with.losses); worst != reported(row) || !slices.Equal(codes, sorted(row.Codes)) {
		t.Fatalf("reported is %q %v, the table says %q %v\n%s", worst, codes, reported(row), row.Codes, with.body)
	}
	if (with.err != nil) != (row.Verdict == llm.Rejected) {
		t.Fatalf("the error is %v, the table says %s", with.err, row.Verdict)
	}
	before, after := without.at(row.Wire), with.at(row.Wire)
	switch row.Verdict {
	case llm.Rejected:
		if !strings.Contains(with.err.Message, row.Codes[0]) {
			t.Errorf("the refusal does not name %s: %s", row.Codes[0], with.err.Message)
		}
	case llm.Dropped:
		if find != "" && strings.Contains(with.body, find) {
			t.Errorf("%s is said to be dropped, but is in %s", find, with.body)
		}
		if find == "" && with.body != without.body {
			t.Errorf("the value is said to be dropped, but it makes a difference:\n%s\n%s", without.body, with.body)
		}
	case llm.Approximated:
		if row.Wire != "" && after == "" {
			t.Errorf("%s is not in %s", row.Wire, with.body)
		}
	default:
		if row.Wire != "" && (after == before || !strings.Contains(after, find)) {
			t.Errorf("%s is to hold %q and is %q (without the value %q) in\n%s %s", row.Wire, find, after, before, with.url, with.body)
		}
	}
}

// reported is the verdict that a report has for a row.
func reported(row Row) llm.Verdict {
	if len(row.Codes) == 0 {
		return ""
	}
	return row.Verdict
}

// added is what a value has added to the losses: the worst verdict and the codes.
func added(without, with []llm.Loss) (worst llm.Verdict, codes []string) {
	order := []llm.Verdict{"", llm.Approximated, llm.Dropped, llm.Rejected}
	rest := slices.Clone(without)
	for _, l := range with {
		if i := slices.IndexFunc(rest, func(r llm.Loss) bool { return r.Code == l.Code && r.Path == l.Path }); i >= 0 {
			rest = slices.Delete(rest, i, i+1)
			continue
		}
		if slices.Index(order, l.Verdict) > slices.Index(order, worst) {
			worst = l.Verdict
		}
		codes = append(codes, l.Code)
	}
	return worst, sorted(codes)
}

func sorted(codes []string) []string { return slices.Compact(slices.Sorted(slices.Values(codes))) }

func (s sample) encode(codec protocol.Translator, with bool) outcome {
	sc := sceneFor(codec.Name())
	base := s.base
	if base == nil {
		base = hello
	}
	r := base(sc)
	if with {
		s.set(r, sc)
	}
	target := protocol.Target{Model: r.Model, Gates: s.gates}
	if codec.Name() == protocol.Anthropic {
		target.Version = s.version
	}
	var report llm.Report
	out, err := codec.EncodeRequest(r, target, &report)
	return outcome{body: string(out.Body), url: out.Path, losses: report.Losses, err: err}
}

func (s answer) encode(codec protocol.Translator, with bool) outcome {
	sc := sceneFor(codec.Name())
	base, ask := s.base, s.ask
	if base == nil {
		base = short
	}
	if ask == nil {
		ask = hello
	}
	r := base()
	if with {
		s.set(r, sc)
	}
	var report llm.Report
	return outcome{body: string(codec.EncodeResponse(r, ask(sc), &report)), losses: report.Losses}
}

// at is what a member holds; a list's members are joined.
func (o outcome) at(wire string) string {
	switch wire {
	case "":
		return ""
	case "url":
		return o.url
	}
	values := []jsontext.Value{jsontext.Value(o.body)}
	for _, name := range strings.Split(wire, ".") {
		name, list := strings.CutSuffix(name, "[]")
		var next []jsontext.Value
		for _, v := range values {
			next = append(next, inside(v, name, list)...)
		}
		values = next
	}
	var b strings.Builder
	for _, v := range values {
		b.WriteString(string(v) + "\n")
	}
	return b.String()
}

func inside(v jsontext.Value, name string, list bool) []jsontext.Value {
	var o map[string]jsontext.Value
	if json.Unmarshal(v, &o) != nil || o[name] == nil {
		return nil
	}
	if !list {
		return []jsontext.Value{o[name]}
	}
	var l []jsontext.Value
	if json.Unmarshal(o[name], &l) != nil {
		return nil
	}
	return l
}

func rowsByName(side Side) map[string]map[protocol.Name]Row {
	rows := map[string]map[protocol.Name]Row{}
	for _, r := range Table() {
		if r.Side != side {
			continue
		}
		if rows[rowName(r)] == nil {
			rows[rowName(r)] = map[protocol.Name]Row{}
		}
		rows[rowName(r)][r.Target] = r
	}
	return rows
}

func sampleName(side Side, fields, when string) string {
	return rowName(Row{Side: side, Fields: strings.Fields(fields), When: when})
}

func requestSamples() []sample {
	return slices.Concat(conversationSamples(), blockSamples(), mediaSamples(), toolSamples(), settingSamples())
}

// sceneFor is a request from another protocol than the one that is written; one
// that makes seals.
func sceneFor(target protocol.Name) scene {
	if target == protocol.Anthropic {
		return scene{own: string(target), other: string(protocol.Gemini)}
	}
	return scene{own: string(target), other: string(protocol.Anthropic)}
}
