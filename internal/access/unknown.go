package access

import "errors"

// ErrUnknown says that a store has been asked and has no such key. Any other error
// of a store says nothing about the key.
var ErrUnknown = errors.New("no such key")
