// Package doctor checks an installation: it says what is wrong, with figures, and what to do. It changes nothing.
package doctor

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/app/running"
	"github.com/isogloss-gateway/isogloss/internal/base/crash"
	"github.com/isogloss-gateway/isogloss/internal/base/plain"
	"github.com/isogloss-gateway/isogloss/internal/base/redis"
	"github.com/isogloss-gateway/isogloss/internal/base/secret"
	"github.com/isogloss-gateway/isogloss/internal/config"
	"github.com/isogloss-gateway/isogloss/internal/people/identity"
	"github.com/isogloss-gateway/isogloss/internal/request/models"
	"github.com/isogloss-gateway/isogloss/internal/request/relay"
	"github.com/isogloss-gateway/isogloss/internal/targets/discover"
	"github.com/isogloss-gateway/isogloss/internal/targets/route"
)

// Status is the outcome of a check.
type Status string

// The outcomes, from good to bad.
const (
	OK      Status = "ok"
	Note    Status = "note"    // it may be what you want
	Skipped Status = "skipped" // it could not be checked
	Warning Status = "warning" // it works, and something should be done
	Failure Status = "failure" // it does not work
)

// Result is one line of the outcome.
type Result struct {
	Check  string `json:"check"`
	Of     string `json:"of,omitempty"` // what was checked, such as a provider
	Status Status `json:"status"`
	Text   string `json:"text"`             // what was found, with its figure
	Remedy string `json:"remedy,omitempty"` // what to do
}

// Installation is what is checked.
type Installation struct {
	File    string         // of the configuration; empty: the environment
	Config  *config.Config // nil: it cannot be read
	Wrong   error          // what is wrong with it
	Partial bool           // it has mistakes, and Config only the settings of a config.Place
	Version string         // of this program

	Gateway      *running.Gateway // nil: none runs with this configuration
	GatewayError error            // why it is not certain which gateway runs
	Marker       error            // why it is not certain that Config.Data is the folder that the gateway uses

	Catalog  *models.Catalog
	Redis    redis.Options
	Verifier *identity.Verifier  // nil: no identity provider is configured
	Workers  *discover.Discovery // nil: none are discovered
	// Targets converts workers.
	Targets func(discover.Snapshot) []route.Target
	// State returns the state of a gateway without models and keys, which sends requests that cost a few tokens; nil:
	// nothing is spent.
	State func() *relay.State

	Now func() time.Time // by this machine's clock

	redactor *secret.Redactor
	mu       sync.Mutex
	clocks   []clock
}

// clock is another machine's clock.
type clock struct {
	of    string
	ahead time.Duration
}

// compareClock records how much a clock is ahead of this machine's.
func (in *Installation) compareClock(of string, ahead time.Duration) {
	in.mu.Lock()
	defer in.mu.Unlock()
	ahead += time.Since(in.Now()).Round(time.Millisecond) // 0, unless a test sets Now
	in.clocks = append(in.clocks, clock{of, ahead})
}

// Bounds of a run.
const (
	checkTime = 10 * time.Second // of a check
	maxText   = 600              // characters of a result
)

// check is a row of the list of checks.
type check struct {
	name string
	run  func(*Installation, context.Context) []Result
}

// checks returns what is checked, in the order of the results. A check returns nothing if there is nothing to check.
func checks() []check {
	return []check{
		{"file", (*Installation).checkFile},
		{"gateway", (*Installation).checkGateway},
		{"port", (*Installation).checkPorts},
		{"certificate", (*Installation).checkCertificates},
		{"data", (*Installation).checkData},
		{"limits", (*Installation).checkLimits},
		{"route", (*Installation).checkRoutes},
		{"credential", (*Installation).checkCredentials},
		{"engines", (*Installation).checkEngines},
		{"store", (*Installation).checkStore},
		{"redis", (*Installation).checkRedis},
		{"etcd", (*Installation).checkEtcd},
		{"usage log", (*Installation).checkUsageLog},
		{"clickhouse", (*Installation).checkClickHouse},
		{"identity", (*Installation).checkIdentity},
	}
}

// Run runs all checks at once, and calls tell with the results in their order, as soon as they are known. It returns
// after about ten seconds at most.
func (in *Installation) Run(ctx context.Context, tell func(Result)) (all []Result) {
	in.redactor = secret.NewRedactor(in.secrets())
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	pass := func(name string, results []Result) {
		for _, r := range results {
			r = in.clean(name, r)
			all = append(all, r)
			tell(r)
		}
	}
	// A check that ends in time says more.
	late, stop := context.WithTimeout(context.WithoutCancel(ctx), checkTime+time.Second)
	defer stop()
	list := checks()
	answers := make([]chan []Result, len(list))
	for i, c := range list {
		answers[i] = make(chan []Result, 1)
		go func() { crash.Do(quiet(), func() { answers[i] <- in.try(ctx, c) }) }()
	}
	for i, c := range list {
		select {
		case results := <-answers[i]:
			pass(c.name, results)
		case <-late.Done():
			pass(c.name, []Result{{Status: Failure, Text: fmt.Sprintf("no result within %s", checkTime), Remedy: "look at what the other lines say of the network; then run it again"}})
		}
	}
	pass("clock", in.checkClocks())
	return all
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// try runs a check. A panic is its result.
func (in *Installation) try(ctx context.Context, c check) (results []Result) {
	if !crash.Do(quiet(), func() { results = c.run(in, ctx) }) {
		return []Result{{Status: Failure, Text: "the check failed on what it read", Remedy: "please report this, with the version of the server that it looked at"}}
	}
	return results
}

// clean returns a result that can be shown: printable, short, and without secrets.
func (in *Installation) clean(name string, r Result) Result {
	r.Check = cmp.Or(r.Check, name)
	for _, text := range []*string{&r.Of, &r.Text, &r.Remedy} {
		*text = plain.Short(string(in.redactor.Redact([]byte(*text))), maxText)
	}
	return r
}

// Worst returns the worst outcome.
func Worst(all []Result) Status {
	worst, order := OK, []Status{OK, Note, Skipped, Warning, Failure}
	for _, r := range all {
		if slices.Index(order, r.Status) > slices.Index(order, worst) {
			worst = r.Status
		}
	}
	return worst
}

// Count returns how many results have an outcome.
func Count(all []Result, of Status) (n int) {
	for _, r := range all {
		if r.Status == of {
			n++
		}
	}
	return n
}

// one returns a single result.
func one(status Status, remedy, format string, args ...any) []Result {
	return []Result{result(status, remedy, format, args...)}
}

func result(status Status, remedy, format string, args ...any) Result {
	return Result{Status: status, Text: fmt.Sprintf(format, args...), Remedy: remedy}
}
