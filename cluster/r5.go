package main

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"
)

// runPostgresDown is R5.
func runPostgresDown(ctx context.Context, s *stage) error {
	began := time.Now()
	known, err := s.knownKeys(ctx, 10)
	if err != nil {
		return err
	}
	unknown, err := s.foreignKeys(ctx, 20)
	if err != nil {
		return err
	}
	const share = 20 // one in so many is unknown
	var isDown atomic.Bool
	end := s.background(ctx, of(s, loadRate, loadRate/2), func(i int) (key, string) {
		if i%share == 0 && isDown.Load() { // not before: nobody may have learned that they are unknown
			return unknown[i/share%len(unknown)], dear
		}
		return known[i%len(known)], dear
	})
	half := of(s, 150*time.Second, 7500*time.Millisecond)
	pause(ctx, time.Second)
	from := time.Now()
	pause(ctx, 2*time.Second)
	s.postgres.Freeze()
	frozen := time.Now()
	isDown.Store(true)
	pause(ctx, half)
	s.postgres.Kill()
	pause(ctx, half)
	down := between(s.clients.history.list(), frozen, time.Now()) // those that have ended
	isDown.Store(false)                                           // too many wrong keys from one address would have it shut out
	if err := s.postgres.Start(); err != nil {
		return err
	}
	back := time.Now()
	pause(ctx, 3*time.Second)
	seen := end()

	strange := map[string]bool{}
	for _, k := range unknown {
		strange[k.ID] = true
	}
	ours := pickAsked(seen, func(a asked) bool { return !strange[a.key] })
	s.check("r5/known-keys", fmt.Sprintf("%d requests, p99 %v before and %v while it was down", len(ours), p99(between(ours, from, frozen)).Round(10*time.Microsecond),
		p99(between(ours, frozen, back)).Round(10*time.Microsecond)), began, bad(ours, asked.good)...)
	theirs := pickAsked(down, func(a asked) bool { return strange[a.key] })
	s.check("r5/unknown-keys", fmt.Sprintf("%d requests", len(theirs)), began, append(bad(theirs, func(a asked) bool {
		return a.status == http.StatusServiceUnavailable && a.hint != ""
	}), unless(len(theirs) > 0, "there were none"))...)
	rows, err := s.settled(ctx, 60*time.Second)
	if err != nil {
		return err
	}
	s.check("r5/ledger", fmt.Sprintf("%d rows, all there %v after its start", len(rows), time.Since(back).Round(10*time.Millisecond)), back, s.compared(ctx, rows)...)
	return s.afterwards(ctx, unknown[0])
}

// knownKeys are keys that every node has seen.
func (s *stage) knownKeys(ctx context.Context, n int) ([]key, error) {
	all := make([]key, n)
	for i := range all {
		var err error
		if all[i], err = s.newKey(ctx, fmt.Sprintf("known-%d", i), limits{}); err != nil {
			return nil, err
		}
		if err := s.useEverywhere(ctx, all[i], dear); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// afterwards holds that keys can be told apart again.
func (s *stage) afterwards(ctx context.Context, unknown key) error {
	began := time.Now()
	var last asked
	_, late := waited(ctx, 5*time.Second, "an unknown key is not told so", func() bool {
		last = s.spend(ctx, 0, unknown, 1)
		return last.status == http.StatusUnauthorized
	})
	k, err := s.newKey(ctx, "new", limits{})
	if err != nil {
		return err
	}
	err = s.useEverywhere(ctx, k, dear)
	s.check("r5/afterwards", "an unknown key gets 401, a new one is served", began, late, unless(late == "", "%v", last), unless(err == nil, "%v", err))
	return nil
}

func pickAsked(all []asked, ok func(asked) bool) (some []asked) {
	for _, a := range all {
		if ok(a) {
			some = append(some, a)
		}
	}
	return some
}
