//go:build linux || darwin

package servers

import "syscall"

// FreeSpace is what ordinary users may still write to the disk of a folder, in bytes.
func FreeSpace(dir string) (int64, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return 0, err
	}
	return int64(s.Bavail) * int64(s.Bsize), nil //nolint:unconvert // the types differ between systems
}
