package usagelog_test

import (
	"context"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/ledger/usagelog"
	"github.com/isogloss-gateway/isogloss/internal/ledger/usagelog/kafka"
	"github.com/isogloss-gateway/isogloss/internal/ledger/usagelog/nats"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
)

// log is a log that can be written.
type log interface {
	usagelog.Log
	usagelog.Producer
}

// logs are those of the servers in ISOGLOSS_KAFKA and ISOGLOSS_NATS, addresses with commas between them.
func logs(t *testing.T) map[string]log {
	t.Helper()
	all := map[string]log{}
	name := fmt.Sprint("test-", time.Now().UnixNano())
	if brokers := os.Getenv("ISOGLOSS_KAFKA"); brokers != "" {
		l, err := kafka.New(kafka.Settings{Brokers: strings.Split(brokers, ","), Topic: name, Partitions: 3, Replicas: 1}, nil)
		if err != nil {
			t.Fatal(err)
		}
		all["kafka"] = l
	}
	if servers := os.Getenv("ISOGLOSS_NATS"); servers != "" {
		all["nats"] = nats.New(nats.Settings{Servers: strings.Split(servers, ","), Stream: name, Partitions: 3, Replicas: 1}, nil)
	}
	if len(all) == 0 {
		t.Skip("ISOGLOSS_KAFKA and ISOGLOSS_NATS are not set; make scale sets them")
	}
	return all
}

// positions stores nothing.
type positions struct{}

func (positions) Positions(context.Context, string) (usage.Positions, error) {
	return usage.Positions{}, nil
}
func (positions) Finish(context.Context, string) error { return nil }

// TestBrokers writes to real servers and reads again, from the beginning and from an offset.
func TestBrokers(t *testing.T) {
	for name, l := range logs(t) {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			defer l.Close()
			for range 2 { // the second time it is there
				if err := l.Create(ctx); err != nil {
					t.Fatal(err)
				}
			}
			sink := usagelog.NewSink(l, positions{}, 3, usagelog.Key("key of the test"))
			var want []string
			for i := range 40 {
				row := usage.Row{ID: fmt.Sprint(i), Org: "o", Began: time.Now()}
				if _, err := sink.Append(ctx, usage.Batch{Log: "l", After: int64(i), To: int64(i + 1), Rows: []usage.Row{row}, Positions: []int64{int64(i + 1)}}); err != nil {
					t.Fatal(err)
				}
				want = append(want, row.ID)
			}
			ids, all := read(t, ctx, l, 0, 40)
			if !reflect.DeepEqual(ids, want) {
				t.Errorf("the events are %v", ids)
			}
			if ids, _ := read(t, ctx, l, all[25].Offset, 15); !reflect.DeepEqual(ids, want[25:]) {
				t.Errorf("after an offset the events are %v", ids)
			}
			if ids, _ := read(t, ctx, l, all[39].Offset+1000, 40); !reflect.DeepEqual(ids, want) {
				t.Errorf("an offset that is not there gives %v", ids)
			}
		})
	}
}

// read reads the partition that has events.
func read(t *testing.T, ctx context.Context, l usagelog.Log, offset int64, count int) (ids []string, all []usagelog.Record) { //nolint:revive // t is first in tests
	t.Helper()
	for p := range 3 {
		r, err := l.Open(ctx, p, offset)
		if err != nil {
			t.Fatal(err)
		}
		for empty := 0; len(ids) < count && empty < 4; {
			records, err := r.Read(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if len(records) == 0 {
				empty++
			}
			for _, one := range records {
				name, err := usagelog.ParseName(one.Header)
				if err != nil || name.Partition != p {
					t.Fatalf("%q is in partition %d, %v", one.Header, p, err)
				}
				m := usagelog.Message{Name: name, Body: one.Body}
				events, newer, bad := m.Events()
				if len(newer)+bad > 0 || !usagelog.Key("key of the test").Verifies(&one) {
					t.Fatal(newer, bad, one.MAC)
				}
				for i := range events {
					ids = append(ids, events[i].ID)
				}
				all = append(all, one)
			}
		}
		r.Close()
	}
	return ids, all
}
