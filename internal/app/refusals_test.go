package app

import (
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/money/quota"
	"github.com/isogloss-gateway/isogloss/internal/people/access"
	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
	"github.com/isogloss-gateway/isogloss/internal/test/upstreamtest"
)

// TestRefusalsAreFound refuses 85 requests of a key with a limit, 3 with a wrong secret of it, and some of a key that does
// not exist: the admin API has the first two by reason, in usage and by request id, and nothing of the last.
func TestRefusalsAreFound(t *testing.T) {
	up, data := upstreamtest.New(t), t.TempDir()
	up.Answer(expensive)
	configuration := stored(up, data, "sqlite", "")
	keys := keyringOf(t, configuration)
	limited, owner := keys.must(t, quota.Limit{Requests: 1}), keys.operator(t, access.Owner)
	_, wrong := access.MintAgain("live", limited.ID)
	_, _, unknown := access.Mint("live")
	g := start(t, configuration, quick())
	g.want(t, "fast", limited.Text, 200, "choices")
	var id string
	for range 85 {
		status, body, header := g.try(t, "fast", limited.Text)
		if status != 429 || !strings.Contains(body, "rate_limit_requests") {
			t.Fatal(status, body)
		}
		if id == "" {
			id = header.Get("X-Request-Id")
		}
	}
	for range 3 {
		g.want(t, "fast", wrong, 401, "invalid_api_key")
		g.want(t, "fast", unknown, 401, "invalid_api_key")
	}
	var total struct {
		Sums  []struct{ Key string }
		Total struct{ Requests, Refused int64 }
	}
	testrig.EventuallyNil(t, "usage has the refused requests", func() error {
		g.operate(t, owner.Text, "/usage?group=key", &total)
		if total.Total.Refused != 88 || total.Total.Requests != 1 {
			return fmt.Errorf("%+v", total)
		}
		return nil
	})
	if len(total.Sums) != 1 || total.Sums[0].Key != limited.ID {
		t.Errorf("%+v", total)
	}
	var list struct {
		Refusals []struct {
			Key, Reason string
			Count       int64
		}
	}
	g.operate(t, owner.Text, "/refusals", &list)
	got := map[string]int64{}
	for _, r := range list.Refusals {
		got[r.Key+" "+r.Reason] = r.Count
	}
	if want := map[string]int64{limited.ID + " limit": 85, limited.ID + " key": 3}; !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	var row struct {
		Outcome, Key string
		Status       int
		Error        struct{ Code, Message, Refused, Remedy string }
	}
	testrig.EventuallyNil(t, "the request is found by its id", func() error {
		if status := g.operate(t, owner.Text, "/requests/"+id, &row); status != 200 {
			return fmt.Errorf("status %d", status)
		}
		return nil
	})
	if row.Outcome != "refused" || row.Status != 429 || row.Key != limited.ID || row.Error.Refused != "limit" || row.Error.Code != "rate_limit_requests" ||
		!strings.Contains(row.Error.Message, "key:"+limited.ID) || !strings.Contains(row.Error.Remedy, "a higher limit") {
		t.Errorf("%+v", row)
	}
	g.wait(t)
	if files, err := filepath.Glob(filepath.Join(data, "refusals-*")); err != nil || len(files) != 0 {
		t.Errorf("the store has everything, but there are %v, %v", files, err)
	}
}
