package discover

import (
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
)

// Engine is an inference engine that people run on their own machine.
type Engine struct {
	Name string
	Port int // the one that it listens on unless told otherwise
	// Sign is a path that only this engine answers with a JSON object that has the
	// member Member. Without a Sign the list of models says who owns them.
	Sign, Member string
	Owner        string
	Preset       string // of the gateway's providers
	Spare        string // an end of models' names that people leave out
}

// Engines are those that Local looks for.
func Engines() []Engine {
	return []Engine{
		{Name: "llama.cpp", Port: 8080, Sign: "/props", Member: "total_slots", Preset: "llamacpp"},
		{Name: "vllm", Port: 8000, Owner: "vllm", Preset: "vllm"},
		{Name: "sglang", Port: 30000, Owner: "sglang", Preset: "sglang"},
		{Name: "ollama", Port: 11434, Sign: "/api/version", Member: "version", Preset: "ollama", Spare: ":latest"},
		{Name: "lmstudio", Port: 1234, Sign: "/api/v0/models", Member: "data", Preset: "lmstudio"},
	}
}

// LocalOptions says which engines are looked for.
type LocalOptions struct {
	Engines []Engine      // default: Engines()
	Not     string        // host:port that is the gateway's own
	Every   time.Duration // between two looks; default 5 s
	Logger  *slog.Logger
}

// local looks for engines on this machine. It asks 127.0.0.1 and nobody else, and
// follows no redirect.
type local struct {
	LocalOptions
	client *http.Client
}

const (
	localWait = 500 * time.Millisecond // an engine on the same machine answers sooner
	localMost = 4 << 20                // bytes of a list of models
)

// Local is the source of engines on their usual ports of the loopback interface.
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
		Timeout:       localWait,
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// LookLocally asks once what is there.
func LookLocally(ctx context.Context, o LocalOptions) []Worker {
	var all []Worker
	for _, a := range newLocal(o).askAll(ctx) { // who does not answer is not there
		all = append(all, a.workers...)
	}
	return all
}

// answer is what an engine serves, or why that is not known.
type answer struct {
	workers []Worker
	err     error
}

// askAll asks all engines at once: a port that is open and silent keeps nobody else
// waiting.
func (l *local) askAll(ctx context.Context) []answer {
	answers := make([]answer, len(l.Engines))
	var asking sync.WaitGroup
	for i, e := range l.Engines {
		asking.Go(func() { answers[i].workers, answers[i].err = l.ask(ctx, e) })
	}
	asking.Wait()
	return answers
}

func (l *local) Name() string { return "local" }

// Watch looks again and again: engines are started and stopped. One that is busy is
// kept; one whose port is closed has left.
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

// note says what was found and what is gone.
func (l *local) note(e Engine, before, now []Worker) {
	switch {
	case len(before) == 0 && len(now) > 0:
		l.Logger.Info("an engine was found", "engine", e.Name, "url", now[0].URL, "models", len(now), "hint", "--no-discover leaves it alone")
	case len(before) > 0 && len(now) == 0:
		l.Logger.Info("an engine is gone", "engine", e.Name, "url", before[0].URL)
	}
}

// ask lists what an engine serves, if it is the engine.
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
	for _, m := range list.Data {
		if m.ID == "" || e.Owner != "" && m.Owner != e.Owner {
			continue
		}
		w := Worker{ID: e.Name + "-" + strconv.Itoa(e.Port) + "-" + m.ID, Model: m.ID, Protocol: "openai-chat", URL: "http://" + address + "/v1", Engine: e.Preset}
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
