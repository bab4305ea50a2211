package loss

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
)

var update = flag.Bool("update", false, "write the pages in docs/protocols")

const (
	pages     = "../../docs/protocols"
	generated = "<!-- Generated from protocol/loss by `go test ./protocol/loss -run TestPages -update`; do not edit. -->\n\n"
)

func TestPages(t *testing.T) {
	want := map[string]string{"loss.md": overview(), "codes.md": codesPage()}
	for _, target := range protocol.Names() {
		want["loss-"+string(target)+".md"] = targetPage(target)
	}
	for name, text := range want {
		path := filepath.Join(pages, name)
		if *update {
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		have, err := os.ReadFile(path)
		if err != nil || string(have) != text {
			t.Errorf("%s differs from the table; run go test ./protocol/loss -run TestPages -update and read the diff (%v)", path, err)
		}
	}
}

const intro = `# What is lost between protocols

` + generated + `A request that goes to a vendor in its own protocol loses nothing: its bytes are not touched. This page is about
requests and answers that are translated. What happens depends on the protocol that is written, not on the one that
was read: what a client asks for is read in full, and the upstream's protocol may have no place for it; what an upstream
answers is read in full, and the client's protocol may have no place for that.

| verdict | meaning | reported |
|---|---|---|
| exact | arrives as it was sent, or is only about how the source spelled it | |
| renamed | arrives in full, under another name or in another form | |
| approximated | something near it arrives | yes |
| dropped | does not arrive; the rest does | yes |
| refused | the request is answered with 400, because without the value it would mean something else | yes |

What was done is in the answer's header ` + "`Isogloss-Fidelity`" + `: ` + "`exact`" + `, or the worst verdict, how many values were approximated
and dropped, and their [codes](codes.md):

    Isogloss-Fidelity: dropped;a=1;d=1;codes="temperature.clamped seed.unsupported"

The header of a streamed answer is sent before the answer is known, so it tells of the request only.

` + "`isogloss translate`" + ` shows the whole report, with the path of each value, and needs no network. What is refused is chosen
with ` + "`fidelity`" + ` in the [configuration](../configuration.md), or by a client with the header ` + "`Isogloss-Fidelity-Mode`" + `: ` + "`strict`" + `
refuses every loss, ` + "`default`" + ` what is marked refused below, and ` + "`loose`" + ` leaves that out too and sends the rest.

Nothing is lost in silence: a value that is approximated, dropped or refused has a code, and the report of the request or
the answer has it.

Values have the names that reports use, those of the neutral model: ` + "`sampling.top_p`" + `, ` + "`media.url`" + `. *Of the same protocol*
are values that come home: the client speaks the upstream's protocol, and is translated only because its version differs.

`

// overview is the page with all targets side by side.
func overview() string {
	var b strings.Builder
	b.WriteString(intro)
	b.WriteString("How often each verdict occurs below:\n\n" + tally() + "\n")
	b.WriteString("The pages of the targets say where each value goes: ")
	links := make([]string, 0, len(protocol.Names()))
	for _, target := range protocol.Names() {
		links = append(links, fmt.Sprintf("[%s](loss-%s.md)", target, target))
	}
	b.WriteString(strings.Join(links, ", ") + ".\n")
	side := Side("")
	for _, t := range topics() {
		if t.side != side {
			side = t.side
			b.WriteString("\n## " + sideTitle(side) + "\n")
		}
		b.WriteString("\n### " + t.name + "\n\n" + t.about + "\n\n| value | openai-chat | openai-responses | anthropic | gemini |\n|---|---|---|---|---|\n")
		for _, e := range t.entries {
			b.WriteString("| " + value(e.fields, e.when))
			for _, c := range []cell{e.chat, e.responses, e.anthropic, e.gemini} {
				b.WriteString(" | " + verdict(c.verdict, strings.Fields(c.code)))
			}
			b.WriteString(" |\n")
		}
	}
	return b.String()
}

func sideTitle(s Side) string {
	if s == Request {
		return "Requests, by the protocol of the upstream"
	}
	return "Answers, by the protocol of the client"
}

// value names what a row is about: `citation.start`, `.end`, over 1.
func value(fields, when string) string {
	var names []string
	last := ""
	for _, f := range strings.Fields(fields) {
		group, name, dotted := strings.Cut(f, ".")
		if dotted && group == last {
			f = "." + name
		}
		last = group
		names = append(names, "`"+f+"`")
	}
	text := strings.Join(names, " ")
	if when != "" {
		text += ": " + when
	}
	return text
}

func verdict(v llm.Verdict, codes []string) string {
	text := string(v)
	if v != llm.Exact && v != llm.Renamed {
		text = "**" + text + "**"
	}
	for _, c := range codes {
		text += " `" + c + "`"
	}
	return text
}

// tally counts the verdicts of each target.
func tally() string {
	var b strings.Builder
	b.WriteString("| target | exact | renamed | approximated | dropped | refused |\n|---|---|---|---|---|---|\n")
	for _, target := range protocol.Names() {
		count := map[llm.Verdict]int{}
		for _, r := range Table() {
			if r.Target != target {
				continue
			}
			count[r.Verdict]++
		}
		fmt.Fprintf(&b, "| %s | %d | %d | %d | %d | %d |\n", target, count[llm.Exact], count[llm.Renamed],
			count[llm.Approximated], count[llm.Dropped], count[llm.Rejected])
	}
	return b.String()
}

// targetPage says where each value goes in one protocol.
func targetPage(target protocol.Name) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Where values go in %s\n\n%s", target, generated)
	fmt.Fprintf(&b, "What becomes of every value that is written as [%s](%s.md). The verdicts are explained in [What is lost\n"+
		"between protocols](loss.md), the codes in [Codes](codes.md).\n", target, target)
	side, topic := Side(""), ""
	for _, r := range Table() {
		if r.Target != target {
			continue
		}
		if r.Side != side {
			side = r.Side
			b.WriteString("\n## " + map[Side]string{Request: "Requests to an upstream", Response: "Answers to a client"}[side] + "\n")
		}
		if r.Topic != topic {
			topic = r.Topic
			b.WriteString("\n### " + topic + "\n\n| value | verdict | member | note |\n|---|---|---|---|\n")
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", value(strings.Join(r.Fields, " "), r.When), verdict(r.Verdict, r.Codes), wire(r), escape(r.Note))
	}
	return b.String()
}

// wire names the member of a row. The member that samples use for all that has no
// field is no news to a reader.
func wire(r Row) string {
	switch {
	case r.Wire == "":
		return ""
	case r.Wire == "url":
		return "the path"
	case strings.HasSuffix(r.Wire, "x_odd"), strings.HasSuffix(r.Wire, ".odd"):
		return "where it was"
	}
	return "`" + r.Wire + "`"
}

func escape(s string) string {
	return strings.NewReplacer("|", `\|`, "<", "&lt;", "_", `\_`).Replace(s)
}

// codesPage lists the codes.
func codesPage() string {
	var b strings.Builder
	b.WriteString("# Codes of losses\n\n" + generated)
	b.WriteString("The codes are stable: what is logged, counted and asked for by them stays. The table in [What is lost between\n" +
		"protocols](loss.md) says when each is reported.\n\n| code | meaning | approximated | dropped | refused |\n|---|---|---|---|---|\n")
	for _, c := range Codes() {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", c.Name, c.Meaning,
			targetsOf(c, llm.Approximated), targetsOf(c, llm.Dropped), targetsOf(c, llm.Rejected))
	}
	return b.String()
}

// targetsOf lists the protocols in which a code goes with a verdict.
func targetsOf(c Code, v llm.Verdict) string {
	var names []string
	for _, r := range Table() {
		if r.Verdict == v && slices.Contains(r.Codes, c.Name) && !slices.Contains(names, string(r.Target)) {
			names = append(names, string(r.Target))
		}
	}
	return strings.Join(names, ", ")
}
