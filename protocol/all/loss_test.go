package all_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/all"
)

// The loss tables are the pages docs/protocols/loss-PROTOCOL.md. The tests of this file
// compare every row with what the codec does to a sample.

// pages is the folder of the loss tables and of the list of loss codes.
const pages = "../../docs/protocols"

// The sides of the tables, as the pages' second-level headings name them.
const (
	requestSide  = "Requests to an upstream"
	responseSide = "Responses to a client"
)

// unknownMember is the member that samples use for the * of a row's member.
const unknownMember = "x_odd"

// row is a row of a loss table.
type row struct {
	side    string
	name    string // the value, such as "sampling.temperature: over 1"
	verdict llm.Verdict
	codes   []string
	member  string // the path of the member that contains the value, or "the path"
	note    string
}

// fields returns the paths in the neutral model that the row is about.
func (r row) fields() []string {
	names, _, _ := strings.Cut(r.name, ": ")
	list := strings.Fields(names)
	for i, name := range list {
		if strings.HasPrefix(name, ".") {
			group, _, _ := strings.Cut(list[i-1], ".")
			list[i] = group + name
		}
	}
	return list
}

// lossless reports whether the value arrives completely.
func (r row) lossless() bool { return r.verdict == llm.Exact || r.verdict == llm.Renamed }

// lossTable reads the loss table of a protocol.
func lossTable(t *testing.T, target protocol.Name) []row {
	t.Helper()
	var rows []row
	for heading, cells := range tableRows(t, "loss-"+string(target)+".md") {
		if len(cells) != 4 {
			t.Fatalf("loss-%s.md: the row %v has %d cells, want 4", target, cells, len(cells))
		}
		verdict := strings.Fields(strings.NewReplacer("*", "", "`", "").Replace(cells[1]))
		rows = append(rows, row{
			side: heading, name: strings.ReplaceAll(cells[0], "`", ""), verdict: llm.Verdict(verdict[0]), codes: verdict[1:],
			member: strings.ReplaceAll(strings.Trim(cells[2], "`"), "*", unknownMember), note: cells[3],
		})
	}
	if len(rows) == 0 {
		t.Fatalf("loss-%s.md has no rows", target)
	}
	return rows
}

// tableRows yields the cells of each row of a page's tables, with the second-level
// heading above it. It skips the header of each table.
func tableRows(t *testing.T, page string) func(yield func(string, []string) bool) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(pages, page))
	if err != nil {
		t.Fatal(err)
	}
	return func(yield func(string, []string) bool) {
		heading, header := "", true
		for line := range strings.Lines(string(text)) {
			line = strings.TrimSpace(line)
			if title, ok := strings.CutPrefix(line, "## "); ok {
				heading = title
			}
			inside := strings.HasPrefix(line, "|")
			if inside && !header && !yield(heading, tableCells(line)) {
				return
			}
			if strings.HasPrefix(line, "|---") {
				header = false
			} else if !inside {
				header = true
			}
		}
	}
}

// tableCells splits a table row into its cells. A cell may contain \|.
func tableCells(line string) []string {
	line = strings.ReplaceAll(strings.Trim(line, "|"), `\|`, "\x00")
	cells := strings.Split(line, "|")
	for i, c := range cells {
		cells[i] = strings.TrimSpace(strings.ReplaceAll(c, "\x00", "|"))
	}
	return cells
}

func TestLossTablesMatchRequests(t *testing.T) {
	for _, codec := range all.Codecs() {
		rows := rowsByName(t, codec.Name(), requestSide)
		for _, s := range requestSamples() {
			t.Run(string(codec.Name())+"/"+s.name, func(t *testing.T) {
				without, with := s.encode(codec, false), s.encode(codec, true)
				if without.err != nil {
					t.Fatalf("the codec rejects the request without the value: %v", without.err)
				}
				check(t, rows, s.name, s.find, without, with)
			})
		}
		reportUnsampled(t, codec.Name(), rows)
	}
}

func TestLossTablesMatchResponses(t *testing.T) {
	for _, codec := range all.Codecs() {
		rows := rowsByName(t, codec.Name(), responseSide)
		for _, s := range responseSamples() {
			find := s.find
			if other, ok := s.finds[codec.Name()]; ok {
				find = other
			}
			t.Run(string(codec.Name())+"/"+s.name, func(t *testing.T) {
				check(t, rows, s.name, find, s.encode(codec, false), s.encode(codec, true))
			})
		}
		reportUnsampled(t, codec.Name(), rows)
	}
}

// rowsByName returns the rows of one side of a loss table.
func rowsByName(t *testing.T, target protocol.Name, side string) map[string]row {
	t.Helper()
	rows := map[string]row{}
	for _, r := range lossTable(t, target) {
		if r.side != side {
			continue
		}
		if _, ok := rows[r.name]; ok {
			t.Errorf("loss-%s.md has two rows for %s", target, r.name)
		}
		rows[r.name] = r
	}
	return rows
}

// reportUnsampled fails for each row that check has not removed.
func reportUnsampled(t *testing.T, target protocol.Name, rows map[string]row) {
	t.Helper()
	for name := range rows {
		t.Errorf("loss-%s.md has a row without a sample: %s", target, name)
	}
}

