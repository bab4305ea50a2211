package consume

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/ledger/store"
	"github.com/isogloss-gateway/isogloss/internal/ledger/store/db"
	"github.com/isogloss-gateway/isogloss/internal/ledger/usagelog"
	"github.com/isogloss-gateway/isogloss/internal/ledger/usagelog/ledger"
)

// event returns an event that costs a billionth of a dollar, in some version.
func event(version, position int) string {
	return fmt.Sprintf(`{"v":%d,"log":"l","position":%d,"id":"r-%d","time":%q,"outcome":"answered","org":"o","cost_nano_usd":1}`+"\n", version, position, position, time.Now().UTC().Format(time.RFC3339))
}

// batch returns a message with events of one log from a position on.
func batch(offset int64, after int, events ...string) usagelog.Record {
	return signed(offset, fmt.Sprintf("l/0/%d/%d", after, after+len(events)), strings.Join(events, ""))
}

// consumeAll runs a consumer until the organisation has spent an amount and its metrics have some lines.
func consumeAll(t *testing.T, s *store.Store, log *memoryLog, rows Requests, spent int, lines ...string) {
	t.Helper()
	c := New(Options{Key: testKey, ID: fmt.Sprint("c", time.Now().UnixNano()), Log: log, Partitions: 1, Ledger: ledger.Ledger{Store: s, Balances: true}, Requests: rows, BlockWait: time.Millisecond})
	ctx, cancel := context.WithCancel(t.Context())
	var work sync.WaitGroup
	work.Go(func() { _ = c.Run(ctx) })
	defer func() { cancel(); work.Wait() }()
	await(t, func() string {
		w := httptest.NewRecorder()
		c.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		for _, line := range lines {
			if !strings.Contains(w.Body.String(), "\n"+line+"\n") {
				return "no " + line + " in " + w.Body.String()
			}
		}
		got, err := s.Spent(t.Context(), "org:o", time.Now().Add(-time.Hour).Truncate(time.Minute))
		if err != nil || int(got.Since[0]) != spent {
			return fmt.Sprintf("the balance is %v, %v, want %d", got, err, spent)
		}
		return ""
	})
}

// TestForgedMessages checks that messages that no gateway has written change nothing: not with a position that
// would hide all later usage, with usage of others, or as a copy of a true message under another name.
func TestForgedMessages(t *testing.T) {
	s := openStore(t, "sqlite:"+filepath.Join(t.TempDir(), "db"))
	log, rows := newLog(1), newRequests()
	first := batch(0, 0, event(1, 1), event(1, 2))
	renamed, longer, unsigned, other := first, first, first, first
	renamed.Offset, renamed.Header = 1, "l/0/2/9223372036854775806"
	longer.Offset, longer.Body = 2, append(append([]byte{}, first.Body...), event(1, 3)...)
	unsigned.Offset, unsigned.Header, unsigned.MAC = 3, "l/0/2/9223372036854775806", ""
	other.Offset, other.Header = 4, "l/0/2/4"
	other.MAC = usagelog.Key("another pepper").MAC(other.Header, other.Body)
	log.parts[0] = []usagelog.Record{first, renamed, longer, unsigned, other, batch(5, 2, event(1, 3))}
	consumeAll(t, s, log, rows, 3, "isogloss_consume_forged_total 4", "isogloss_consume_messages_total 6")
	at, err := (ledger.Ledger{Store: s}).Positions(t.Context(), "l")
	if err != nil || len(at.Partitions) != 1 || at.Partitions[0].Position != 3 {
		t.Errorf("%+v, %v", at, err)
	}
}

// TestNewerEvents checks that events of a newer version wait while the partition goes on, that they come once if
// they are sent again, and that a consumer that knows their version counts them once.
func TestNewerEvents(t *testing.T) {
	for name, url := range databases(t) {
		t.Run(name, func(t *testing.T) {
			s := openStore(t, url)
			log, rows := newLog(1), newRequests()
			strange := `{"v":2,"log":"l","position":3,"id":["r",3],"time":7}` + "\n"
			log.parts[0] = []usagelog.Record{batch(0, 0, event(1, 1), event(2, 2), strange), batch(1, 0, event(1, 1), event(2, 2)), batch(2, 3, event(1, 4))}
			consumeAll(t, s, log, rows, 2, "isogloss_consume_parked 2", "isogloss_consume_messages_total 3")
			// The update: the consumer knows version 2.
			err := s.Write(t.Context(), func(ctx context.Context, c db.Conn) error {
				return c.Exec(ctx, `UPDATE usage_parked SET event = replace(event, '"v":2', '"v":1')`)
			})
			if err != nil {
				t.Fatal(err)
			}
			for range 2 { // the second consumer finds nothing more to add
				consumeAll(t, s, log, rows, 3, "isogloss_consume_parked 1") // the strange one
			}
			if rows.count() != 3 {
				t.Errorf("%d requests are stored", rows.count())
			}
		})
	}
}

// TestTooManyNewerEvents checks that not more events wait than the limit: the partition stops then, and the events
// stay in the log.
func TestTooManyNewerEvents(t *testing.T) {
	s := openStore(t, "sqlite:"+filepath.Join(t.TempDir(), "db"))
	events := make([]string, maxParked+1)
	for i := range events {
		events[i] = event(2, i+1)
	}
	log := newLog(1)
	log.parts[0] = []usagelog.Record{batch(0, 0, events...)}
	c := New(Options{Key: testKey, ID: "c", Log: log, Partitions: 1, Ledger: ledger.Ledger{Store: s}, BlockWait: time.Millisecond})
	ctx, cancel := context.WithCancel(t.Context())
	var work sync.WaitGroup
	work.Go(func() { _ = c.Run(ctx) })
	defer func() { cancel(); work.Wait() }()
	await(t, func() string {
		if c.failures.Load() == 0 {
			return "the partition is read"
		}
		return ""
	})
	if waiting, err := (ledger.Ledger{Store: s}).Parked(t.Context(), c.member, 0); err != nil || len(waiting) != 0 {
		t.Errorf("%d events wait, %v", len(waiting), err)
	}
}
