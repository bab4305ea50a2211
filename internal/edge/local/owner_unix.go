//go:build unix

package local

import (
	"os"
	"syscall"
)

// ownerOf returns the user id of a file's owner, or -2, which is nobody's.
func ownerOf(info os.FileInfo) int {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(st.Uid)
	}
	return -2
}
