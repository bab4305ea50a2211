package conversation

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/codec"
)

// ownerStore is a store in memory that can be down.
type ownerStore struct {
	mu      sync.Mutex
	owners  map[string]string
	down    bool
	queries int
}

var errDown = errors.New("the store is down")

func (s *ownerStore) Owner(_ context.Context, id string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queries++
	if s.down {
		return "", errDown
	}
	return s.owners[id], nil
}

func (s *ownerStore) AddOwners(_ context.Context, owners map[string]string, _ time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		return errDown
	}
	owners = maps.Clone(owners)
	maps.Copy(owners, s.owners)
	s.owners = owners
	return nil
}

func (s *ownerStore) ExpireOwners(context.Context, time.Time) error { return nil }

func (s *ownerStore) setDown(down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = down
}

// runOwners returns the Owners of a node with a store.
func runOwners(t *testing.T, s *ownerStore) (o *Owners, stop func()) {
	o = NewOwners()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { o.Run(ctx, s, slog.New(slog.DiscardHandler)) })
	synctest.Wait()
	return o, func() {
		cancel()
		running.Wait()
	}
}

func wantOwner(t *testing.T, o *Owners, id, want string) {
	t.Helper()
	if got, known := o.owner(t.Context(), id, true); got != want || known != (want != "") {
		t.Errorf("%s: %q %t, want %q", id, got, known, want)
	}
}

// TestOwnersOfOneNode checks that the first owner of an id keeps it, without a store.
func TestOwnersOfOneNode(t *testing.T) {
	o := NewOwners()
	o.Add("a", "id1", "", "id2")
	o.Add("b", "id2", "id3")
	wantOwner(t, o, "id1", "a")
	wantOwner(t, o, "id2", "a")
	wantOwner(t, o, "id3", "b")
	wantOwner(t, o, "id4", "")
	if len(o.waiting) != 0 {
		t.Error("owners wait for a store that does not exist")
	}
}

// TestOwnersOfSeveralNodes checks that a node finds at once an owner that another node has
// just added, and asks the store once. It also checks that owners are stored later if the
// store was down.
func TestOwnersOfSeveralNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &ownerStore{}
		one, stop := runOwners(t, s)
		defer stop()
		two, stop := runOwners(t, s)
		defer stop()
		one.Add("a", "id1")
		wantOwner(t, two, "id1", "a")
		before := s.queries
		wantOwner(t, two, "id1", "a")
		wantOwner(t, one, "id1", "a")
		if s.queries != before {
			t.Errorf("%d further queries", s.queries-before)
		}
		wantOwner(t, two, "unknown", "")

		s.setDown(true)
		one.Add("a", "id2")
		time.Sleep(time.Second) // the bubble's clock
		one.Add("a", "id3")
		wantOwner(t, one, "id2", "a")
		wantOwner(t, two, "id2", "")
		s.setDown(false)
		wantOwner(t, two, "id2", "a")
		wantOwner(t, two, "id3", "a")
	})
}

// TestOwnersAreStoredAtTheEnd checks that the last owners reach the store.
func TestOwnersAreStoredAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &ownerStore{}
		o, stop := runOwners(t, s)
		o.Add("a", "id1")
		stop()
		if len(s.owners) != 1 {
			t.Errorf("%d owners", len(s.owners))
		}
	})
}

// TestCheckOwners checks which tenant may refer to which ids.
func TestCheckOwners(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &ownerStore{}
		o, stop := runOwners(t, s)
		defer stop()
		o.Add("a", "of a")
		o.Add("b", "of b")
		list := func(ids ...string) (refs []codec.Reference) {
			for _, id := range ids {
				refs = append(refs, codec.Reference{ID: id})
			}
			return refs
		}
		for _, c := range []struct {
			refs   []codec.Reference
			refuse bool
			want   string
		}{
			{list("of a"), true, ""},
			{list("of a", "of b"), true, "of b"},
			{list("of a", "of b"), false, "of b"},
			{list("unknown", "of b"), true, "unknown"},
			{list("unknown", "of b"), false, "of b"},
			{list("unknown", "of a"), false, ""},
			{nil, true, ""},
		} {
			got := ""
			if bad := o.Check(t.Context(), "a", c.refs, c.refuse); bad != nil {
				got = bad.ID
			}
			if got != c.want {
				t.Errorf("%v %t: %q, want %q", c.refs, c.refuse, got, c.want)
			}
		}
		many := make([]codec.Reference, 10*maxUnknown)
		for i := range many {
			many[i].ID = strconv.Itoa(i)
		}
		before := s.queries
		if o.Check(t.Context(), "a", many, false) == nil || s.queries-before > maxUnknown {
			t.Errorf("%d queries of one request", s.queries-before)
		}
		s.setDown(true)
		if o.Check(t.Context(), "a", list("unknown"), false) != nil || o.Check(t.Context(), "a", list("unknown"), true) == nil {
			t.Error("a store that is down does not leave the decision to the setting")
		}
	})
}

// TestCreated checks from which responses of forwarded paths ids are read.
func TestCreated(t *testing.T) {
	for body, want := range map[string]string{
		`{"id":"file-1","object":"file"}`:                               "file-1",
		`{"file":{"name":"files/1","uri":"https://x/files/1"}}`:         "files/1",
		`{"name":"cachedContents/1"}`:                                   "cachedContents/1",
		`{"data":[{"id":"file-1"}]}`:                                    "",
		`{"id":"file-1"`:                                                "",
		`{"id":"file-1","x":"` + strings.Repeat("x", maxCreated) + `"}`: "",
	} {
		o := NewOwners()
		c := o.NewCreated("a", "POST", int64(len(body)))
		for i := range len(body) {
			c.Read([]byte{body[i]}, false)
		}
		if _, known := o.owner(t.Context(), want, false); known != (want != "") {
			t.Errorf("%.50s: %t", body, known)
		}
		if n := len(o.local.entries); want == "" && n > 0 {
			t.Errorf("%.50s: %d ids", body, n)
		}
	}
	if o := NewOwners(); o.NewCreated("", "POST", 1) != nil || o.NewCreated("a", "GET", 1) != nil || o.NewCreated("a", "POST", maxCreated+1) != nil {
		t.Error("ids of responses that create nothing are read")
	}
	var none *Created
	none.Read([]byte("x"), true)
}
