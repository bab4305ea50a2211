package health

import (
	"testing"
	"time"
)

const ms = time.Millisecond

func TestFirstTokenFollowsPeaksAndForgetsThem(t *testing.T) {
	l := newLab(t)
	a := l.Target("a", "g", "k")
	if d := a.FirstToken(); d != 0 {
		t.Errorf("unknown is %v", d)
	}
	a.Succeeded(0)
	if d := a.FirstToken(); d != 0 {
		t.Errorf("an answer without a first token makes it %v", d)
	}
	for range 50 {
		a.Succeeded(200 * ms)
		l.pass(100 * ms)
	}
	if d := a.FirstToken(); d != 200*ms {
		t.Errorf("steady 200 ms are %v", d)
	}
	a.Succeeded(5 * time.Second)
	if d := a.FirstToken(); d != 5*time.Second {
		t.Errorf("a peak of 5 s is %v", d)
	}
	before := a.FirstToken()
	for range 6 { // the estimate decays even without requests
		l.pass(10 * time.Second)
		if d := a.FirstToken(); d >= before {
			t.Errorf("the peak does not fade: %v after %v", d, before)
		} else {
			before = d
		}
	}
	if before < 200*ms || before > time.Second {
		t.Errorf("a minute after the peak it is %v", before)
	}
	l.pass(24 * time.Hour)
	if d := a.FirstToken(); d < 200*ms || d > time.Second {
		t.Errorf("a day later the average is %v", d)
	}
	for range 100 { // ten times the decay time of a peak
		a.Succeeded(100 * ms)
		l.pass(time.Second)
	}
	if d := a.FirstToken(); d < 100*ms || d > 101*ms {
		t.Errorf("100 answers of 100 ms later it is %v", d)
	}
}

func TestQuantile(t *testing.T) {
	l := newLab(t)
	a := l.Target("a", "g", "k")
	if _, ok := a.Quantile(0.5); ok {
		t.Error("a quantile of nothing")
	}
	for i := range sampleMin {
		if _, ok := a.Quantile(0.5); ok {
			t.Errorf("a quantile of %d answers", i)
		}
		a.Succeeded(time.Hour)
	}
	for i := range sampleSize { // replace the first samples, in an irregular order
		a.Succeeded(time.Duration((i*37)%sampleSize+1) * ms)
	}
	for q, want := range map[float64]time.Duration{-1: 1, 0: 1, 0.5: 64, 0.95: 122, 1: 128, 7: 128} {
		if d, ok := a.Quantile(q); !ok || d != want*ms {
			t.Errorf("quantile %v is %v, want %v", q, d, want*ms)
		}
	}
	l.pass(sampleAge + time.Second)
	for range sampleMin - 1 {
		a.Succeeded(ms)
	}
	if d, ok := a.Quantile(0.95); ok {
		t.Errorf("answers that are long ago make a quantile of %v", d)
	}
	a.Succeeded(100 * time.Hour) // more than a bucket can represent
	if d, ok := a.Quantile(1); !ok || d < time.Hour {
		t.Errorf("the longest is %v", d)
	}
}
