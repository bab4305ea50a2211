package redis

import (
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/isogloss-gateway/isogloss/internal/test/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestURL(t *testing.T) {
	for _, url := range []string{"http://x", "redis://user:hunter2@h:1/x", "redis://user:hunter2@h:%zz", "redis://user:hunter2#@h"} {
		err := Check(Options{URL: url})
		if err == nil {
			t.Errorf("%s was accepted", url)
			continue
		}
		if text := err.Error(); len(text) == 0 || strings.Contains(text, "hunter2") {
			t.Errorf("the error contains the password: %s", text)
		}
	}
}

// TestFrozenAtStart checks that a Redis that is frozen at the start delays neither New nor Close for long.
func TestFrozenAtStart(t *testing.T) {
	s := storetest.Redis(t)
	s.Freeze()
	defer s.Thaw()
	began := time.Now()
	c, err := New(Options{URL: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	if !c.Lost() {
		t.Error("a frozen server counts as up")
	}
	c.Close()
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("New and Close took %v", took)
	}
}

// TestSlots compares with the slots that Redis computes.
func TestSlots(t *testing.T) {
	for key, want := range map[string]int{"": 0, "123456789": 12739, "foo": 12182, "{foo}bar": 12182, "a{foo}": 12182, "{}foo": 9500, "foo{bar}{zap}": 5061, "foo{{bar}}zap": 4015} {
		if got := slotOf(key); got != want {
			t.Errorf("%q has slot %d, want %d", key, got, want)
		}
	}
}
