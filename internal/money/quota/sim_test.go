package quota

import (
	"bytes"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/plot"
)

var update = flag.Bool("update", false, "write the plots and the tables of docs/scale.md")

// fleet simulates nodes that share one account, in steps of 10 ms. Each node has a thousand
// requests per second on average, and the limit allows half of the requests of a minute. The
// simulation covers the seconds in which the limit is reached.
type fleet struct {
	nodes int
	slice time.Duration // 0: every request calls Redis
	rule  bool          // all slices together take at most an eighth of what is left
	skew  float64       // of the load: 0 is even, 1 is Zipf's law
}

const (
	simStep  = 10 * time.Millisecond
	simTime  = 8 * time.Second
	simRoom  = 5370 * time.Millisecond // left of the limit when the simulation begins, as time of the load of all nodes
	simLimit = 30 * time.Second        // the limit, as time of the load of all nodes
	simRate  = 1000.0                  // requests a second of a node, on average
)

// outcome is the result of a simulation.
type outcome struct {
	over  float64 // admitted above the limit, relative to the limit
	early float64 // refused while other nodes had unused slices, relative to the limit
	calls float64 // Redis calls per admitted request
}

// shares returns each node's part of the load.
func shares(nodes int, skew float64) []float64 {
	all, sum := make([]float64, nodes), 0.0
	for i := range all {
		all[i] = math.Pow(float64(i+1), -skew)
		sum += all[i]
	}
	for i := range all {
		all[i] /= sum
	}
	return all
}

// run simulates a time span; room is how long the remaining limit lasts under the full load.
func (f fleet) run(length, room time.Duration) outcome {
	random := rand.New(rand.NewPCG(1, uint64(f.nodes)))
	load := shares(f.nodes, f.skew)
	total := simRate * float64(f.nodes)
	begin := int64(total * room.Seconds())
	left, out, admitted, early, calls := begin, int64(0), int64(0), int64(0), int64(0)
	slices, ends := make([]int64, f.nodes), make([]int, f.nodes)
	for step := range int(length / simStep) {
		first := random.IntN(f.nodes)
		for n := range f.nodes {
			i := (first + n) % f.nodes
			if slices[i] > 0 && step >= ends[i] { // expired
				left, out = left+slices[i], out-slices[i]
				slices[i] = 0
				calls++
			}
			rate := load[i] * total
			asked := poisson(random, rate*simStep.Seconds())
			want := int64(rate * f.slice.Seconds())
			for asked > 0 {
				if n := min(asked, slices[i]); n > 0 {
					slices[i], out, admitted, asked = slices[i]-n, out-n, admitted+n, asked-n
					continue
				}
				fits := want <= left
				if f.rule {
					fits = want*sliceFraction*int64(f.nodes) <= left
				}
				if want > 0 && rate > 200 && fits {
					slices[i], ends[i] = want, step+int(f.slice/simStep)
					left, out = left-want, out+want
					calls++
					continue
				}
				n := min(asked, left)
				calls += n
				left, admitted = left-n, admitted+n
				early += min(asked-n, out)
				break
			}
		}
	}
	limit := total * simLimit.Seconds()
	return outcome{float64(admitted-begin) / limit, float64(early) / limit, float64(calls) / float64(admitted)}
}

// poisson returns a Poisson-distributed number with the given mean.
func poisson(random *rand.Rand, mean float64) int64 {
	if mean > 30 {
		return max(0, int64(math.Round(mean+math.Sqrt(mean)*random.NormFloat64())))
	}
	n, p, end := int64(0), random.Float64(), math.Exp(-mean)
	for ; p > end; n++ {
		p *= random.Float64()
	}
	return n
}

// alone returns what nodes would admit above the limit, relative to the limit, if they counted separately
// and added up their counts at an interval. This alternative is not used. On average the nodes reach the
// limit in the middle of an interval.
func alone(every time.Duration) float64 { return every.Seconds() / 2 / simLimit.Seconds() }

// usable returns the part of a limit that nodes can use by their shares while Redis is lost, if the
// demand equals the limit.
func usable(nodes int, skew float64) (part float64) {
	for _, load := range shares(nodes, skew) {
		part += min(load, 1/float64(nodes))
	}
	return part
}

var simNodes = []int{1, 2, 3, 5, 10, 30, 100, 300, 1000}

