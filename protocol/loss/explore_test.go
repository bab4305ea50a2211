package loss

import (
	"fmt"
	"os"
	"testing"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/all"
)

func TestExplore(t *testing.T) {
	f, _ := os.Create("/tmp/explore.txt")
	for _, s := range requestSamples() {
		fmt.Fprintf(f, "\n### %s / %s\n", s.fields, s.when)
		for _, c := range all.Codecs() {
			func() {
				defer func() { if e := recover(); e != nil { fmt.Fprintf(f, "  %s PANIC %v\n", c.Name(), e) } }()
			sc := sceneFor(c.Name())
			base := s.base
			if base == nil { base = hello }
			var r0, r1 llm.Report
			q0 := base(sc)
			q1 := base(sc)
			s.set(q1, sc)
			model := s.model
			tg := func(q *llm.Request) protocol.Target { m := model; if m == "" { m = q.Model }; v := ""; if c.Name()=="anthropic" {v = s.version}; return protocol.Target{Model: m, Gates: s.gates, Version: v} }
			o0, e0 := c.EncodeRequest(q0, tg(q0), &r0)
			o1, e1 := c.EncodeRequest(q1, tg(q1), &r1)
			same := string(o0.Body) == string(o1.Body) && o0.Path == o1.Path
			if e0 != nil { fmt.Fprintf(f, "  %s BASE REFUSED %v\n", c.Name(), e0) }
			if len(r0.Losses) > 0 { fmt.Fprintf(f, "  (base losses %v)\n", r0.Losses) }
			fmt.Fprintf(f, "  %-16s same=%v err=%v", c.Name(), same, e1 != nil)
			for _, l := range r1.Losses { fmt.Fprintf(f, " [%s %s %s]", l.Path, l.Verdict, l.Code) }
			if !same { fmt.Fprintf(f, "\n      %s %s", o1.Path, o1.Body) }
			fmt.Fprintln(f)
			}()
		}
	}
	for _, s := range answerSamples() {
		fmt.Fprintf(f, "\n### ANSWER %s / %s\n", s.fields, s.when)
		for _, c := range all.Codecs() {
			sc := sceneFor(c.Name())
			base := s.base
			if base == nil { base = short }
			ask := s.ask
			if ask == nil { ask = hello }
			var r0, r1 llm.Report
			q0 := base()
			q1 := base()
			s.set(q1, sc)
			o0 := c.EncodeResponse(q0, ask(sc), &r0)
			o1 := c.EncodeResponse(q1, ask(sc), &r1)
			same := string(o0) == string(o1)
			if len(r0.Losses) > 0 { fmt.Fprintf(f, "  (base losses %v)\n", r0.Losses) }
			fmt.Fprintf(f, "  %-16s same=%v", c.Name(), same)
			for _, l := range r1.Losses { fmt.Fprintf(f, " [%s %s %s]", l.Path, l.Verdict, l.Code) }
			if !same { 
				if len(o1) > 900 { o1 = o1[:600] }
				fmt.Fprintf(f, "\n      %s", o1) }
			fmt.Fprintln(f)
		}
	}
}

func requestSamples() []sample {
	var l []sample
	l = append(l, conversationSamples()...)
	l = append(l, blockSamples()...)
	l = append(l, mediaSamples()...)
	l = append(l, toolSamples()...)
	return append(l, settingSamples()...)
}

func sceneFor(target protocol.Name) scene {
	s := scene{own: string(target), other: string(protocol.Anthropic)}
	if target == protocol.Anthropic { s.other = string(protocol.Gemini) }
	return s
}
