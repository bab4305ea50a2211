package access

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/isogloss-gateway/isogloss/llm"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// source is a store in memory that can be slow, away, or frozen.
type source struct {
	mu       sync.Mutex
	records  map[string]Record
	revision int64
	takes    time.Duration
	err      error
	frozen   bool // answers nothing until the question is given up

	asked         map[string]int // by id
	changes       int
	open, mostNow int
}

func newSource() *source { return &source{records: map[string]Record{}, asked: map[string]int{}} }

var errAway = errors.New("connection refused")

// put adds or changes a record, in the next revision.
func (s *source) put(r Record) Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revision++
	r.Revision = s.revision
	s.records[r.ID] = r
	return r
}

func (s *source) change(id string, how func(*Record)) {
	s.mu.Lock()
	r := s.records[id]
	s.mu.Unlock()
	how(&r)
	s.put(r)
}

func (s *source) set(how func(*source)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	how(s)
}

func (s *source) questions() (keys, changes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.asked {
		keys += n
	}
	return keys, s.changes
}

// answer waits as long as an answer takes.
func (s *source) answer(ctx context.Context) error {
	s.mu.Lock()
	takes, err, frozen := s.takes, s.err, s.frozen
	s.mu.Unlock()
	if frozen {
		<-ctx.Done()
		return ctx.Err()
	}
	pause(ctx, takes)
	return cmp.Or(err, ctx.Err())
}

func (s *source) Key(ctx context.Context, id string) (Record, error) {
	s.mu.Lock()
	s.asked[id]++
	s.open++
	s.mostNow = max(s.mostNow, s.open)
	r, ok := s.records[id]
	s.mu.Unlock()
	err := s.answer(ctx)
	s.mu.Lock()
	s.open--
	s.mu.Unlock()
	if err == nil && !ok {
		err = ErrUnknown
	}
	return r, err
}

func (s *source) Changes(ctx context.Context, since int64, limit int) ([]Record, int64, error) {
	s.mu.Lock()
	s.changes++
	var out []Record
	for _, r := range s.records {
		if r.Revision > since {
			out = append(out, r)
		}
	}
	s.mu.Unlock()
	slices.SortFunc(out, func(a, b Record) int { return cmp.Compare(a.Revision, b.Revision) })
	out = out[:min(len(out), limit)]
	next := since
	if len(out) > 0 {
		next = out[len(out)-1].Revision
	}
	return out, next, s.answer(ctx)
}

// minted is a key and its record, which may use every model.
func minted(p Peppers) (Record, string) {
	id, sec, text := Mint(EnvLive)
	return Record{ID: id, Org: "acme", Models: []string{"*"}, Digests: []Digest{p.Digest(id, sec)}}, text.Reveal()
}

// stored mints keys that are in the source.
func (s *source) stored(p Peppers, n int) (ids, keys []string) {
	for range n {
		r, text := minted(p)
		s.put(r)
		ids, keys = append(ids, r.ID), append(keys, text)
	}
	return ids, keys
}

func request(key string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", nil)
	r.Host = "localhost" // where a gateway without keys lets everybody in
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	return r
}

// says is the status and the code that a key gets.
func says(d interface {
	Check(*http.Request) (Caller, *llm.Error)
}, key string) string {
	_, err := d.Check(request(key))
	if err == nil {
		return "200"
	}
	return fmt.Sprintf("%d %s", err.HTTPStatus(), err.Code)
}

func wants(t *testing.T, d interface {
	Check(*http.Request) (Caller, *llm.Error)
}, key, want string) {
	t.Helper()
	if got := says(d, key); got != want {
		t.Fatalf("%s, want %s", got, want)
	}
}

// follow runs a directory; what it returns ends it.
func follow(t *testing.T, d *Directory) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); d.Run(ctx) }()
	return func() { cancel(); <-done }
}

// otherSecret is a key with the same id and another secret, which begins with so many
// characters of the right one.
func otherSecret(key string, same int) string {
	_, sec, _ := Parse(key)
	head := key[:len(key)-sumLen-secretLen]
	wrong := sec.Reveal()
	for wrong[same:] == sec.Reveal()[same:] {
		wrong = random62(secretLen)
	}
	text := head + sec.Reveal()[:same] + wrong[same:]
	sum := checksum(text)
	return text + string(sum[:])
}