// TestSimulation checks that the limit holds for any number of nodes, and that slices refuse no
// request that fits.
func TestSimulation(t *testing.T) {
	lines := []struct {
		name  string
		fleet fleet
	}{
		{"1 s, as long as there is any", fleet{slice: time.Second, skew: 1}},
		{"100 ms, as long as there is any", fleet{slice: 100 * time.Millisecond, skew: 1}},
		{"100 ms, an eighth (as here)", fleet{slice: 100 * time.Millisecond, rule: true, skew: 1}},
	}
	limits := plot.Plot{Title: "Refused too early, by nodes and size of slices", XLabel: "nodes", YLabel: "% of the limit", LogX: true}
	var table bytes.Buffer
	table.WriteString("| nodes | calls a request: 10 ms | 100 ms | 1 s | refused too early: 100 ms, an eighth | 100 ms, any | 1 s, any | admitted too much | counted alone, summed every second |\n|---|---|---|---|---|---|---|---|---|\n")
	for _, l := range lines {
		limits.Lines = append(limits.Lines, plot.Line{Name: l.name})
	}
	for _, n := range simNodes {
		var got []outcome
		for i, l := range lines {
			l.fleet.nodes = n
			o := l.fleet.run(simTime, simRoom)
			got = append(got, o)
			limits.Lines[i].Points = append(limits.Lines[i].Points, plot.Point{X: float64(n), Y: o.early * 100})
			if o.over > 0 {
				t.Errorf("%d nodes, %s: %.4f above the limit", n, l.name, o.over)
			}
		}
		if got[2].early > 0.001 {
			t.Errorf("%d nodes: %.4f of the limit were refused too early", n, got[2].early)
		}
		calls := func(d time.Duration) float64 {
			return fleet{nodes: n, slice: d, skew: 1}.run(2*time.Second, time.Hour).calls
		}
		fmt.Fprintf(&table, "| %d | %.3f | %.3f | %.3f | %.3f %% | %.3f %% | %.2f %% | %.1f %% | %.1f %% |\n", n, calls(simStep), calls(100*time.Millisecond), calls(time.Second),
			got[2].early*100, got[1].early*100, got[0].early*100, max(0, got[0].over, got[1].over, got[2].over)*100, alone(time.Second)*100)
	}
	picture(t, "scale-limits.svg", limits)
	section(t, "limits", table.String())
}

// TestShareSimulation checks that shares lose nothing of an even load while Redis is lost, and of a
// skewed one only what the busiest nodes have above their share.
func TestShareSimulation(t *testing.T) {
	p := plot.Plot{Title: "What can be used while Redis is lost", XLabel: "nodes", YLabel: "% of the limit", LogX: true}
	skews := []struct {
		name string
		skew float64
	}{{"even load", 0}, {"skewed (0.5)", 0.5}, {"Zipf (1)", 1}, {"one node has it all", 50}}
	var table bytes.Buffer
	table.WriteString("| nodes |")
	for _, s := range skews {
		table.WriteString(" " + s.name + " |")
		p.Lines = append(p.Lines, plot.Line{Name: s.name})
	}
	table.WriteString(" a node cut off alone adds |\n|---|---|---|---|---|---|\n")
	for _, n := range simNodes {
		fmt.Fprintf(&table, "| %d |", n)
		for i, s := range skews {
			part := usable(n, s.skew)
			fmt.Fprintf(&table, " %.0f %% |", part*100)
			p.Lines[i].Points = append(p.Lines[i].Points, plot.Point{X: float64(n), Y: part * 100})
			if part > 1+1e-9 || s.skew == 0 && part < 1-1e-9 {
				t.Errorf("%d nodes, %s: %.3f of the limit", n, s.name, part)
			}
		}
		fmt.Fprintf(&table, " %.1f %% |\n", 100/float64(n))
	}
	picture(t, "scale-share.svg", p)
	section(t, "shares", table.String())
}

const docs = "../../../docs"

// picture writes a picture, or sees that it is the one that is there.
func picture(t *testing.T, name string, p plot.Plot) {
	t.Helper()
	path := filepath.Join(docs, name)
	if *update {
		if err := os.WriteFile(path, p.SVG(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if have, err := os.ReadFile(path); err != nil || !bytes.Equal(have, p.SVG()) {
		t.Errorf("%s is not what the simulation gives (%v); run go test ./internal/money/quota -run Simulation -update", name, err)
	}
}

// section writes a table into docs/scale.md, between two comments.
func section(t *testing.T, name, table string) {
	t.Helper()
	path := filepath.Join(docs, "scale.md")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	begin, end := "<!-- "+name+": go test ./internal/money/quota -run Simulation -update -->\n", "<!-- end of "+name+" -->"
	before, rest, ok := strings.Cut(string(text), begin)
	have, after, ok2 := strings.Cut(rest, end)
	switch {
	case !ok || !ok2:
		t.Fatalf("%s has no place for %s", path, name)
	case *update:
		if err := os.WriteFile(path, []byte(before+begin+table+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
	case have != table:
		t.Errorf("the table of %s in docs/scale.md is not what the simulation gives; run go test ./internal/money/quota -run Simulation -update", name)
	}
}
