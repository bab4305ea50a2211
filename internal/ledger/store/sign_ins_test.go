package store

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/ledger/store/db"
)

// TestSignIns checks that a device code is taken once, that only a waiting sign-in can be approved,
// and that expired ones are gone.
func TestSignIns(t *testing.T) {
	both(t, func(t *testing.T, open func() *Store) {
		s, now := open(), time.Now()
		ctx := t.Context()
		for _, id := range []string{"a", "b"} {
			no(t, s.AddSignIn(ctx, SignIn{ID: id, Code: "code-" + id, Status: SignInPending, Seal: []byte{1}, Expires: now.Add(time.Minute)}, now))
		}
		n, err := s.TakeSignIn(ctx, "a", now)
		no(t, err)
		if n.Status != SignInPending || !n.Polled.IsZero() {
			t.Errorf("%+v", n)
		}
		if n, err = s.TakeSignIn(ctx, "a", now.Add(time.Second)); err != nil || n.Polled.UnixNano() != now.UnixNano() {
			t.Errorf("%+v, %v: polled at %v", n, err, now)
		}
		if n, err = s.PendingSignIn(ctx, "code-a", now); err != nil || n.ID != "a" {
			t.Errorf("%+v, %v", n, err)
		}
		no(t, s.FinishSignIn(ctx, "code-a", SignInApproved, []byte("sealed"), now))
		if err := s.FinishSignIn(ctx, "code-a", SignInApproved, []byte("other"), now); !errors.Is(err, ErrNoSignIn) {
			t.Errorf("approved twice: %v", err)
		}
		var taken atomic.Int32
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				if n, err := s.TakeSignIn(ctx, "a", now); err == nil && string(n.Tokens) == "sealed" {
					taken.Add(1)
				} else if !errors.Is(err, ErrNoSignIn) {
					t.Error(n, err)
				}
			})
		}
		all.Wait()
		if taken.Load() != 1 {
			t.Errorf("the code was taken %d times", taken.Load())
		}
		if err := s.FinishSignIn(ctx, "code-b", SignInApproved, nil, now.Add(2*time.Minute)); !errors.Is(err, ErrNoSignIn) {
			t.Errorf("an expired sign-in was approved: %v", err)
		}
		if _, err := s.TakeSignIn(ctx, "b", now.Add(2*time.Minute)); !errors.Is(err, ErrNoSignIn) {
			t.Errorf("an expired sign-in was taken: %v", err)
		}
	})
}

// TestFloodOfSignIns fills the list of sign-ins that wait: others still begin, and the devices that ask go on waiting.
func TestFloodOfSignIns(t *testing.T) {
	both(t, func(t *testing.T, open func() *Store) {
		s, now := open(), time.Now()
		ctx := t.Context()
		add := func(id string) {
			no(t, s.AddSignIn(ctx, SignIn{ID: id, Code: "code-" + id, Status: SignInPending, Seal: []byte{1}, Expires: now.Add(time.Minute)}, now))
		}
		add("honest")
		_, err := s.TakeSignIn(ctx, "honest", now)
		no(t, err)
		add("flood")
		no(t, s.db.Write(ctx, func(ctx context.Context, c db.Conn) error {
			return c.Exec(ctx, `INSERT INTO sign_ins (`+signInColumns+`) WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < `+strconv.Itoa(maxPending)+`) `+
				`SELECT 'flood-' || i, 'flood-' || i, status, seal, tokens, polled, expires, owner FROM sign_ins, n WHERE id = 'flood'`)
		}))
		for _, id := range []string{"next", "last"} {
			add(id)
			_, err := s.TakeSignIn(ctx, id, now)
			no(t, err)
		}
		for _, id := range []string{"honest", "next", "last"} {
			if _, err := s.PendingSignIn(ctx, "code-"+id, now); err != nil {
				t.Errorf("%s: %v", id, err)
			}
		}
		no(t, s.db.Read(ctx, func(ctx context.Context, c db.Conn) error {
			var waiting int
			if err := c.Row(ctx, `SELECT count(*) FROM sign_ins WHERE status = $1`, string(SignInPending))(&waiting); err != nil || waiting != maxPending {
				t.Errorf("%d wait, %v", waiting, err)
			}
			return nil
		}))
	})
}

// TestSessions checks that sessions end, are renewed, and cannot be taken as device codes.
func TestSessions(t *testing.T) {
	both(t, func(t *testing.T, open func() *Store) {
		s, now := open(), time.Now()
		ctx := t.Context()
		no(t, s.AddSignIn(ctx, SignIn{ID: "s", Status: SignInSession, Seal: []byte{1}, Tokens: []byte("one"), Expires: now.Add(time.Minute)}, now))
		for _, err := range []error{
			s.FinishSignIn(ctx, "s", SignInApproved, nil, now),
			second(s.TakeSignIn(ctx, "s", now)), second(s.PendingSignIn(ctx, "s", now)), second(s.Session(ctx, "s", now.Add(time.Hour))),
		} {
			if !errors.Is(err, ErrNoSignIn) {
				t.Errorf("%v", err)
			}
		}
		no(t, s.RenewSession(ctx, "s", []byte("two")))
		if n, err := s.Session(ctx, "s", now); err != nil || string(n.Tokens) != "two" {
			t.Errorf("%+v, %v", n, err)
		}
		no(t, s.EndSession(ctx, "s"))
		if _, err := s.Session(ctx, "s", now); !errors.Is(err, ErrNoSignIn) {
			t.Errorf("the session is still there: %v", err)
		}
	})
}

// TestSessionsOfAnOwner checks that an owner has a bounded number of sessions, also if they begin at once, and that
// they end no session of another owner.
func TestSessionsOfAnOwner(t *testing.T) {
	both(t, func(t *testing.T, open func() *Store) {
		s, now := open(), time.Now()
		add := func(owner string, n int) {
			no(t, s.AddSignIn(t.Context(), SignIn{ID: owner + strconv.Itoa(n), Owner: owner, Status: SignInSession, Expires: now.Add(time.Hour + time.Duration(n))}, now))
		}
		add("other", 0)
		var all sync.WaitGroup
		for n := range MaxSessions + 10 {
			all.Go(func() { add("key", n) })
		}
		all.Wait()
		add("key", MaxSessions+10)
		left := 0
		for n := range MaxSessions + 11 {
			if _, err := s.Session(t.Context(), "key"+strconv.Itoa(n), now); err == nil {
				left++
			}
		}
		if left != MaxSessions {
			t.Errorf("%d sessions, want %d", left, MaxSessions)
		}
		for _, id := range []string{"other0", "key" + strconv.Itoa(MaxSessions+10)} {
			if _, err := s.Session(t.Context(), id, now); err != nil {
				t.Errorf("%s: %v", id, err)
			}
		}
	})
}

func second(_ SignIn, err error) error { return err }
