package login

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

const (
	lockPause = 50 * time.Millisecond
	lockStale = time.Minute // age of the lock of a process that was killed
)

// DefaultFile returns the file of the person who runs the program.
func DefaultFile() (string, error) {
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, "isogloss", "logins.json"), nil
}

// read returns the sign-ins by gateway.
func (l *Logins) read() (map[string]login, error) {
	text, err := os.ReadFile(l.File)
	if errors.Is(err, fs.ErrNotExist) {
		return map[string]login{}, nil
	}
	if err != nil {
		return nil, err
	}
	var all map[string]login
	if err := json.Unmarshal(text, &all); err != nil || all == nil {
		return nil, fmt.Errorf("%s cannot be read: %w; remove it and sign in again", l.File, err)
	}
	return all, nil
}

// change edits the sign-ins while no other process does.
func (l *Logins) change(ctx context.Context, edit func(map[string]login) error) error {
	if err := os.MkdirAll(filepath.Dir(l.File), 0o700); err != nil {
		return err
	}
	unlock, err := l.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	all, err := l.read()
	if err != nil {
		return err
	}
	if err := edit(all); err != nil {
		return err
	}
	text, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	next := l.File + ".new"
	if err := os.WriteFile(next, append(text, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(next, l.File)
}

// lock creates the lock file, and waits while another process has it.
func (l *Logins) lock(ctx context.Context) (unlock func(), err error) {
	path := l.File + ".lock"
	for {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600) //nolint:gosec // the person's own path
		if err == nil {
			_ = f.Close() // empty
			return func() { _ = os.Remove(path) }, nil
		}
		if !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
		if info, err := os.Stat(path); err == nil && time.Since(info.ModTime()) > lockStale {
			_ = os.Remove(path) // the next attempt reports the error
		}
		select {
		case <-time.After(lockPause):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// pick returns the gateway to use: the given one, or the only one.
func pick(all map[string]login, gateway string) (string, error) {
	if gateway == "" {
		for only := range all {
			if len(all) == 1 {
				return only, nil
			}
		}
		if len(all) > 1 {
			return "", errors.New("you are signed in at several gateways; write the URL of one")
		}
		return "", errors.New("you are not signed in; run 'isogloss login URL'")
	}
	at, err := clean(gateway)
	if err != nil {
		return "", err
	}
	if _, ok := all[at]; !ok {
		return "", fmt.Errorf("you are not signed in at %s; run 'isogloss login %s'", at, at)
	}
	return at, nil
}
