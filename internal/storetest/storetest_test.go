package storetest

import (
	"context"
	"testing"
	"time"
)

// Each store starts, is frozen, goes on, is killed, emptied and started again.
func TestStores(t *testing.T) {
	for name, start := range map[string]func(testing.TB) *Server{"redis": Redis, "postgres": Postgres, "etcd": Etcd} {
		t.Run(name, func(t *testing.T) {
			s := start(t)
			s.Freeze()
			ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
			defer cancel()
			if err := s.kind.ready(ctx, s.Addr); err == nil {
				t.Error("a frozen store answers")
			}
			s.Thaw()
			if err := s.await(); err != nil {
				t.Fatal(err)
			}
			s.Kill()
			if err := s.kind.ready(context.Background(), s.Addr); err == nil {
				t.Error("a killed store answers")
			}
			if err := s.Wipe(); err != nil {
				t.Fatal(err)
			}
			if err := s.Start(); err != nil {
				t.Fatal(err)
			}
		})
	}
}
