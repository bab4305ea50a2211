//go:build !linux

package doctor

import "errors"

var errPlatform = errors.New("this is read on Linux only")

type disk struct {
	kind                         string
	size, free, nodes, freeNodes uint64
	readOnly, shared, memory     bool
}

func diskOf(string) (disk, error) { return disk{}, errPlatform }

func holderOf(string) (holder, bool) { return holder{}, false }

func limitsOf(int) (limits, error) { return limits{}, errPlatform }