// Samples start from these requests and responses, so their own encoding must be exact.
func TestBaseSamplesLoseNothing(t *testing.T) {
	for _, codec := range all.Codecs() {
		for _, base := range []requestEdit{nil, sameProtocol, withHistory, withTool, withToolResult, withSchema} {
			if out := (requestSample{base: base}).encode(codec, false); out.err != nil || len(out.losses) > 0 {
				t.Errorf("%s: %v %v", codec.Name(), out.err, out.losses)
			}
		}
		for _, base := range []responseEdit{nil, withCall, withThought, withUsage} {
			if out := (responseSample{base: base}).encode(codec, false); len(out.losses) > 0 {
				t.Errorf("%s: %v", codec.Name(), out.losses)
			}
		}
	}
}

func TestLossTableRowsAreComplete(t *testing.T) {
	verdicts := []llm.Verdict{llm.Exact, llm.Renamed, llm.Approximated, llm.Dropped, llm.Rejected}
	for _, codec := range all.Codecs() {
		for _, r := range lossTable(t, codec.Name()) {
			switch {
			case !slices.Contains(verdicts, r.verdict):
				t.Errorf("%s, %s: there is no verdict %q", codec.Name(), r.name, r.verdict)
			case r.lossless() != (len(r.codes) == 0):
				t.Errorf("%s, %s: a loss needs a code, and only a loss has one", codec.Name(), r.name)
			case r.note == "" && (r.member == "" || !r.lossless()):
				t.Errorf("%s, %s: a note must explain where the value goes", codec.Name(), r.name)
			}
		}
	}
}

// outcome is the result of encoding a request or a response.
type outcome struct {
	body, url string
	losses    []llm.Loss
	err       *llm.Error
}

func (s requestSample) encode(codec protocol.Translator, with bool) outcome {
	r := baseRequest(codec.Name())
	if s.base != nil {
		s.base(r)
	}
	if with {
		s.set(r)
	}
	var report llm.Report
	out, err := codec.EncodeRequest(r.Request, protocol.Target{Model: r.Model, Gates: s.gates, Version: s.versions[codec.Name()]}, &report)
	return outcome{body: string(out.Body), url: out.Path, losses: report.Losses, err: err}
}

func (s responseSample) encode(codec protocol.Translator, with bool) outcome {
	req := baseRequest(codec.Name())
	if s.request != nil {
		s.request(req)
	}
	r := baseResponse(req)
	if s.base != nil {
		s.base(r)
	}
	if with {
		s.set(r)
	}
	var report llm.Report
	return outcome{body: string(codec.EncodeResponse(r.Response, req.Request, &report)), losses: report.Losses}
}

// check compares the outcome of a sample with its row and removes the row.
func check(t *testing.T, rows map[string]row, name, find string, without, with outcome) {
	t.Helper()
	row, ok := rows[name]
	if !ok {
		t.Fatal("the sample has no row")
	}
	delete(rows, name)
	worst, codes := added(without.losses, with.losses)
	if lossless := len(codes) == 0; !slices.Equal(codes, sorted(row.codes)) || !lossless && worst != row.verdict {
		t.Fatalf("the codec reports %q %v, the row says %q %v\n%s", worst, codes, row.verdict, row.codes, with.body)
	}
	if (with.err != nil) != (row.verdict == llm.Rejected) {
		t.Fatalf("the error is %v, the row says %s", with.err, row.verdict)
	}
	before, after := without.at(row.member), with.at(row.member)
	switch row.verdict {
	case llm.Rejected:
		if !strings.Contains(with.err.Message, row.codes[0]) {
			t.Errorf("the error does not contain %s: %s", row.codes[0], with.err.Message)
		}
	case llm.Dropped:
		if find != "" && strings.Contains(with.body, find) {
			t.Errorf("the row says that %s is dropped, but it is in %s", find, with.body)
		}
		if find == "" && with.body != without.body {
			t.Errorf("the row says that the value is dropped, but the encodings differ:\n%s\n%s", without.body, with.body)
		}
	case llm.Approximated:
		if row.member != "" && after == "" {
			t.Errorf("%s is not in %s", row.member, with.body)
		}
	default:
		if row.member != "" && (after == before || !strings.Contains(after, find)) {
			t.Errorf("%s is %q, want %q in it (without the value it is %q)\n%s %s", row.member, after, find, before, with.url, with.body)
		}
	}
}

// added returns the worst verdict and the codes of the losses that a value adds.
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

// at returns the values of a member, one per line if arrays are on its path.
func (o outcome) at(member string) string {
	switch member {
	case "":
		return ""
	case "the path":
		return o.url
	}
	values := []jsontext.Value{jsontext.Value(o.body)}
	for name := range strings.SplitSeq(member, ".") {
		name, isList := strings.CutSuffix(name, "[]")
		var next []jsontext.Value
		for _, v := range values {
			next = append(next, memberValues(v, name, isList)...)
		}
		values = next
	}
	var b strings.Builder
	for _, v := range values {
		b.WriteString(string(v) + "\n")
	}
	return b.String()
}

// memberValues returns the value of an object's member, or the items of a list.
func memberValues(v jsontext.Value, name string, isList bool) []jsontext.Value {
	var o map[string]jsontext.Value
	if json.Unmarshal(v, &o) != nil || o[name] == nil {
		return nil
	}
	if !isList {
		return []jsontext.Value{o[name]}
	}
	var list []jsontext.Value
	if json.Unmarshal(o[name], &list) != nil {
		return nil
	}
	return list
}
