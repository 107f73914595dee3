package config

import (
	"os"
	"syscall"
)

// inode tells a replaced file from one that only has the same size and time.
func inode(info os.FileInfo) uint64 {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return s.Ino
	}
	return 0
}
