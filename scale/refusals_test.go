package scale

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	client "github.com/isogloss-gateway/isogloss/internal/ledger/clickhouse"
	"github.com/isogloss-gateway/isogloss/internal/ledger/store"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/internal/test/storetest"
	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// refusedLedger has refused requests.
type refusedLedger interface {
	Refusals(ctx context.Context, q store.RefusalQuery) ([]store.Refused, error)
	Rows(ctx context.Context, q store.RowQuery) ([]usage.Row, error)
}

// TestRefusals sends refused requests from a gateway through Kafka and NATS to ClickHouse and PostgreSQL, while the consumer
// is killed again and again. The ledger has as many as clients were refused, and each kept request once.
func TestRefusals(t *testing.T) {
	needs(t, "ISOGLOSS_SCALE")
	t.Run("nats-postgres", func(t *testing.T) {
		dir, port := t.TempDir(), strconv.Itoa(freePort(t))
		broker := start(t, dir, "nats", needs(t, "ISOGLOSS_NATS_SERVER"), "-js", "-sd", filepath.Join(dir, "nats-data"), "-a", "127.0.0.1", "-p", port)
		refuse(t, dir, broker, fmt.Sprintf("nats: {servers: [\"nats://127.0.0.1:%s\"], stream: usage, partitions: 2, replicas: 1}", port), "")
	})
	t.Run("kafka-clickhouse", func(t *testing.T) {
		dir, address, controller := t.TempDir(), "127.0.0.1:"+strconv.Itoa(freePort(t)), freePort(t)
		broker := startBroker(t, dir, 1, fmt.Sprintf("controller.quorum.voters=1@127.0.0.1:%[2]d\nlisteners=PLAINTEXT://%[1]s,CONTROLLER://127.0.0.1:%[2]d\nadvertised.listeners=PLAINTEXT://%[1]s\noffsets.topic.replication.factor=1\n", address, controller))
		refuse(t, dir, broker, fmt.Sprintf("kafka: {brokers: [%q], topic: usage, partitions: 2, replicas: 1}", address), clickhouse(t, dir).url)
	})
}

// refuse runs a gateway with a log, and a consumer that writes to ClickHouse or, without it, to PostgreSQL.
func refuse(t *testing.T, dir string, broker *process, sink, engine string) {
	t.Helper()
	binary, postgres := needs(t, "ISOGLOSS_BINARY"), storetest.Postgres(t).URL
	upstream := httptest.NewServer(http.NotFoundHandler())
	defer upstream.Close()
	table := ""
	if engine != "" {
		table = fmt.Sprintf(", clickhouse: {url: %q}", engine)
	}
	address := "127.0.0.1:" + strconv.Itoa(freePort(t))
	path := filepath.Join(dir, "isogloss.yaml")
	text := fmt.Sprintf("store: {url: %q, peppers: [0123456789012345678901234567890123456789]}\nusage: {sink: {%s}%s}\nnode: gw\ndata: %s\nlisten: %q\nadmin: {listen: \"127.0.0.1:%d\"}\n%s",
		postgres, sink, table, filepath.Join(dir, "data"), address, freePort(t), models(upstream.URL+"/v1"))
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	gateway, consumer := start(t, dir, "gateway", binary, "serve", "-c", path), start(t, dir, "consumer", binary, "consume", "-c", path)
	var key struct{ ID, Key string }
	var out []byte
	create := func() bool { // fails until the first process has migrated the store
		var err error
		out, err = exec.CommandContext(t.Context(), binary, "keys", "create", "-c", path, "--json", "--name", "none", "--models", "another").Output()
		return err == nil && json.Unmarshal(out, &key) == nil
	}
	if testrig.Until(t.Context(), testrig.Patience, "", create) != nil {
		t.Fatalf("%s", out)
	}

	ctx, stop := context.WithTimeout(t.Context(), min(duration(t), time.Minute))
	defer stop()
	var work sync.WaitGroup
	var refused, lost atomic.Int64
	for range 4 {
		work.Go(func() {
			for ctx.Err() == nil {
				switch status := refusedRequest(t, address, key.Key); status {
				case http.StatusForbidden:
					refused.Add(1)
				case 0:
					lost.Add(1)
				}
			}
		})
	}
	kills := 0
	for ; ctx.Err() == nil; kills++ {
		testrig.Pause(ctx, 4*time.Second)
		consumer.hurt(0, time.Second)
		if kills == 1 {
			broker.hurt(0, 8*time.Second)
		}
	}
	work.Wait()
	if refused.Load() == 0 || lost.Load() > 0 || kills < 2 {
		t.Fatalf("%d refused, %d without a response, %d kills", refused.Load(), lost.Load(), kills)
	}

	s, err := store.Open(t.Context(), postgres, store.Options{Timeout: 30 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var ledger refusedLedger = s
	if engine != "" {
		d := client.New(client.Options{URL: engine})
		defer d.Close()
		ledger = d
	}
	last := ""
	same := func() bool {
		list, err := ledger.Refusals(t.Context(), store.RefusalQuery{From: time.Now().Add(-time.Hour)})
		last = fmt.Sprintf("the ledger has %+v (%v), want %d of %s", list, err, refused.Load(), key.ID)
		return len(list) == 1 && list[0].Key == key.ID && list[0].Reason == usage.RefusedAccess && list[0].Count == refused.Load()
	}
	if testrig.Until(t.Context(), 3*time.Minute, "", same) != nil {
		log, _ := os.ReadFile(gateway.log)
		t.Fatalf("%s\n%s", last, log[max(0, len(log)-2000):])
	}
	rows, err := ledger.Rows(t.Context(), store.RowQuery{Outcome: usage.Refused, Limit: 1000})
	ids := map[string]bool{}
	for _, r := range rows {
		ids[r.ID] = true
	}
	if err != nil || len(rows) == 0 || len(ids) != len(rows) {
		t.Errorf("%d rows with %d ids, %v", len(rows), len(ids), err)
	}
	record(t, "%d refused requests counted exactly, %d of them kept once each, %d kills of the consumer and one of the broker", refused.Load(), len(rows), kills)
	t.Logf("%d refused, %d kept, %d kills", refused.Load(), len(rows), kills)
}

// refusedRequest sends a request for a model that the key may not use, and returns the status, 0 without one.
func refusedRequest(t *testing.T, address, key string) int {
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+address+"/v1/chat/completions", strings.NewReader(`{"model":"m","max_tokens":10,"messages":[{"role":"user","content":"hello"}]}`))
	if err != nil {
		return 0
	}
	r.Header.Set("Authorization", "Bearer "+key)
	r.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0
	}
	_ = response.Body.Close()
	return response.StatusCode
}
