package discover

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/isogloss-gateway/isogloss/internal/base/crash"
	"github.com/isogloss-gateway/isogloss/internal/targets/discover/rotation"
)

// Engine is an inference engine that may run on this machine.
type Engine struct {
	Name string
	Port int // its default port
	// Sign is a path at which only this engine returns a JSON object with the member
	// Member. Without a Sign the owner in the list of models identifies the engine.
	Sign, Member string
	Owner        string
	Preset       string // the provider preset
	Spare        string // a suffix of model names that may be omitted
}

// Engines returns the engines that Local looks for.
func Engines() []Engine {
	return []Engine{
		{Name: "llama.cpp", Port: 8080, Sign: "/props", Member: "total_slots", Preset: "llamacpp"},
		{Name: "vllm", Port: 8000, Owner: "vllm", Preset: "vllm"},
		{Name: "sglang", Port: 30000, Owner: "sglang", Preset: "sglang"},
		{Name: "ollama", Port: 11434, Sign: "/api/version", Member: "version", Preset: "ollama", Spare: ":latest"},
		{Name: "lmstudio", Port: 1234, Sign: "/api/v0/models", Member: "data", Preset: "lmstudio"},
	}
}

// LocalOptions configures the Local source.
type LocalOptions struct {
	Engines []Engine      // default: Engines()
	Not     string        // the gateway's own host:port
	Every   time.Duration // between two scans; default 5 s
	Logger  *slog.Logger

	wait time.Duration // for the response of an engine; 0: localWait
}

// local looks for engines on this machine. It contacts only 127.0.0.1 and follows no
// redirect.
type local struct {
	LocalOptions
	client *http.Client
}

const (
	localWait = 500 * time.Millisecond // enough for an engine on the same machine
	localMost = 4 << 20                // bytes of a list of models
	maxModels = 1000                   // of an engine
)

// Local returns the source of engines on their default ports of the loopback interface.
func Local(o LocalOptions) Source { return newLocal(o) }

func newLocal(o LocalOptions) *local {
	if o.Engines == nil {
		o.Engines = Engines()
	}
	if o.Every == 0 {
		o.Every = 5 * time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &local{o, &http.Client{
		Timeout:       cmp.Or(o.wait, localWait),
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// LookLocally scans the ports once.
func LookLocally(ctx context.Context, o LocalOptions) []Worker {
	var all []Worker
	for _, a := range newLocal(o).askAll(ctx) { // an engine that does not respond is absent
		all = append(all, a.workers...)
	}
	return all
}

// answer holds the models of an engine, or the error of the query.
type answer struct {
	workers []Worker
	err     error
}

// askAll queries all engines at once: an open port that does not respond does not delay
// the others.
func (l *local) askAll(ctx context.Context) []answer {
	answers := make([]answer, len(l.Engines))
	var asking sync.WaitGroup
	for i, e := range l.Engines {
		asking.Go(func() {
			answers[i].err = crash.Try(l.Logger, func() (err error) {
				answers[i].workers, err = l.ask(ctx, e)
				return err
			})
		})
	}
	asking.Wait()
	return answers
}

func (l *local) Name() string { return "local" }

// Watch scans periodically. It keeps an engine that is busy, and removes one whose port
// is closed.
func (l *local) Watch(ctx context.Context, tell func(Change)) {
	known := make([][]Worker, len(l.Engines))
	for first := true; ctx.Err() == nil; first = false {
		c := Change{All: first, At: time.Now()}
		for i, a := range l.askAll(ctx) {
			now := a.workers
			if a.err != nil && !errors.Is(a.err, syscall.ECONNREFUSED) && len(known[i]) > 0 {
				continue
			}
			l.note(l.Engines[i], known[i], now)
			c.Put = append(c.Put, now...)
			for _, w := range known[i] {
				if !slices.Contains(now, w) {
					c.Left = append(c.Left, w.ID)
				}
			}
			known[i] = now
		}
		if ctx.Err() == nil {
			tell(c)
		}
		select {
		case <-ctx.Done():
		case <-time.After(jitter(l.Every)):
		}
	}
}

// note logs new and removed engines.
func (l *local) note(e Engine, before, now []Worker) {
	switch {
	case len(before) == 0 && len(now) > 0:
		l.Logger.Info("an engine was found", "engine", e.Name, "url", now[0].URL, "models", len(now), "hint", "--no-discover leaves it alone")
	case len(before) > 0 && len(now) == 0:
		l.Logger.Info("an engine is gone", "engine", e.Name, "url", before[0].URL)
	}
}

// ask returns the models of an engine, if it is the engine.
func (l *local) ask(ctx context.Context, e Engine) ([]Worker, error) {
	address := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(e.Port)).String()
	if address == l.Not {
		return nil, nil
	}
	if e.Sign != "" {
		var sign map[string]any
		if err := l.get(ctx, address, e.Sign, &sign); err != nil {
			return nil, err
		}
		if _, ok := sign[e.Member]; !ok {
			return nil, nil
		}
	}
	var list struct {
		Data []struct {
			ID    string `json:"id"`
			Owner string `json:"owned_by"`
		} `json:"data"`
	}
	if err := l.get(ctx, address, "/v1/models", &list); err != nil {
		return nil, err
	}
	var workers []Worker
	for _, m := range list.Data[:min(len(list.Data), maxModels)] {
		id := e.Name + "-" + strconv.Itoa(e.Port) + "-" + m.ID
		if m.ID == "" || e.Owner != "" && m.Owner != e.Owner || !rotation.IsText(id, maxText) {
			continue
		}
		w := Worker{ID: id, Model: m.ID, Protocol: "openai-chat", URL: "http://" + address + "/v1", Engine: e.Preset}
		workers = append(workers, w)
		if short, ok := strings.CutSuffix(m.ID, e.Spare); ok && e.Spare != "" {
			w.ID, w.Model = strings.TrimSuffix(w.ID, e.Spare), short
			workers = append(workers, w)
		}
	}
	return workers, nil
}

func (l *local) get(ctx context.Context, address, path string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+path, nil)
	if err != nil {
		return err
	}
	resp, err := l.client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // only read from
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, localMost))
	if err != nil {
		return err
	}
	return json.Unmarshal(body, into)
}
