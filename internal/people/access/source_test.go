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

// source is a store in memory that can be slow, down or frozen.
type source struct {
	mu       sync.Mutex
	records  map[string]Record
	tenants  []Tenant
	revision int64
	groups   map[string][]SCIMGroup
	grouped  int64 // revision of the last change of groups
	history  int   // changes when the store is restored
	takes    time.Duration
	err      error
	frozen   bool // queries block until their context ends
	noLists  bool // queries for several keys block

	asked         map[string]int // queries by id
	changes       int
	pages         int // of keys
	open, mostNow int
}

func newSource() *source {
	return &source{records: map[string]Record{}, groups: map[string][]SCIMGroup{}, asked: map[string]int{}}
}

var errAway = errors.New("connection refused")

// put adds or changes a record under the next revision.
func (s *source) put(r Record) Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revision++
	r.Revision = s.revision
	s.records[r.ID] = r
	return r
}

// SavePerson implements Source.
func (s *source) SavePerson(_ context.Context, r Record) (Record, error) {
	if s.err != nil {
		return r, s.err
	}
	s.mu.Lock()
	r.Revoked = s.records[r.ID].Revoked
	s.mu.Unlock()
	return s.put(r), nil
}

// SCIMGroups implements Source.
func (s *source) SCIMGroups(ctx context.Context, name string) ([]SCIMGroup, error) {
	s.mu.Lock()
	s.asked["groups "+name]++
	list := s.groups[name]
	s.mu.Unlock()
	return list, s.answer(ctx)
}

// join changes the groups of a person.
func (s *source) join(name string, groups ...SCIMGroup) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revision++
	s.groups[name], s.grouped = groups, s.revision
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

// answer waits as long as a query takes.
func (s *source) answer(ctx context.Context) error {
	s.mu.Lock()
	takes, err, frozen := s.takes, s.err, s.frozen
	s.mu.Unlock()
	if frozen {
		<-ctx.Done()
		return ctx.Err()
	}
	sleep(ctx, takes)
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

func (s *source) KeysByID(ctx context.Context, ids []string) (out []Record, err error) {
	s.mu.Lock()
	for _, id := range ids {
		if r, ok := s.records[id]; ok {
			out = append(out, r)
		}
	}
	blocked := s.noLists
	s.mu.Unlock()
	if blocked {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return out, s.answer(ctx)
}

func (s *source) KeysAfter(ctx context.Context, id string, limit int) (out []Record, err error) {
	s.mu.Lock()
	s.pages++
	for _, r := range s.records {
		if r.ID > id {
			out = append(out, r)
		}
	}
	s.mu.Unlock()
	slices.SortFunc(out, func(a, b Record) int { return cmp.Compare(a.ID, b.ID) })
	return out[:min(len(out), limit)], s.answer(ctx)
}

func (s *source) Changes(ctx context.Context, since Cursor, limit int) (c Changes, err error) {
	s.mu.Lock()
	s.changes++
	last := s.cursor(s.revision)
	switch {
	case since == last:
		c.Next = since
	case since == (Cursor{}) || since.Revision >= last.Revision || since != s.cursor(since.Revision):
		c.Next, c.Reset = last, true
	default:
		c.Next, c.Groups = last, s.grouped > since.Revision
		for _, r := range s.records {
			if r.Revision > since.Revision {
				c.Records = append(c.Records, r)
			}
		}
		for _, t := range s.tenants {
			if t.Revision > since.Revision {
				c.Tenants = append(c.Tenants, t)
			}
		}
		slices.SortFunc(c.Records, func(a, b Record) int { return cmp.Compare(a.Revision, b.Revision) })
		if c.More = len(c.Records) > limit; c.More {
			c.Records = c.Records[:limit]
			c.Next = s.cursor(c.Records[limit-1].Revision)
			c.Tenants = slices.DeleteFunc(c.Tenants, func(t Tenant) bool { return t.Revision > c.Next.Revision })
		}
	}
	s.mu.Unlock()
	return c, s.answer(ctx)
}

// cursor returns the cursor at a revision.
func (s *source) cursor(revision int64) Cursor {
	return Cursor{revision, fmt.Sprint(s.history, "-", revision)}
}

// putTenant changes a team or organisation, and the keys as the store joins them.
func (s *source) putTenant(t Tenant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revision++
	t.Revision = s.revision
	s.tenants = append(s.tenants, t)
}

// minted returns a new key for all models, and its record.
func minted(p Peppers) (Record, string) {
	id, sec, text := Mint(EnvLive)
	return Record{ID: id, Org: "acme", Models: []string{"*"}, Digests: []Digest{p.Digest(id, sec)}}, text.Reveal()
}

// stored mints keys and adds them to the source.
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
	r.Host = "localhost" // a gateway without keys accepts requests from localhost
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	return r
}

// says returns the status and error code for a key.
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

// follow runs a directory and returns a function that stops it.
func follow(t *testing.T, d *Directory) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); d.Run(ctx) }()
	return func() { cancel(); <-done }
}

// otherSecret returns a key with the same id and another secret that shares a prefix of the given
// length.
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
